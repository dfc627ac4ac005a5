"""Label Studio: tasks with the model's predictions, and a labeling interface to load beside them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from icelens.auditing.source import found_source
from icelens.counts import counted, one_or_more
from icelens.errors import InputError
from icelens.export.images import image_uri
from icelens.export.reviewed import Reviewed
from icelens.files import replacing

CONTROL, VERDICT = "label", "verdict"  # the names of what annotators choose in
INDEX, ID, AUDIT = "icelens_index", "icelens_id", "icelens_audit"  # by which an annotation finds its example
_UNWRITABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_labelstudio(reviewed: Reviewed, part: Path, out: Path, first: int | None = None) -> str:
    """Tasks as JSON, the least trusted first, and the labeling interface beside them.

    An example with a verdict is no task: people have looked at it, and an answer to its task would
    overrule them.

    Args:
        reviewed: the audit.
        part: where to write the tasks to.
        out: what they will be called; the interface is named after it.
        first: how many; the issues of the audit where left out.
    """
    is_judged = reviewed.examples["verdict"].notna()
    ranked = reviewed.examples[~is_judged].sort_values("trust", kind="stable")
    chosen = ranked[ranked["is_issue"]] if first is None else ranked.head(first)
    records: Any = chosen.to_dict("records")
    tasks = [task(reviewed, example) for example in records]
    part.write_text(json.dumps(tasks, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    interface = out.with_suffix(".xml")
    with replacing(interface) as file:
        file.write_text(labeling_interface(reviewed), encoding="utf-8")
    told = f"{counted(len(tasks), 'task')}{_left_out(int(is_judged.sum()))}"
    return f"{told}; paste {interface} into the project's labeling interface"


def _left_out(judged: int) -> str:
    have = one_or_more(judged, "has", "have")
    return f" without {counted(judged, 'example')} that {have} a verdict" if judged else ""


def labeling_interface(reviewed: Reviewed) -> str:
    """What Label Studio shows of a task, and the classes to choose from."""
    shown = {"text": "Text", "image": "Image", "table": "Table"}[reviewed.data.kind]
    names = _content_names(reviewed)
    choices = "".join(f"\n    <Choice value={_attribute(name)}/>" for name in reviewed.classes)
    objects = "".join(f'\n  <{shown} name="{name}" value="${name}"/>' for name in names)
    return (
        f"<View>{objects}\n"
        f'  <Choices name="{CONTROL}" toName="{names[0]}" choice="single" showInLine="true">{choices}\n'
        "  </Choices>\n"
        f'  <Choices name="{VERDICT}" toName="{names[0]}" choice="single" showInLine="true">\n'
        '    <Choice value="drop"/>\n    <Choice value="unsure"/>\n  </Choices>\n</View>\n'
    )


def task(reviewed: Reviewed, example: dict[str, Any]) -> dict[str, Any]:
    """One example: its content, who it is, and the model's guess with its probability."""
    index = int(example["index"])
    result = {
        "from_name": CONTROL, "to_name": _content_names(reviewed)[0], "type": "choices",
        "value": {"choices": [str(example["guess"])]},
    }  # fmt: skip
    prediction = {
        "model_version": "icelens",
        "score": round(float(example["p_guess"]), 6),
        "result": [result],
    }
    about = {
        "given": str(example["label"]), "trust": round(float(example["trust"]), 6), INDEX: index,
        ID: str(example["id"]), AUDIT: reviewed.recipe["data_fingerprint"],
    }  # fmt: skip
    return {"data": {**_content(reviewed, index), **about}, "predictions": [prediction]}


def _content_names(reviewed: Reviewed) -> tuple[str, ...]:
    data = reviewed.data
    if data.kind == "text":
        return ("text", "text_2")[: len(data.inputs[0])]
    return ("image",) if data.kind == "image" else ("row",)


def _content(reviewed: Reviewed, index: int) -> dict[str, Any]:
    data, names = reviewed.data, _content_names(reviewed)
    if data.kind == "text":
        return dict(zip(names, data.inputs[index], strict=True))
    if data.kind == "image":
        return {"image": _address(reviewed, data.inputs[index])}
    if hasattr(data.inputs, "iloc"):
        return {"row": {str(name): str(value) for name, value in data.inputs.iloc[index].items()}}
    values = data.inputs[[index]].toarray()[0] if hasattr(data.inputs, "toarray") else data.inputs[index]
    return {"row": {str(place): f"{value:.6g}" for place, value in enumerate(values)}}


def _address(reviewed: Reviewed, image: Any) -> str:
    """Where Label Studio finds a file below the folder that it may serve; else the image itself."""
    if isinstance(image, os.PathLike):
        root = Path(found_source(reviewed.folder, reviewed.place).path)
        below = os.path.relpath(image, root if root.is_dir() else root.parent)
        if not below.startswith(".."):
            return f"/data/local-files/?d={quote(below)}"
    return image_uri(image)


def _attribute(name: str) -> str:
    if _UNWRITABLE.search(name):
        raise InputError(f"class {name!r} holds a character that XML cannot, so Label Studio cannot show it")
    return quoteattr(name)
