"""The report of an audit: one HTML file that needs nothing else."""

from __future__ import annotations

from icelens.auditing.report.html import write_report

__all__ = ["write_report"]
