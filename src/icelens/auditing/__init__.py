"""From labelled data to the list of labels that are probably wrong."""

from __future__ import annotations
