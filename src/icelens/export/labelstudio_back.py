"""Label Studio's export as verdicts: both its JSON, with annotations in tasks, and its JSON-MIN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from icelens.errors import FileError, InputError
from icelens.export.labelstudio import AUDIT, CONTROL, ID, INDEX, VERDICT
from icelens.export.said import Said


def annotations_of(file: Path, content: object, fingerprint: str) -> list[Said]:
    """What annotators said, the oldest first: the newest will count.

    Args:
        file: for errors.
        content: the parsed JSON.
        fingerprint: of the data that was audited; tasks of another audit are refused.
    """
    if not isinstance(content, list) or not all(isinstance(task, dict) for task in content):
        raise FileError(f"{file}: not a list of tasks; export the project as JSON")
    found = []
    for number, task in enumerate(content):
        where = f"task {task.get('id', number)}"
        data = task["data"] if isinstance(task.get("data"), dict) else task
        if not isinstance(data.get(INDEX), int):
            raise InputError(
                f"{file}: {where} has no '{INDEX}'; was it made by icelens export --to labelstudio?"
            )
        if data.get(AUDIT) != fingerprint:
            raise InputError(f"{file}: {where} comes from another audit")
        annotations = task.get("annotations") if isinstance(task.get("annotations"), list) else None
        for annotation in [task] if annotations is None else annotations:
            when = str(annotation.get("updated_at") or annotation.get("created_at") or "")
            said = _said(annotation, data, where, when, small=annotations is None)
            found += [(when, said)] if said else []
    return [said for _, said in sorted(found, key=lambda pair: pair[0])]


def _said(
    annotation: dict[str, Any], data: dict[str, Any], where: str, when: str, *, small: bool
) -> Said | None:
    """One annotation; None where nothing was chosen. One that was skipped is unsure."""
    chosen = _chosen_min(annotation) if small else _chosen(annotation)
    label, verdict = chosen.get(CONTROL), chosen.get(VERDICT, "")
    if annotation.get("was_cancelled"):
        label, verdict = None, "unsure"
    if label is None and not verdict:
        return None
    person = annotation.get("annotator") if small else annotation.get("completed_by")
    name = annotation.get("annotation_id") if small else annotation.get("id")
    mark = f"labelstudio {name}"
    return Said(data[INDEX], str(data.get(ID)), verdict, label, _who(person), where, mark, when)


def _chosen(annotation: dict[str, Any]) -> dict[str, str]:
    found = {}
    for result in annotation.get("result") or []:
        choices = (result.get("value") or {}).get("choices") if isinstance(result, dict) else None
        if choices:
            found[str(result.get("from_name"))] = str(choices[0])
    return found


def _chosen_min(task: dict[str, Any]) -> dict[str, str]:
    found = {}
    for name in (CONTROL, VERDICT):
        value = task.get(name)
        value = (value.get("choices") or [None])[0] if isinstance(value, dict) else value
        if value is not None:
            found[name] = str(value)
    return found


def _who(person: Any) -> str:
    if isinstance(person, dict):
        person = person.get("email") or person.get("id")
    return str(person) if isinstance(person, str) and person.strip() else f"Label Studio user {person}"
