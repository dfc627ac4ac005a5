import itertools

import pytest
import torch
from text_files import write_encoder, write_task

from icelens.reproduce.text import run_text_trial
from icelens.reproduce.text_recipe import METHODS, TextRecipe

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("method", METHODS)
def test_recorded_steps_do_what_steps_do(tmp_path, method):
    write_task(tmp_path, "rte", train=300)
    encoder = write_encoder(tmp_path / "encoder", dropout=0.0)
    settings = {"data": "rte", "method": method, "encoder": encoder, "epochs": 5, "learning_rate": 1e-3}
    eager, captured, cpu = (
        run_text_trial(TextRecipe(**settings, **more, precision="float32", batch_size=8), tmp_path)
        for more in ({"device": "cuda", "eager": True}, {"device": "cuda"}, {"device": "cpu"})
    )
    for other in (captured, cpu):
        assert other.losses == pytest.approx(eager.losses, rel=1e-2)
        torch.testing.assert_close(other.p_label, eager.p_label, rtol=0, atol=0.05)
        if method != "cross_entropy":
            torch.testing.assert_close(other.confidence, eager.confidence, rtol=0, atol=0.05)


def test_recorded_steps_draw_new_dropout_each_time(tmp_path):
    write_task(tmp_path, "rte", train=64)
    encoder = write_encoder(tmp_path / "encoder", dropout=0.5)
    settings = {"epochs": 8, "learning_rate": 0.0, "device": "cuda"}
    losses = run_text_trial(TextRecipe("rte", encoder=encoder, **settings), tmp_path).losses
    assert min(abs(a - b) for a, b in itertools.pairwise(losses)) > 1e-6
    assert max(losses) - min(losses) > 1e-3
