"""Folders are replaced whole, or the old one stays."""

from pathlib import Path

import pytest

from icelens.export.outputs import replacing_folder


def test_a_folder_that_cannot_be_replaced_stays_as_it_was(tmp_path, monkeypatch):
    out, rename = tmp_path / "out", Path.rename
    out.mkdir()
    (out / "old.txt").write_text("kept")

    def fails(path, target):
        if path.name.endswith(".part"):
            raise OSError("no")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="no"), replacing_folder(out) as part:
        part.mkdir()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (out / "old.txt").read_text() == "kept"
    monkeypatch.undo()
    with replacing_folder(out) as part:
        part.mkdir()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not any(out.iterdir())
