import gc
import os

import pytest
import torch
from threadpoolctl import threadpool_limits

# Two workers share two cores: threads of BLAS would wait for each other, here and in subprocesses.
threadpool_limits(1)
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
# A hundred processes are started, and each would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_finish():
    """What is imported by now stays: libraries that collect garbage, as trainers do, need not look there."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def one_thread_and_a_seed():
    """Two workers share two cores, and no test depends on the one before it."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


class KilledError(Exception):
    """What ends a run in the place of a kill."""


@pytest.fixture
def killed_run(monkeypatch):
    """Runs a recipe into a folder and kills it at the checkpoint after as many as are let through."""
    from icelens.train import driver, run_recipe

    def run(recipe, folder, checkpoints, **settings):
        save, calls = driver.save_checkpoint, []

        def save_then_die(*arguments):
            if len(calls) == checkpoints:
                raise KilledError
            calls.append(save(*arguments))

        with monkeypatch.context() as patched:
            patched.setattr(driver, "save_checkpoint", save_then_die)
            with pytest.raises(KilledError):
                run_recipe(recipe, folder, **settings)

    return run
