import pytest

from icelens.files import is_leftover, replacing


def write_and_fail(path):
    with replacing(path) as part:
        part.write_text("half of the sec")
        raise ZeroDivisionError


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "folder" / "notes.txt"
    with replacing(path) as part:
        part.write_text("first")
        assert not path.exists()
        assert is_leftover(part)
    with pytest.raises(ZeroDivisionError):
        write_and_fail(path)
    assert path.read_text() == "first"
    assert [file.name for file in path.parent.iterdir()] == ["notes.txt"]
