"""Every method as plain Python loops in float64, written from its paper. The oracle of the loss laws.

A reference is made for a problem and its settings, and is then called once per training step with lists:
`step(outputs, labels, index)` returns one loss per example and keeps whatever state the method keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from icelens.losses import Problem

Row = list[float]
Step = Callable[[list[Row], list[int], list[int]], Row]
REFERENCES: dict[str, Callable[..., Step]] = {}


def reference(*names: str) -> Callable[[Callable[..., Step]], Callable[..., Step]]:
    def register(make: Callable[..., Step]) -> Callable[..., Step]:
        REFERENCES.update(dict.fromkeys(names, make))
        return make

    return register


def log_softmax(z: Row) -> Row:
    largest = max(z)
    total = 0.0
    for z_k in z:
        total += math.exp(z_k - largest)
    return [z_k - largest - math.log(total) for z_k in z]


def softmax(z: Row) -> Row:
    return [math.exp(log_p_k) for log_p_k in log_softmax(z)]


def of_each(one: Callable[[Row, int], float]) -> Step:
    """A step of a method without state, from its loss of one example."""

    def step(outputs: list[Row], labels: list[int], index: list[int]) -> Row:
        return [one(z, y) for z, y in zip(outputs, labels, strict=True)]

    return step


@reference("cross_entropy")
def _(problem: Problem, state: Any) -> Step:
    return of_each(lambda z, y: -log_softmax(z)[y])


@reference("label_smoothing")
def _(problem: Problem, state: Any, smoothing: float) -> Step:
    def one(z: Row, y: int) -> float:
        loss = 0.0
        for k, log_p_k in enumerate(log_softmax(z)):
            target = smoothing / len(z) + (1 - smoothing if k == y else 0.0)
            loss -= target * log_p_k
        return loss

    return of_each(one)


@reference("soft_bootstrapping")
def _(problem: Problem, state: Any, beta: float) -> Step:
    """Reed et al., Eq. 6."""

    def one(z: Row, y: int) -> float:
        loss = 0.0
        for k, log_p_k in enumerate(log_softmax(z)):
            loss -= (beta * (k == y) + (1 - beta) * math.exp(log_p_k)) * log_p_k
        return loss

    return of_each(one)


@reference("hard_bootstrapping")
def _(problem: Problem, state: Any, beta: float) -> Step:
    """Reed et al., Eq. 7: the guess is the one-hot vector of the most probable class."""

    def one(z: Row, y: int) -> float:
        guess = z.index(max(z))
        loss = 0.0
        for k, log_p_k in enumerate(log_softmax(z)):
            loss -= (beta * (k == y) + (1 - beta) * (k == guess)) * log_p_k
        return loss

    return of_each(one)


@reference("gce")
def _(problem: Problem, state: Any, q: float) -> Step:
    """Zhang and Sabuncu, Eq. 6, without the truncation of Eq. 9."""
    return of_each(lambda z, y: (1 - softmax(z)[y] ** q) / q)


@reference("sce")
def _(problem: Problem, state: Any, alpha: float, beta: float, log_zero: float) -> Step:
    """Wang et al., Eq. 6 and 7: −Σ_k p_k log y_k, where log 0 is A and log 1 is 0."""

    def one(z: Row, y: int) -> float:
        reverse = 0.0
        for k, p_k in enumerate(softmax(z)):
            reverse -= p_k * (0.0 if k == y else log_zero)
        return -alpha * log_softmax(z)[y] + beta * reverse

    return of_each(one)


@reference("forward")
def _(problem: Problem, state: Any) -> Step:
    """Patrini et al., Theorem 2."""
    transition = problem.transition.tolist()

    def one(z: Row, y: int) -> float:
        seen = 0.0
        for i, p_i in enumerate(softmax(z)):
            seen += p_i * transition[i][y]
        return -math.log(seen)

    return of_each(one)


@reference("adaptation")
def _(problem: Problem, state: Any) -> Step:
    """Goldberger and Ben-Reuven, the "complex" model: row i of T(x) is a softmax of its own."""
    classes = problem.classes

    def one(outputs: Row, y: int) -> float:
        seen = 0.0
        for i, p_i in enumerate(softmax(outputs[:classes])):
            row = outputs[classes + i * classes : classes + (i + 1) * classes]
            seen += p_i * softmax(row)[y]
        return -math.log(seen)

    return of_each(one)


@reference("dac")
def _(
    problem: Problem, state: Any, *, warmup: float, alpha_final: float, divisor: float, momentum: float
) -> Step:
    """Thulasidasan et al., Eq. 1 and Algorithm 1, one stage, α raised at every step."""
    warm_steps = round(warmup * problem.steps)
    now = {"step": 0, "average": None, "first": None}

    def step(outputs: list[Row], labels: list[int], index: list[int]) -> Row:
        kept, log_kept, over_all = [], [], []
        for z, y in zip(outputs, labels, strict=True):
            log_p = log_softmax(z)
            # log(1 − a) by the other classes' probabilities, which does not cancel.
            log_one_minus_a = math.log(sum(softmax(z)[:-1]))
            cross_entropy = -(log_p[y] - log_one_minus_a)
            kept.append(math.exp(log_one_minus_a) * cross_entropy)
            log_kept.append(log_one_minus_a)
            over_all.append(-log_p[y])
        t, mean = now["step"], sum(kept) / len(kept)
        now["step"] += 1
        if t <= warm_steps:
            old = now["average"]
            now["average"] = mean if old is None else (1 - momentum) * old + momentum * mean
        if t < warm_steps:
            return over_all
        if now["first"] is None:
            now["first"] = now["average"] / divisor
        done = (t - warm_steps) / max(1, problem.steps - 1 - warm_steps)
        alpha = now["first"] + (alpha_final - now["first"]) * done
        return [k - alpha * log_k for k, log_k in zip(kept, log_kept, strict=True)]

    return step


def ice(
    problem: Problem, start: float, smoothing: float, visit: Callable[[Row, int, float], tuple[Row, float]]
) -> Step:
    """`visit` gives q and how far v moves; every visit of a batch reads the v from before it."""
    v = [start] * problem.examples

    def step(outputs: list[Row], labels: list[int], index: list[int]) -> Row:
        seen = [visit(z, y, v[i]) for z, y, i in zip(outputs, labels, index, strict=True)]
        for i, (_, move) in zip(index, seen, strict=True):
            v[i] += move
        losses = []
        for (q, _), y in zip(seen, labels, strict=True):
            loss = -(1 - smoothing) * math.log(q[y])
            for q_k in q:
                # Not at 0, where a far class has no logarithm.
                loss -= smoothing / len(q) * math.log(q_k) if smoothing else 0.0
            losses.append(loss)
        return losses

    return step


@reference("ice_linear")
def _(problem: Problem, state: Any, step_size: float, start: float, label_smoothing: float) -> Step:
    """Zhang and Sugiyama; d log q_y / dv = r − C."""

    def visit(z: Row, y: int, v: float) -> tuple[Row, float]:
        c, p = 1 / (1 + math.exp(-v)), softmax(z)
        q = [c * p_k + (1 - c) / len(z) for p_k in p]
        return q, step_size * (c * p[y] / q[y] - c)

    return ice(problem, start, label_smoothing, visit)


@reference("ice_power")
def _(problem: Problem, state: Any, step_size: float, start: float, label_smoothing: float) -> Step:
    """Zhang and Sugiyama; d log q_y / dC = Σ_j q_j log(p_y / p_j), and dC/dv = C(1 − C)."""

    def visit(z: Row, y: int, v: float) -> tuple[Row, float]:
        c, log_p = 1 / (1 + math.exp(-v)), log_softmax(z)
        q = softmax([c * log_p_k for log_p_k in log_p])
        slope = 0.0
        for q_j, log_p_j in zip(q, log_p, strict=True):
            slope += q_j * (log_p[y] - log_p_j)
        return q, step_size * c * (1 - c) * slope

    return ice(problem, start, label_smoothing, visit)


@reference("ice_held")
def _(problem: Problem, state: Any, **settings: float) -> Step:
    """The docstrings of ChannelLoss and HeldLoss."""
    n, k, decay = problem.examples, problem.classes, settings["decay"]
    strongest = settings["hold"] * max(0.9 / (1 - 1 / k), math.log10(k))
    v, leader, share = [math.log(9)] * n, [0] * n, [0.0] * n
    flipped = [[0.0 if a == b else 0.1 / (k - 1) / k for b in range(k)] for a in range(k)]
    stayed = [0.9 / k] * k
    seen, visited = {"rows": 0, "steps": 0, "contradicted": 1.0, "steady": 0.0, "settled": 0.0}, set()

    def average(p: Row, i: int) -> Row:
        whole = 1 - decay ** (seen["rows"] // len(visited)) if share[i] > 0 else 0.0
        rest = max(0.0, whole - share[i]) / (1 - p[leader[i]])
        before = [share[i] if a == leader[i] else rest * p_a for a, p_a in enumerate(p)]
        return [
            decay * before_a + (1 - decay) * p_a / sum(p) for before_a, p_a in zip(before, p, strict=True)
        ]

    def kept(y: int) -> float:
        whole = sum(stayed) / (sum(stayed) + sum(map(sum, flipped)))
        imagined = 0.02 / k
        return (stayed[y] + imagined * whole) / (stayed[y] + sum(flipped[y]) + imagined)

    def channel(a: int, y: int) -> float:
        return 0.0 if a == y else (flipped[a][y] + 1e-5) / (sum(flipped[a]) + 1e-5 * (k - 1))

    def step(outputs: list[Row], labels: list[int], index: list[int]) -> Row:
        clamped = [[min(max(p_k, 1e-4), 1 - 1e-4) for p_k in softmax(z)] for z in outputs]
        averages = [average(p, i) for p, i in zip(clamped, index, strict=True)]
        everyone = min(1.0, (seen["contradicted"] / settings["doubt"]) ** 8)
        settled = min(1.0, 1.03 * seen["settled"] / max(seen["steady"], 1e-6)) ** max(8.0, 8 * math.log10(k))
        losses, moves, moved, remained = [], [], [[0.0] * k for _ in range(k)], [0.0] * k
        for z, p, t, y, i in zip(outputs, clamped, averages, labels, index, strict=True):
            c = 1 / (1 + math.exp(-v[i]))
            held = everyone + (1 - everyone) * (1 - c)
            weight = strongest * settled * held * (1 + 2 * (seen["contradicted"] * share[i]) ** 4)
            inner = min(sum(t_a * p_a for t_a, p_a in zip(t, p, strict=True)), 1 - 1e-4)
            losses.append(-log_softmax(z)[y] + weight * math.log(1 - inner))
            believed = [t_a / sum(t) for t_a in t]
            by_flip = [t_a * channel(a, y) for a, t_a in enumerate(believed)]
            r = c * believed[y] / (c * believed[y] + (1 - c) * sum(by_flip) + 1e-12)
            moves.append(settings["step_size"] * (r - c))
            q = kept(y) * believed[y] + (1 - kept(y)) * sum(by_flip) + 1e-12
            remained[y] += kept(y) * believed[y] / q / len(labels)
            for a in range(k):
                moved[a][y] += (1 - kept(y)) / q * by_flip[a] / len(labels)
        leading = [max(range(k), key=lambda a, t=t: t[a]) for t in averages]
        wrong = sum(a != y for a, y in zip(leading, labels, strict=True)) / len(labels)
        rate = max(0.02, 1 / (seen["steps"] + 1))
        seen["contradicted"] += rate * (wrong - seen["contradicted"])
        known = [(p, i) for p, i in zip(clamped, index, strict=True) if i in visited]
        if known:
            same = sum(max(range(k), key=lambda a, p=p: p[a]) == leader[i] for p, i in known) / len(known)
            seen["steady"] += rate * (same - seen["steady"])
        visits = min(1.0, len(labels) / max(1.0, 2 * len(visited)))
        seen["settled"] += visits * (seen["steady"] - seen["settled"])
        for t, a, i, move in zip(averages, leading, index, moves, strict=True):
            leader[i], share[i], v[i] = a, t[a], v[i] + move
        seen["rows"] += len(labels)
        seen["steps"] += 1
        visited.update(index)
        rate = max(0.02, 1 / (seen["steps"] + 1))
        for a in range(k):
            stayed[a] += rate * (remained[a] - stayed[a])
            for y in range(k):
                flipped[a][y] += rate * (moved[a][y] - flipped[a][y])
        return losses

    return step


@reference("elr")
def _(problem: Problem, state: Any, strength: float, beta: float) -> Step:
    """Liu et al. 2020, Eq. 6 with the targets of Eq. 9, and the authors' bounds on p."""
    target = [[0.0] * problem.classes for _ in range(problem.examples)]

    def step(outputs: list[Row], labels: list[int], index: list[int]) -> Row:
        losses = []
        for z, y, i in zip(outputs, labels, index, strict=True):
            p = [min(max(p_k, 1e-4), 1 - 1e-4) for p_k in softmax(z)]
            agreement = 0.0
            for k in range(problem.classes):
                target[i][k] = beta * target[i][k] + (1 - beta) * p[k] / sum(p)
                agreement += target[i][k] * p[k]
            losses.append(-log_softmax(z)[y] + strength * math.log(1 - agreement))
        return losses

    return step


