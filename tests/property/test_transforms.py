"""Laws of h(p; C), for every transformation in TRANSFORMS.

Logits reach ±1e4 and v reaches ±80: in float32, C rounds to 1 at v ≈ 17 and p underflows at a gap of ≈ 104
between logits; in float64 at 37 and 745.
"""

import math

import mpmath
import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st

from icelens.transforms import TRANSFORMS

every_transform = pytest.mark.parametrize("name", TRANSFORMS)
every_float = pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=lambda d: str(d)[6:]
)
laws = settings(deadline=None, max_examples=80, derandomize=True, database=None)

entries = st.one_of(
    st.floats(-5, 5), st.floats(-1e4, 1e4), st.sampled_from([0.0, 1e4, -1e4, 104.0, -104.0, 745.0, 9999.0])
)
confidence_logits = st.one_of(
    st.floats(-80, 80), st.floats(-3, 3), st.sampled_from([-80.0, 80.0, -17.0, 17.0, 37.0, 0.0])
)


@st.composite
def written_out(draw):
    """One row, entry by entry: ties, far outliers, every number that arithmetic may trip over."""
    return torch.tensor([draw(st.lists(entries, min_size=2, max_size=6))], dtype=torch.float64)


@st.composite
def drawn(draw):
    """Eight rows of up to 1,000 classes at one scale."""
    classes = draw(st.sampled_from([2, 3, 10, 100, 1000]) | st.integers(2, 1000))
    scale, shift = (
        draw(st.sampled_from([1e-3, 1.0, 10.0, 100.0, 3e3])),
        draw(st.sampled_from([0.0, 1e3, -1e4])),
    )
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    return (scale * torch.randn(8, classes, generator=generator, dtype=torch.float64) + shift).clamp(
        -1e4, 1e4
    )


@st.composite
def problems(draw, rows=None):
    """Logits, labels and v of one batch, in float64."""
    logits = draw(rows if rows is not None else written_out() | drawn())
    batch, classes = logits.shape
    v = torch.tensor(draw(st.lists(confidence_logits, min_size=batch, max_size=batch)), dtype=torch.float64)
    first = draw(st.integers(0, classes - 1))
    return logits, (first + torch.arange(batch)) % classes, v


def eps(dtype):
    """The spacing of the numbers that the result is computed in: half precision is widened."""
    return torch.finfo(dtype if dtype == torch.float64 else torch.float32).eps


@every_float
@every_transform
@laws
@given(problems())
def test_rows_sum_to_one(name, dtype, problem):
    logits, _, v = problem
    total = TRANSFORMS[name].everywhere(logits.to(dtype), v.to(dtype)).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=50 * eps(dtype))


@every_float
@every_transform
@laws
@given(problems())
def test_full_confidence_leaves_the_prediction_as_it_is(name, dtype, problem):
    logits = problem[0].to(dtype)
    h = TRANSFORMS[name].everywhere(logits, torch.full((len(logits),), 80.0))
    p = torch.softmax(logits.to(h.dtype), -1)
    torch.testing.assert_close(h.exp(), p, rtol=100 * eps(dtype), atol=1e-30)


@every_float
@every_transform
@laws
@given(problems())
def test_no_confidence_is_the_uniform_guess(name, dtype, problem):
    logits = problem[0].to(dtype)
    h = TRANSFORMS[name].everywhere(logits, torch.full((len(logits),), -80.0))
    torch.testing.assert_close(
        h, torch.full_like(h, -math.log(logits.shape[-1])), rtol=4 * eps(dtype), atol=0
    )


@every_float
@every_transform
@laws
@given(problems())
def test_no_entry_is_above_the_one_where_the_prediction_is_largest(name, dtype, problem):
    logits, _, v = problem
    logits = logits.to(dtype)
    h = TRANSFORMS[name].everywhere(logits, v.to(dtype))
    at_guess = h.gather(-1, logits.argmax(-1, keepdim=True))
    # logaddexp is monotone but for the last digits of its result.
    slack = 2 * eps(dtype) * h.abs().amax(-1, keepdim=True) if name == "linear" else 0.0
    assert (h <= at_guess + slack).all()


