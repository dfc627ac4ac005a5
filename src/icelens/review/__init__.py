"""Reviewing what an audit found: the store of verdicts, what they teach, and the app to give them in."""

from __future__ import annotations