@reference("sop")
def _(problem: Problem, state: Any, *, step_u: float, step_v: float, scale: float, floor: float) -> Step:
    """Liu et al. 2022, Algorithm 1: u by the cross entropy, v by the squared error of the guess.

    Gradients are those of the bounded loss: none where a bound is active.
    """
    u, v = state["u"].tolist(), state["v"].tolist()

    def step(outputs: list[Row], labels: list[int], index: list[int]) -> Row:
        losses = []
        for z, y, i in zip(outputs, labels, index, strict=True):
            p, guess = softmax(z), z.index(max(z))
            raw = []
            for k, p_k in enumerate(p):
                raw.append(p_k + min(u[i] ** 2, 1.0) if k == y else p_k - min(v[i][k] ** 2, 1.0))
            total = sum(max(r, floor) for r in raw)
            q_y = max(raw[y], floor) / total
            losses.append(-math.log(max(q_y, floor)))
            if raw[y] >= floor and q_y >= floor and u[i] ** 2 <= 1:
                u[i] -= step_u * -(1 / raw[y] - 1 / total) * 2 * u[i]
            for k in range(problem.classes):
                if k != y and v[i][k] ** 2 <= 1:
                    residual = (k == guess) - v[i][k] ** 2
                    v[i][k] -= step_v * 2 * residual * -2 * v[i][k]
        return losses

    return step
