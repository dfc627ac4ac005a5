import sys

import pytest

from icelens.cli import main


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """`icelens …` in this process, where torch is loaded already, in a folder of its own.

    Gives the exit code, standard output and standard error.
    """
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["icelens", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        printed = capsys.readouterr()
        return left.value.code, printed.out, printed.err

    return run
