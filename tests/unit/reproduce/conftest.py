import pytest
from text_files import write_encoder


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("tiny-bert"))
