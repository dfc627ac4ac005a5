"""FiftyOne: samples with fields and tags, as `fiftyone.Dataset.from_json` reads them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from icelens.counts import counted
from icelens.errors import InputError
from icelens.export.images import image_bytes, image_kind
from icelens.export.reviewed import Reviewed

_LABEL = "fiftyone.core.fields.EmbeddedDocumentField(fiftyone.core.labels.Classification)"
_FIELDS = {
    "filepath": "fiftyone.core.fields.StringField",
    "tags": "fiftyone.core.fields.ListField(fiftyone.core.fields.StringField)",
    "ground_truth": _LABEL, "given": _LABEL, "guess": _LABEL,
    **dict.fromkeys(("trust", "icelens_confidence"), "fiftyone.core.fields.FloatField"),
    "icelens_id": "fiftyone.core.fields.StringField", "icelens_index": "fiftyone.core.fields.IntField",
}  # fmt: skip


def write_fiftyone(reviewed: Reviewed, part: Path) -> str:
    """A folder: `samples.json`, and the images where they are not files already."""
    data = reviewed.data
    if data.kind != "image":
        raise InputError(
            f"FiftyOne shows images, and {data.name} holds none; take labelstudio, csv or huggingface"
        )
    part.mkdir()
    examples: Any = reviewed.examples.to_dict("records")
    samples = [sample(example, _file(data.inputs[row], row, part)) for row, example in enumerate(examples)]
    content = {
        "name": f"icelens-{data.name}", "media_type": "image", "sample_fields": _FIELDS, "info": {},
        "default_classes": list(reviewed.classes), "samples": samples,
    }  # fmt: skip
    (part / "samples.json").write_text(json.dumps(content) + "\n", encoding="utf-8")
    return counted(len(samples), "sample")


def sample(example: dict[str, Any], filepath: str) -> dict[str, Any]:
    """One example as `Sample.from_dict` takes it; tags tell issues and verdicts."""
    verdict, after = example["verdict"], example["label_after"]
    tags = [
        *(["icelens issue", str(example["kind"])] if example["is_issue"] else []),
        *([verdict] if verdict else []),
    ]
    return {
        "filepath": filepath,
        "tags": [tag for tag in tags if tag],
        "ground_truth": _classification(example["label"] if after is None else after),
        "given": _classification(example["label"]),
        "guess": {**_classification(example["guess"]), "confidence": float(example["p_guess"])},
        "trust": float(example["trust"]),
        "icelens_confidence": float(example["confidence"]),
        "icelens_id": str(example["id"]),
        "icelens_index": int(example["index"]),
    }


def _classification(label: Any) -> dict[str, Any]:
    return {"_cls": "Classification", "tags": [], "label": str(label)}


def _file(image: Any, row: int, part: Path) -> str:
    """Where an image lies; one that is no file is written beside the samples, and named from there."""
    if isinstance(image, os.PathLike):
        return str(Path(image).absolute())
    content = image_bytes(image)
    path = part / "images" / f"{row}.{image_kind(content)}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return str(path.relative_to(part))
