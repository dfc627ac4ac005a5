import io
import tarfile
import zipfile

import pytest

from icelens.data.archive import unpack
from icelens.errors import FileError


def make(path, members):
    """A .zip or .tar.gz with the members given as name: bytes."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(path, "w:gz") as archive:
            for name, content in members.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path


BOTH = pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])


def left(folder):
    return sorted(path.name for path in folder.iterdir())


@BOTH
def test_the_folder_is_put_in_place_and_the_rest_dropped(tmp_path, name):
    archive = make(tmp_path / name, {"RTE/train.tsv": b"1", "RTE/deep/x": b"2", "__MACOSX/junk": b"3"})
    unpack(archive, tmp_path / "glue" / "RTE")
    assert (tmp_path / "glue/RTE/train.tsv").read_bytes() == b"1"
    assert (tmp_path / "glue/RTE/deep/x").read_bytes() == b"2"
    assert left(tmp_path / "glue") == ["RTE"]


@BOTH
def test_files_that_are_there_are_replaced_and_others_kept(tmp_path, name):
    (tmp_path / "RTE").mkdir()
    (tmp_path / "RTE/train.tsv").write_bytes(b"old")
    (tmp_path / "RTE/notes.txt").write_bytes(b"mine")
    unpack(make(tmp_path / name, {"RTE/train.tsv": b"new", "RTE/dev.tsv": b"dev"}), tmp_path / "RTE")
    assert (tmp_path / "RTE/train.tsv").read_bytes() == b"new"
    assert left(tmp_path / "RTE") == ["dev.tsv", "notes.txt", "train.tsv"]


@BOTH
@pytest.mark.parametrize("evil", ["../evil", "RTE/../../evil", "/evil_at_the_root"])
def test_a_member_that_leads_out_is_refused(tmp_path, name, evil):
    place = tmp_path / "place"
    archive = make(tmp_path / name, {"RTE/train.tsv": b"1", evil: b"x"})
    if name.endswith(".tar.gz") and evil.startswith("/"):
        unpack(archive, place / "RTE")  # tarfile strips the slash, so that it stays inside and is dropped
        assert left(place) == ["RTE"]
    else:
        with pytest.raises(FileError, match=r"a\.(zip|tar\.gz): "):
            unpack(archive, place / "RTE")
        assert left(place) == []
    assert left(tmp_path) == sorted([name, "place"])


def test_a_link_that_leads_out_is_refused(tmp_path):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        link = tarfile.TarInfo("RTE/train.tsv")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(FileError, match="cannot be unpacked"):
        unpack(path, tmp_path / "place" / "RTE")


@BOTH
def test_a_damaged_archive_leaves_nothing(tmp_path, name):
    archive = make(tmp_path / name, {"RTE/train.tsv": bytes(range(256)) * 300})
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(FileError, match="cannot be unpacked"):
        unpack(archive, tmp_path / "place" / "RTE")
    assert left(tmp_path / "place") == []


@BOTH
def test_an_archive_without_the_folder_says_what_it_holds(tmp_path, name):
    with pytest.raises(FileError, match="no folder 'RTE' in it; it holds CoLA, WNLI"):
        unpack(make(tmp_path / name, {"WNLI/x": b"", "CoLA/y": b""}), tmp_path / "RTE")
