"""icelens shows which labels to trust."""

__version__ = "0.1.0"
