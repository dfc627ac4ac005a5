import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread_and_a_seed():
    """Two workers share two cores, and no test depends on the one before it."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
