"""Settings of the documentation site. To build it: sphinx-build -W -n docs site."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # mathml.py

from jupyter_client.manager import KernelManager

import icelens

project = "icelens"
author = "The icelens developers"
version = release = icelens.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml"]

smartquotes_action = "D"  # dashes alone: quotes in docstrings are Python's
html_theme = "furo"
html_title = "icelens"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_logo = "static/logo.svg"
html_favicon = "static/logo.svg"
html_math_renderer = "mathml"
html_copy_source = html_show_sourcelink = html_show_copyright = False
html_show_search_summary = False  # it is fetched, which pages opened from a disk may not

myst_enable_extensions = ["dollarmath", "html_image"]
myst_heading_anchors = 3  # links such as audit.md#how-it-works, as on code hosts

# Notebooks are kept without their outputs, and run whenever the site is built.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 120
if hasattr(KernelManager, "transport_encryption"):
    KernelManager.transport_encryption.default_value = "auto"  # else each kernel warns

default_role = "code"  # docstrings are written for help(), with single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# Other packages have no pages here, and none are fetched; F is a type variable.
nitpick_ignore_regex = [("py:.*", r"(?!icelens).*|icelens\.plots\.images\.F")]


def setup(app: Any) -> None:
    """Leave out what stands elsewhere: a public name is described once, as people type it."""
    app.connect("autodoc-skip-member", _stands_elsewhere)


def _stands_elsewhere(app: Any, what: str, name: str, member: Any, *_: Any) -> bool | None:
    if getattr(member, "__module__", "").startswith("sklearn."):  # what its base classes add
        return True
    is_public = what == "module" and name in icelens.__all__ and getattr(icelens, name) is member
    return True if is_public and app.env.docname != "reference/icelens" else None
