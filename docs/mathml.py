"""Formulas of the site as MathML, which browsers show by themselves, without a script from elsewhere."""

from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer that conf.py names."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, *, as_block: bool = False) -> str:
    made: str = latex2mathml.tex2mathml(node.astext(), as_block=as_block)
    return made.replace("<mi>log</mi>", '<mi>log</mi><mspace width="0.17em"></mspace>')