@every_float
@every_transform
@laws
@given(problems())
@example((torch.tensor([[1e4, -1e4]]), torch.tensor([1]), torch.tensor([80.0])))
@example((torch.tensor([[1e4, -1e4]]), torch.tensor([1]), torch.tensor([-80.0])))
@example((torch.full((1, 1000), 1e4), torch.tensor([1]), torch.tensor([80.0])))
def test_values_and_gradients_are_finite(name, dtype, problem):
    logits, labels, v = problem
    logits, v = logits.to(dtype).requires_grad_(), v.to(torch.float32).requires_grad_()
    h = TRANSFORMS[name].everywhere(logits, v)
    log_q_y, slope = TRANSFORMS[name].at(logits, labels, v)
    assert h.isfinite().all()
    assert log_q_y.isfinite().all()
    assert slope.isfinite().all()
    for output in (h.sum(), log_q_y.sum()):
        for gradient in torch.autograd.grad(output, (logits, v)):
            assert gradient.isfinite().all()


def plain(name, logits, v):
    """log h(p; C) and C by the formula of the paper, with 80 digits."""
    z, v = [mpmath.mpf(x) for x in logits], mpmath.mpf(v)
    p = [mpmath.exp(x) for x in z]
    p = [x / mpmath.fsum(p) for x in p]
    c = 1 / (1 + mpmath.exp(-v))
    if name == "linear":
        return [mpmath.log(c * x + (1 - c) / len(p)) for x in p], c, p
    powers = [x**c for x in p]
    return [mpmath.log(x / mpmath.fsum(powers)) for x in powers], c, p


def plain_slope(name, c, p, q, label):
    """d log q_y / dC by the paper's appendix, its second formula with the missing normaliser; times dC/dv."""
    if name == "linear":
        return c * (1 - c) * (p[label] - mpmath.mpf(1) / len(p)) / q[label]
    return c * (1 - c) * mpmath.fsum(q_j * mpmath.log(p[label] / p_j) for q_j, p_j in zip(q, p, strict=True))


@every_transform
@laws
@given(problems(written_out()))
@example(
    (
        torch.tensor([[9999.3, 9998.1, 1e4]], dtype=torch.float64),
        torch.tensor([0]),
        torch.tensor([0.3], dtype=torch.float64),
    )
)
def test_float64_is_exact_to_its_last_digits(name, problem):
    logits, labels, v = problem
    h = TRANSFORMS[name].everywhere(logits, v)[0]
    slope = TRANSFORMS[name].at(logits, labels, v)[1][0]
    with mpmath.workdps(80):
        log_q, c, p = plain(name, logits[0].tolist(), v.item())
        for ours, exact in zip(h.tolist(), log_q, strict=True):
            assert abs(ours - exact) <= 2e-15 * max(1, abs(exact))
        exact = plain_slope(name, c, p, [mpmath.exp(x) for x in log_q], int(labels))
        spread = 1.0 if name == "linear" else float(c * (1 - c)) * (logits.max() - logits.min()).item()
        assert abs(slope.item() - exact) <= 1e-14 * spread + 1e-60  # far below it, 80 digits end first


@laws
@given(problems())
def test_the_power_of_a_softmax_is_temperature_scaling(problem):
    logits, _, v = problem
    temperature = 1 / torch.sigmoid(v)[:, None]
    h = TRANSFORMS["power"].everywhere(logits, v)
    torch.testing.assert_close(h, F.log_softmax(logits / temperature, -1), rtol=1e-12, atol=2e-11)


@every_transform
@laws
@given(problems())
def test_the_derivative_in_closed_form_is_that_of_autograd(name, problem):
    logits, labels, v = problem
    v.requires_grad_()
    log_q_y, slope = TRANSFORMS[name].at(logits, labels, v)
    assert not slope.requires_grad
    by_autograd = torch.autograd.grad(log_q_y.sum(), v)[0]
    torch.testing.assert_close(slope, by_autograd, rtol=0, atol=1e-10)


@every_float
@every_transform
@laws
@given(problems())
def test_at_the_label_is_everywhere_gathered_at_the_label(name, dtype, problem):
    logits, labels, v = problem
    logits = logits.to(dtype).requires_grad_()
    v = v.to(torch.float32)
    everywhere = TRANSFORMS[name].everywhere(logits, v).gather(-1, labels[:, None]).squeeze(-1)
    at_label = TRANSFORMS[name].at(logits, labels, v)[0]
    torch.testing.assert_close(at_label, everywhere, rtol=8 * eps(dtype), atol=8 * eps(dtype))
    gradients = [torch.autograd.grad(x.sum(), logits)[0] for x in (at_label, everywhere)]
    torch.testing.assert_close(*gradients, rtol=20 * torch.finfo(dtype).eps, atol=20 * eps(dtype))


