"""Printed gains over SimCSE beside public runs of SimCSE.

Mutations caught: one standard deviation instead of that of a difference; SimCSE of another table;
gains within the range that stand out.
"""

from pathlib import Path

import matplotlib
import pytest

from bench.report.figures.compared import gains_figure, write_gains
from bench.report.figures.style import STYLE
from bench.reported.number import printed_gains
from tests.integration.test_findings import AVERAGES, BEYOND, public, ranging
from tests.report.test_drawn import covered


def test_they_are_those_of_the_findings() -> None:
    for row, gain in zip(printed_gains().itertuples(), AVERAGES, strict=True):
        assert (row.method, row.backbone, row.gain) == (gain.method, gain.backbone, gain.points)
        assert row.reach == pytest.approx(BEYOND * gain.s0)
        assert row.share == pytest.approx(ranging(2, public(gain.backbone), gain.points))


def test_gains_beyond_the_seeds_stand_out() -> None:
    with matplotlib.rc_context(STYLE):
        figure = gains_figure()
        assert covered(figure) == []
    gains, bold = printed_gains(), 0
    for panel, (method, rows) in zip(figure.axes, gains.groupby("method", sort=False), strict=True):
        assert panel.get_title(loc="left") == method
        bars = [bar.get_datalim(panel.transData) for bar in panel.collections]
        assert [bar.x1 for bar in bars] == pytest.approx(list(rows["reach"]))
        assert [line.get_xdata()[0] for line in panel.get_lines()] == list(rows["gain"])
        stands_out = [text.get_weight() == "bold" for text in panel.texts]
        assert stands_out == list(rows["gain"] >= rows["reach"])
        bold += sum(stands_out)
    title = figure.legends[0].get_title().get_text()
    assert title.startswith(f"{len(gains) - bold} of {len(gains)} printed")


def test_the_extension_names_the_format(tmp_path: Path) -> None:
    write_gains(tmp_path / "gains.svg")
    assert "<svg" in (tmp_path / "gains.svg").read_text(encoding="utf-8")
