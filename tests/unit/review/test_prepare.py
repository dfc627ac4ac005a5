"""What is missing before the first review."""

import importlib.util

import pytest

from icelens.errors import InputError
from icelens.review.prepare import needs_server


@pytest.mark.parametrize(
    ("there", "said"),
    [((), "starlette and uvicorn are not installed"), (("starlette",), "uvicorn is not installed")],
)
def test_missing_servers_are_told_in_a_sentence(there, said, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in there else None)
    with pytest.raises(InputError) as caught:
        needs_server()
    assert str(caught.value) == f"{said}; run pip install 'icelens[review]'"
