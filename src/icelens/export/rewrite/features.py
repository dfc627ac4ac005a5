"""What `datasets` of Hugging Face writes about columns, beside them: kept in step with the columns."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from icelens.export.changes import Changes
from icelens.export.rewrite.columns import with_names

KEY = b"huggingface"


def extended_schema(
    schema: Any, label: str, before: str | None, changes: Changes, names: Sequence[str] | None
) -> Any:
    """The schema with the column of old labels, if one is asked for, and with classes that are new."""
    metadata = dict(schema.metadata or {})
    if KEY in metadata:
        stored = json.loads(metadata[KEY])
        features = stored.get("info", {}).get("features")
        if isinstance(features, dict):
            stored["info"]["features"] = extended_features(features, label, before, changes, names)
            # As it was, to the byte, where nothing is new.
            if stored != json.loads(metadata[KEY]):
                metadata[KEY] = json.dumps(stored).encode()
    if before is not None:
        schema = schema.append(schema.field(label).with_name(before))
    return schema.with_metadata(metadata or None)


def extended_features(
    features: dict[str, Any], label: str, before: str | None, changes: Changes, names: Sequence[str] | None
) -> dict[str, Any]:
    """Features by column: the names of classes, and the column of old labels."""
    extended = copy.deepcopy(features)
    old = features.get(label)
    if isinstance(old, dict) and old.get("_type") == "ClassLabel" and names is not None:
        extended[label]["names"] = with_names(names, changes)
        if "num_classes" in old:
            extended[label]["num_classes"] = len(extended[label]["names"])
    if before is not None and old is not None:
        extended[before] = copy.deepcopy(old)
    return extended
