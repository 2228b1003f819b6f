"""The plan migration paper's pages: that they are what the simulator gives, and say what holds."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from engine.errors import SettingError
from engine.papers.drawn import Drawn
from engine.papers.figure import Claim
from engine.papers.reproduce import PAGES
from engine.papers.simulated import Simulation, write
from engine.papers.zhu2004 import COMMAND, SET_3, TIMES, linear, meeting, migrated, model
from engine.papers.zhu2004_pages import FIGURES, costs_plot, main
from engine.papers.zhu2004_plans import LOW, lines

HELD = r"\| (holds|\*\*does not hold\*\*) \|$"


def test_every_figure_has_its_page_with_a_verdict() -> None:
    assert [figure.name for figure in FIGURES] == [f"fig{n}" for n in range(9, 17)]
    for figure in FIGURES:
        page = (PAGES / f"zhu2004-{figure.name}.md").read_text()
        assert "**Verdict: " in page and f"{COMMAND} {figure.name}" in page
        held = [row.endswith("| holds |") for row in page.splitlines() if re.search(HELD, row)]
        assert held
        assert all(held) or figure.why[:60] in page, "what does not hold is explained"
        ET.fromstring((PAGES / f"zhu2004-{figure.name}.svg").read_text())


def test_the_plot_of_formulas_is_what_the_formulas_give() -> None:
    assert (PAGES / "zhu2004-costs.svg").read_text() == costs_plot()


def test_links_of_the_page_of_formulas_lead_somewhere() -> None:
    page = (PAGES / "zhu2004-costs.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) >= 4 and all((PAGES / link).is_file() for link in links)


@pytest.mark.parametrize("name", ["fig13", "fig14"])
def test_a_page_drawn_again_is_the_same(name: str, tmp_path: Path) -> None:
    figure = next(one for one in FIGURES if one.name == name)
    write(figure, tmp_path, f"{COMMAND} {name}")
    for kind in ("json", "md", "svg"):
        file = f"zhu2004-{name}.{kind}"
        assert timeless((tmp_path / file).read_text()) == timeless((PAGES / file).read_text())


def timeless(text: str) -> str:
    """Without the commit, which is that of whoever drew it."""
    return re.sub(r"(with commit |\"commit\": \")[0-9a-z ]+", "", text)


def test_all_four_lines_have_the_same_results() -> None:
    counts = {len({tuple(row) for row in ran.results.tolist()}) for ran in lines(LOW).values()}
    assert counts == {len(ran.results) for ran in lines(LOW).values()} and len(counts) == 1


def test_a_claim_that_does_not_hold_is_counted_and_explained(tmp_path: Path) -> None:
    claims = [Claim("one", "1", True), Claim("two", "3", False)]

    def draw() -> Drawn:
        more = {"points": ["1 s", "2 s"], "x": "second", "y": "rows"}
        return Drawn({"a": [1.0, 2.0], "b": [9e9]}, claims, table_only=["b"], **more)  # type: ignore[arg-type]

    write(Simulation("fig0", "paper", "A title", "none", draw, "because"), tmp_path, "a command")
    page = (tmp_path / "paper-fig0.md").read_text()
    assert (
        "of the paper's claims 1 of 2 hold" in page
        and "because" in page
        and "| 2 s | 2 | – |" in page
    )
    assert json.loads((tmp_path / "paper-fig0.json").read_text())["series"]["b"] == [9e9]
    plot = ET.fromstring((tmp_path / "paper-fig0.svg").read_text())
    assert len(plot.findall("{http://www.w3.org/2000/svg}polyline")) == 1


def test_an_unknown_figure_is_named() -> None:
    with pytest.raises(SettingError, match="no figure 'fig8'"):
        main(["fig8"])


def test_parts() -> None:
    slope, fit = linear([1, 2, 3], [2.0, 4.0, 6.0])
    assert (slope, fit) == pytest.approx((2.0, 1.0))
    ran = migrated([10.0] * 4, (0.2, 0.2, 0.2), 0.5, "moving", 1)
    assert ran.stage_s > 0 and ran.clean_s == 0

    assert 1 < meeting(TIMES) < 1.5 and model(*SET_3, 1.0).span_s == 1.0