@every_transform
@laws
@given(problems())
def test_the_derivative_changes_sign_where_the_paper_says(name, problem):
    logits, labels, v = problem
    v = v.clamp(-30, 30)
    log_p = F.log_softmax(logits, -1)
    if name == "linear":
        boundary = torch.full((len(logits),), -math.log(logits.shape[-1]), dtype=torch.float64)
    else:
        q = torch.softmax(torch.sigmoid(v)[:, None] * log_p, -1)
        boundary = (q * log_p).sum(-1)  # −H(q, p)
    distance = log_p.gather(-1, labels[:, None]).squeeze(-1) - boundary
    slope = TRANSFORMS[name].at(logits, labels, v)[1]
    clear = distance.abs() > 1e-2
    assert (slope.sign() == distance.sign())[clear].all()
    assert (slope[~clear].abs() <= 1e-2).all()


@every_transform
@pytest.mark.parametrize("classes", [2, 3, 1000])
def test_a_uniform_prediction_moves_no_confidence(name, classes):
    logits = torch.full((4, classes), 9999.0)
    slope = TRANSFORMS[name].at(logits, torch.arange(4) % classes, torch.tensor([-3.0, 0.0, 3.0, 17.0]))[1]
    torch.testing.assert_close(slope, torch.zeros(4), rtol=0, atol=3e-7)


@every_float
@laws
@given(problems())
def test_the_linear_derivative_is_bounded_by_one(dtype, problem):
    logits, labels, v = problem
    slope = TRANSFORMS["linear"].at(logits.to(dtype), labels, v.to(torch.float32))[1]
    assert (slope.abs() <= 1).all()


@every_transform
@laws
@given(problems(), st.sampled_from([-8192.0, 4096.0]))
def test_a_shift_of_all_logits_changes_nothing(name, problem, shift):
    logits, labels, v = problem
    logits = (logits.clamp(-100, 100) * 8).round().to(torch.float32) / 8  # so that the shift is exact
    v = v.to(torch.float32)
    here, there = (TRANSFORMS[name].at(z, labels, v) for z in (logits, logits + shift))
    torch.testing.assert_close(here, there, rtol=1e-6, atol=1e-6)


@laws
@given(problems())
def test_a_class_ruled_out_leaves_the_power_of_the_others(problem):
    logits, labels, v = problem
    ruled_out = torch.full((len(logits), 1), -torch.inf, dtype=torch.float64)
    among_all = TRANSFORMS["power"].at(torch.cat([logits, ruled_out], -1), labels, v)
    torch.testing.assert_close(among_all, TRANSFORMS["power"].at(logits, labels, v), rtol=1e-12, atol=1e-12)


@every_transform
@laws
@given(problems(), st.sampled_from([-1000.0, -110.0, -80.0, 0.0, 80.0]))
def test_a_class_ruled_out_gives_no_nan_at_any_confidence(name, problem, level):
    """At v = −1000 a C of 0 meets a logit of −inf, and so does each derivative in v."""
    logits, labels, v = problem
    v = torch.full_like(v, level)
    ruled_out = torch.full((len(logits), 1), -torch.inf, dtype=torch.float64)
    for dtype in (torch.float32, torch.float64):
        wider = torch.cat([logits, ruled_out], -1).to(dtype).requires_grad_()
        known, believed = logits.to(dtype).requires_grad_(), v.to(dtype).requires_grad_()
        log_q_y, slope = TRANSFORMS[name].at(wider, labels, believed)
        gradients = torch.autograd.grad(log_q_y.sum(), [wider, believed])
        assert all(value.isfinite().all() for value in (log_q_y, slope, *gradients))
        assert not TRANSFORMS[name].everywhere(wider, believed).isnan().any()
        if name == "power":
            alone, _ = TRANSFORMS[name].at(known, labels, believed)
            wanted = torch.autograd.grad(alone.sum(), [known, believed])
            torch.testing.assert_close((log_q_y, gradients[0][:, :-1], gradients[1]), (alone, *wanted))
            torch.testing.assert_close(slope, gradients[1], rtol=1e-3, atol=1e-3)
