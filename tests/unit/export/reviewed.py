"""Files with verdicts on them, without the audit that comes before: what is tested is what is written."""

import csv
import io

from icelens.auditing.source import Source
from icelens.export.apply import How, rewrite
from icelens.export.changes import changes_of
from icelens.review.store import Verdict


def verdicts(**given):
    """keep=[1], drop=[2], unsure=[3], relabel={4: "cat"}: a verdict on each of these examples."""
    found, number = [], 0
    for kind, indices in given.items():
        for index in indices:
            number += 1
            label = indices[index] if kind == "relabel" else None
            found.append(Verdict(number, index, kind, label, "ann", f"2026-01-01T00:00:{number:02}.000Z"))
    return found


def applied(path, out, *, history=False, link=False, force=False, options=None, **given):
    """Write the file again with these verdicts on it."""
    source = Source(str(path), **(options or {}))
    data = source.read()
    changes = changes_of(data, verdicts(**given))
    return rewrite(source, data, changes, out, How(history, link, force))


def logged(log):
    return list(csv.DictReader(io.StringIO(log.read_text(encoding="utf-8"))))
