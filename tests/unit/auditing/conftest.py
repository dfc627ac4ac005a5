"""Tiny encoders, written once for all tests of the audit."""

import pytest
from tiny_backbones import write_bert, write_vit


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def vit(tmp_path_factory):
    return write_vit(tmp_path_factory.mktemp("vit"))
