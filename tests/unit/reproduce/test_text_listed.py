import numpy as np
import pytest
from text_files import write_rows

from icelens.errors import InputError
from icelens.reproduce.paper_text import LISTED
from icelens.reproduce.text_listed import (
    listed_markdown,
    medians_markdown,
    percentiles,
    percentiles_markdown,
)

EVEN = np.linspace(0, 1, 635)  # row i stands at (i + 1/2) / 635


def test_percentiles_are_the_share_of_rows_below(tmp_path):
    found = percentiles("wnli", write_rows(tmp_path / "a.npz", confidence=EVEN))
    assert tuple(found) == LISTED["wnli"]
    assert found == pytest.approx({row: 100 * (row + 0.5) / 635 for row in LISTED["wnli"]})
    same = percentiles("wnli", write_rows(tmp_path / "a.npz", confidence=np.full(635, 0.5)))
    assert set(same.values()) == {50.0}
    table = percentiles_markdown({"wnli": found})
    assert f"| WNLI | {100 * 294.5 / 635:.1f} | 266: 42.0, 478: " in table


def test_tables_have_a_column_for_each_score(tmp_path):
    of = tmp_path / "table2"
    of.mkdir()
    write_rows(of / "wnli-ice_linear-0.npz", confidence=EVEN, p_label=1 - EVEN)
    write_rows(of / "wnli-ice_power-0.npz", confidence=np.zeros(635), p_label=EVEN)
    write_rows(of / "wnli-cross_entropy-0.npz", p_label=1 - EVEN)
    table = medians_markdown(["wnli"], tmp_path).splitlines()
    assert table[0].endswith("| ICE-LIN, C | ICE-POW, C | ICE-LIN, p | ICE-POW, p | CCE, p |")
    assert table[2] == "| WNLI | 5 | 46.4 | 50.0 | 53.6 | 46.4 | 53.6 |"
    rows = listed_markdown(["wnli"], tmp_path).splitlines()[2:]
    assert len(rows) == 5
    assert rows[0] == "| WNLI | 266 | 42.0 | 50.0 | 58.0 | 42.0 | 58.0 |"


def test_what_cannot_be_ranked_is_refused(tmp_path):
    npz = write_rows(tmp_path / "a.npz", confidence=np.zeros(5))
    with pytest.raises(InputError, match="has 5 rows, but the paper lists row 586 of wnli"):
        percentiles("wnli", npz)
    with pytest.raises(InputError, match=r"holds no p_label$"):
        percentiles("wnli", npz, "p_label")
    with pytest.raises(InputError, match="unknown data 'wnly'; did you mean 'wnli'"):
        percentiles("wnly", npz)
