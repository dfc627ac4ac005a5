"""Progress in a file: a line now and then, where a terminal has a bar."""

from collections.abc import Callable, Iterator

import pytest

from icelens import progress


@pytest.fixture
def shown() -> Iterator[None]:
    progress.show()
    yield
    progress.show(False)


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets seconds go by."""
    now = [1000.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])

    def waited(seconds: float) -> None:
        now[0] += seconds

    return waited


@pytest.mark.usefixtures("shown")
def test_a_log_has_a_line_each_half_minute(
    wait: Callable[[float], None], capfd: pytest.CaptureFixture[str]
) -> None:
    with progress.bar("training", 20_000) as tick:
        for _ in range(20):
            wait(10)
            tick(1000, note="loss 0.31")
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "training: 3,000 of 20,000 (15%), 3 min left, loss 0.31",
        "training: 6,000 of 20,000 (30%), 2 min left, loss 0.31",
        "training: 9,000 of 20,000 (45%), 2 min left, loss 0.31",
        "training: 12,000 of 20,000 (60%), 1 min left, loss 0.31",
        "training: 15,000 of 20,000 (75%), less than a minute left, loss 0.31",
        "training: 18,000 of 20,000 (90%), less than a minute left, loss 0.31",
    ]


@pytest.mark.usefixtures("shown")
def test_a_run_that_goes_on_counts_its_own_part(
    wait: Callable[[float], None], capfd: pytest.CaptureFixture[str]
) -> None:
    with progress.bar("training", 1000, done=900) as tick:
        wait(300)
        tick(50)
    assert capfd.readouterr().err == "training: 950 of 1,000 (95%), 5 min left\n"


@pytest.mark.usefixtures("shown")
def test_amounts_that_are_bytes_and_totals_that_nobody_knows(
    wait: Callable[[float], None], capfd: pytest.CaptureFixture[str]
) -> None:
    with progress.bar("mnist.gz", None, done=4_000_000, size=True) as tick:
        for _ in range(3):
            wait(10)
            tick(500_000)
    assert capfd.readouterr().err == "mnist.gz: 5.5 MB\n"


@pytest.mark.usefixtures("shown")
def test_what_is_short_leaves_no_line(capfd: pytest.CaptureFixture[str]) -> None:
    with progress.bar("training", 3) as tick:
        for _ in range(3):
            tick()
    assert capfd.readouterr() == ("", "")


def test_a_library_is_silent(wait: Callable[[float], None], capfd: pytest.CaptureFixture[str]) -> None:
    with progress.bar("training", 10) as tick:
        for _ in range(10):
            wait(60)
            tick()
    assert capfd.readouterr() == ("", "")
