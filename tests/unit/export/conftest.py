import shutil

import pandas as pd
import pytest
from audit_data import reviews, shapes, shorten
from own_files import write_csv
from PIL import Image
from sklearn.datasets import load_wine

from icelens.auditing.public import run_audit
from icelens.auditing.source import Source
from icelens.review.build import build_from_source


def _text(folder):
    texts, labels, ids = reviews(60)
    return Source(str(write_csv(folder / "reviews.csv", {"id": ids, "review": texts, "label": labels})))


def _images(folder):
    images, bars = shapes(24)
    for row, (image, bar) in enumerate(zip(images, bars, strict=True)):
        path = folder / "bars" / ("lying" if bar else "standing") / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return Source(str(folder / "bars"))


def _table(folder):
    loaded = load_wine(as_frame=True)
    table = loaded.data.iloc[::2, :5].assign(kind=["red", "rosé"] * 44 + ["red"], label=loaded.target[::2])
    table.to_parquet(folder / "wine.parquet", index=False)
    return Source(str(folder / "wine.parquet"), label="label")


@pytest.fixture(scope="session")
def _audited(tmp_path_factory):
    """Audits of a moment each, made once."""
    root = tmp_path_factory.mktemp("audited")
    with pytest.MonkeyPatch.context() as patched:
        shorten(patched)
        for name, make in {"text": _text, "image": _images, "table": _table}.items():
            (root / name).mkdir()
            source = make(root / name)
            run_audit(source.read(), device="cpu", out=root / name / "audit", report=False, source=source)
            build_from_source(root / name / "audit")
    return root


@pytest.fixture
def audit(_audited, tmp_path, monkeypatch):
    """The folder of an audit to write into; its data lies where it was."""
    shorten(monkeypatch)

    def copied(kind):
        return shutil.copytree(_audited / kind / "audit", tmp_path / "run")

    return copied


@pytest.fixture
def examples():
    return lambda folder: pd.read_parquet(folder / "examples.parquet")
