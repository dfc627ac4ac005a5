"""The geometry of the charts. Widths are shares of the page, so that text keeps its size on a phone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.report.words import FIRST, count, expected, learned_nothing
from icelens.counts import counted

if TYPE_CHECKING:
    from icelens.auditing.result import Audit

Chart = dict[str, Any]

BINS = 40
HISTOGRAM_HEIGHT, CURVE_HEIGHT = 200, 260
WIDTH = 1000  # of paths, which the page stretches to its own width
RIDGES, RIDGE_STEP, RIDGE_PEAK, RIDGE_POINTS = 16, 19, 46, 100
CURVE_POINTS = 200
ROWS = 7  # budgets in figures


def histogram(audit: Audit, height: int = HISTOGRAM_HEIGHT) -> Chart:
    """How many examples have which confidence, and how many of them are issues, on a logarithmic scale."""
    confidence = audit.examples["confidence"].to_numpy(float)
    issues = audit.examples["is_issue"].to_numpy(bool)
    known = np.isfinite(confidence)
    every, _ = np.histogram(np.clip(confidence[known], 0, 1), BINS, (0, 1))
    listed, _ = np.histogram(np.clip(confidence[known & issues], 0, 1), BINS, (0, 1))
    top = max(int(every.max()), 1)
    counts = zip(every.tolist(), listed.tolist(), strict=True)
    bars = [_bar(place, a, b, height * _log_share(a, top), height * _log_share(b, top))
            for place, (a, b) in enumerate(counts) if a]  # fmt: skip
    powers = [10**power for power in range(int(math.log10(top)) + 1)]
    ticks = [{"y": _y(height * (1 - _log_share(p, top))), "text": count(p)} for p in powers]
    return {"bars": bars, "ticks": ticks, "height": height}


def _bar(place: int, every: int, listed: int, height: float, listed_height: float) -> Chart:
    low, high = place / BINS, (place + 1) / BINS
    examples = f"{counted(every, 'example')}, {count(listed)} of them listed"
    return {
        "x": f"{100 * low + 0.15:.2f}",
        "width": f"{100 / BINS - 0.3:.2f}",
        "every": _y(height),
        "listed": _y(listed_height),
        "title": f"Confidence from {low:.3g} to {high:.3g}: {examples}",
    }


def _log_share(number: int, top: int) -> float:
    """How much of the height a bar takes; one example can be seen, and none has no height."""
    return 0.95 * (math.log10(number) + 0.25) / (math.log10(top) + 0.25) if number else 0


def ridges(audit: Audit) -> Chart | None:
    """The distribution of C at moments of training, the last at the bottom; None where none was kept."""
    if audit.history is None or not len(audit.history[0]) or not audit.history[1].size:
        return None
    iterations, confidence = audit.history
    moments = np.unique(np.linspace(0, len(iterations) - 1, min(len(iterations), RIDGES)).round().astype(int))
    heights = [_density(confidence[moment]) for moment in moments]
    bases = [RIDGE_PEAK + place * RIDGE_STEP for place in range(len(moments))]
    named = zip(bases, iterations[moments].tolist(), strict=True)
    return {
        "paths": [_ridge(height, base) for height, base in zip(heights, bases, strict=True)],
        "ticks": [{"y": base - 4, "text": count(iteration)} for base, iteration in named],
        "height": bases[-1],
        "sample": confidence.shape[1],
    }


def _density(confidence: NDArray[Any]) -> NDArray[Any]:
    """Heights between 0 and 1 at as many places as a ridge has points."""
    from icelens.plots.ridges import density

    known = confidence[np.isfinite(confidence)].astype(float)
    if not len(known):
        return np.zeros(RIDGE_POINTS)
    heights = density(np.clip(known, 0, 1)).reshape(RIDGE_POINTS, -1).mean(1)
    scaled: NDArray[Any] = heights / heights.max()
    return scaled


def _ridge(heights: NDArray[Any], base: int) -> str:
    step = WIDTH / len(heights)
    points = [f"{(i + 0.5) * step:.0f},{_y(base - RIDGE_PEAK * h)}" for i, h in enumerate(heights)]
    first, last = points[0].partition(",")[2], points[-1].partition(",")[2]
    return f"M0,{base}V{first}L{' '.join(points)}L{WIDTH},{last}V{base}Z"


def curve(audit: Audit) -> Chart | None:
    """How many errors a review of the first n finds; None where the audit does not say, or cannot know."""
    if not len(audit.budgets) or learned_nothing(audit):
        return None
    issues, farthest = int(audit.examples["is_issue"].sum()), int(audit.budgets["n"].max())
    reach = _reach(audit, issues)
    top = max(float(expected(audit, [reach])[0]), 1.0)
    drawn = np.unique(np.linspace(0, reach, CURVE_POINTS).round())
    beyond = np.geomspace(reach, farthest, CURVE_POINTS).round()
    every = np.union1d(drawn, beyond)
    random = min(audit.estimate.errors * reach / len(audit.examples), top)
    return {
        "points": [[int(n), round(m, 2)] for n, m in zip(every, expected(audit, every), strict=True)],
        "path": _line(drawn / reach, expected(audit, drawn) / top),
        "random": _curve_y(random / top),
        "reach": reach,
        "farthest": farthest,
        "top": top,
        "start": min(FIRST, issues or FIRST, reach),
        "ticks": [{"y": _curve_y(m / top), "text": count(m)} for m in _steps(top)],
        "marks": [{"x": f"{100 * n / reach:.2f}", "text": count(n)} for n in _steps(reach)],
        "rows": _rows(audit, reach, issues),
        "height": CURVE_HEIGHT,
    }


def _reach(audit: Audit, issues: int) -> int:
    """How far the curve is drawn: past the issues to where nearly all errors are found, if that is near."""
    budgets = audit.budgets.sort_values("n")
    at, errors = budgets["n"].to_numpy(), budgets["errors"].to_numpy(float)
    nearly = at[np.argmax(errors >= 0.95 * errors.max())]
    near = min(int(nearly), 3 * issues) if issues else int(nearly)
    return max(min(max(near, math.ceil(1.2 * issues), 10), int(at.max())), 1)


def _line(across: NDArray[Any], up: NDArray[Any]) -> str:
    points = zip(across.tolist(), up.tolist(), strict=True)
    return "L".join(f"{WIDTH * x:.1f},{_curve_y(y)}" for x, y in points)


def _curve_y(share: float) -> str:
    return _y(CURVE_HEIGHT - (CURVE_HEIGHT - 18) * share)


def _rows(audit: Audit, reach: int, issues: int) -> list[dict[str, Any]]:
    """A few budgets in figures: round ones, and all issues."""
    round_ones = [n * 10**power for power in range(1, 8) for n in (1, 2, 5)]
    fitting = [n for n in round_ones if n <= reach and n != issues]
    wanted = sorted([*fitting[:: -(-len(fitting) // ROWS) or 1], issues or reach])
    found = expected(audit, wanted).tolist()
    return [
        {"n": count(n), "found": count(m), "all": n == issues} for n, m in zip(wanted, found, strict=True)
    ]


def _steps(top: float, most: int = 4) -> list[float]:
    """Round numbers from the first above 0 to the top."""
    power = 10.0 ** math.floor(math.log10(max(top, 1)))
    sizes = [power * share for share in (0.1, 0.2, 0.5, 1, 2, 5)]
    size = next(size for size in sizes if size >= 1 and top / size <= most + 0.5)
    return [size * step for step in range(1, int(top / size + 1e-9) + 1)]


def _y(pixels: float) -> str:
    return f"{pixels:.1f}".removesuffix(".0")
