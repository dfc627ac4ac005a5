"""Templates of pages: all that they are given is escaped, and what they lack is an error."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from icelens.auditing.report import words
from icelens.counts import counted

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment(package: str) -> Environment:
    """The templates in the folder `templates` of a package, with the filters by which pages write numbers."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"count": words.count, "counted": counted, "tally": words.tally, "nb": unbroken}
    made.globals["share_of"] = words.share_of
    return made


def unbroken(sentence: str) -> str:
    """No line ends between a number and its sign."""
    return sentence.replace(" %", "\u00a0%")
