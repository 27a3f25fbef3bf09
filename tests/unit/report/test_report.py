from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import click
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import sherd
from sherd.auditing.case.case import Limits
from sherd.auditing.catalogue import CATALOGUE
from sherd.cli.audit import print_verdict
from sherd.errors import OutputExistsError, UsageError
from sherd.report import check_outputs, markdown, page, words, write
from sherd.report.figures import figures
from sherd.report.reporting import audit, compare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sherd.auditing.verdict.audit_result import Audit


class Outline(HTMLParser):
    """What a page holds, as a browser without pictures would see it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.referred: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the tag."""
        self.tags.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("src", "href", "xlink:href", "action", "data") and value:
                self.loads.append(value)
            if name in ("aria-labelledby", "aria-describedby"):
                self.referred.append(str(value))


def test_page_is_self_contained(text: str) -> None:
    """No script, no load but of the page itself, and a policy that forbids any."""
    outline = Outline(text)
    assert "script" not in outline.tags
    assert all(link.startswith(("#", "data:")) for link in outline.loads)
    assert "default-src 'none'" in text
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_page_is_ordered_and_named(text: str) -> None:
    """One first heading, no level skipped, unique ids, every description there."""
    outline = Outline(text)
    assert outline.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(outline.headings, outline.headings[1:], strict=False))
    assert len(outline.ids) == len(set(outline.ids))
    assert set(outline.referred) <= set(outline.ids)


def test_every_plot_is_on_the_page(audit: Audit, text: str) -> None:
    """Map, attacks, promise, distances, distributions and associations, with texts as text."""
    names = {plot.name for plot in figures(audit)}
    assert names == {"map", "attacks", "promise", "distances", "distributions", "associations"}
    for name in names:
        assert f'id="figure-{name}"' in text
        assert f'aria-labelledby="{name}-title"' in text
    assert "var(--after)" in text
    assert "#0101" not in text


def test_verdict_comes_first(audit: Audit, text: str) -> None:
    """The headline and its points stand before anything else."""
    assert text.index(audit.verdict.headline) < text.index("The promise</h2>")
    assert text.index("Internal: not for publication") < text.index(audit.verdict.headline)


def test_values_are_escaped(audit: Audit) -> None:
    """Names out of the data cannot become markup, in the page or in Markdown."""
    evil = "<script>alert(1)</script>|`x`"
    first, *rest = audit.pictures.distributions
    pictures = replace(
        audit.pictures,
        distributions=(replace(first, name=evil, classes=(evil,) * len(first.classes)), *rest),
        names=(evil, *audit.pictures.names[1:]),
    )
    bad = replace(audit, title=evil, pictures=pictures)
    assert "<script" not in page.audit(bad)
    assert "<script" not in markdown.audit(bad)


def test_json_holds_the_same_numbers(audit: Audit, tmp_path: Path) -> None:
    """The JSON file holds every measure, and no number that JSON lacks."""
    path = write(audit, tmp_path / "audit.json")
    data = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert [m["code"] for m in data["measures"]] == [m.code for m in audit.measures]
    assert data["verdict"]["headline"] == audit.verdict.headline
    assert data["label"].startswith("internal")
    assert len(data["associations"]["before"]) == len(audit.attributes)


def test_every_form_is_written(audit: Audit, tmp_path: Path) -> None:
    """One call writes all four forms; the PDF is one, with a page for every picture."""
    paths = audit.save(*(tmp_path / f"report.{suffix}" for suffix in ("html", "json", "md", "pdf")))
    assert [path.suffix for path in paths] == [".html", ".json", ".md", ".pdf"]
    text = paths[2].read_text()
    assert text.startswith(f"# {audit.verdict.headline}")
    assert text.count("\n| ") > 30
    pdf = paths[3].read_bytes()
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") >= len(figures(audit)) + 2


def test_outputs_are_checked_before_work(tmp_path: Path) -> None:
    """An unknown form and a report that is already exists are refused."""
    with pytest.raises(UsageError, match=r"\.html, \.json, \.md, \.pdf"):
        check_outputs([tmp_path / "report.doc"], force=False)
    there = tmp_path / "report.html"
    there.write_text("")
    with pytest.raises(OutputExistsError, match="already exists"):
        check_outputs([there], force=False)
    check_outputs([there], force=True)


def test_comparison_in_every_form(
    audit: Audit, audit_of: Callable[..., Audit], tmp_path: Path
) -> None:
    """A comparison is written in all four forms, with its recommendation first."""
    found = compare({"cbls": audit, "dp": audit_of("dp")})
    assert found.recommended == "dp"
    assert "cbls (attacks succeed)" in found.reason
    assert found.shared == tuple(c for c in found.shared if c in found.audits["dp"])
    paths = found.save(*(tmp_path / f"c.{suffix}" for suffix in ("html", "json", "md", "pdf")))
    text = paths[0].read_text()
    outline = Outline(text)
    assert "Recommended: dp" in text
    footer = text[text.index("<footer>") :]
    assert all(CATALOGUE[code].title in footer for code in found.shared)
    assert outline.headings.count(1) == 1
    assert len(outline.ids) == len(set(outline.ids))
    assert json.loads(paths[1].read_text())["recommended"] == "dp"
    assert paths[2].read_text().startswith("# Recommended: dp")
    assert paths[3].read_bytes().startswith(b"%PDF")


def test_a_promise_without_an_epsilon_is_told(audit: Audit) -> None:
    """What a bucket promises is not nothing; a layman is told what it is, and what was tested."""
    plan = sherd.Plan(method="slice", l=2, sensitive=["class"])
    guarantee = plan.guarantee(sherd.datasets.schema("nursery")).as_data()
    for promise, last in (("holds", "it holds. All "), ("fails", "does not hold")):
        verdict = replace(audit.verdict, promise=promise)
        answer = words.answer_of(replace(audit, guarantee=guarantee, verdict=verdict), "promise")
        assert "no sensitive value can be assigned to a person" in answer.lines[0]
        assert "Outside the promise: " in answer.lines[-2]
        assert last in answer.lines[-1]
    verdict = replace(audit.verdict, promise="none")
    nothing = replace(audit, guarantee={"notion": "no-guarantee"}, verdict=verdict)
    assert words.answer_of(nothing, "promise").lines == ("Nothing is promised.",)


def test_guarantees_speak_in_headed_lists(audit: Audit) -> None:
    """What is promised, against whom, only if what, and what not; or that nothing is."""
    heads = [head for head, _ in words.promise(audit.guarantee)]
    assert heads == ["What is promised", "Against whom", "Only if", "What is not protected"]
    assert "Nothing" in words.promise({})[0][1][0]
    strange = words.promise({"notion": "new", "assumes": ["unheard-of"], "unit": "?"})
    assert strange[0][1] == ["new"]


@pytest.mark.parametrize("tried", [True, False])
def test_what_was_not_tried_is_on_the_first_screen(tried: bool, tmp_path: Path) -> None:
    """A low risk is green only where every attack was tried; else each form names the gap."""
    rng = np.random.default_rng(3)
    table = pa.table({name: rng.integers(0, 100, 200) for name in "ab"})
    schema = sherd.Schema.from_data(
        {"attributes": {name: {"type": "integer", "domain": ["0", "100"]} for name in "ab"}}
    )
    made = sherd.protect(table, schema, sherd.Plan(method="dp", epsilon=0.01))
    release = made if tried else made.save(tmp_path / "out")
    limits = Limits(attacked=60, modelled=100, compared=100, queries=5, triples=1, runs=50)
    found = audit(table, release, limits=limits, alternatives=False)
    data = found.verdict.as_data()
    html = page.audit(found)
    first = html[: html.index("The promise</h2>")]
    text = markdown.audit(found)
    screen = text[: text.index("## ")]

    @click.command()
    def command() -> None:
        print_verdict(found, ())

    shown = CliRunner().invoke(command)
    terminal = shown.stdout
    left = "".join(line for line in shown.stderr.splitlines() if "left out:" in line)
    assert all(skipped.spec.title in left for skipped in found.skipped)
    assert "co-cluster" not in left
    if tried:
        assert found.verdict.risk == "low"
        assert data["not_tried"] == []
        assert 'class="light good"' in first.split("Usefulness")[0]
        assert not any("ot tried" in form for form in (first, screen, terminal))
        return
    assert found.verdict.risk == "low in part"
    assert {"attacks", "reason"} == set(data["not_tried"][0])
    assert {"linkage", "reconstruction"} <= set(data["not_tried"][0]["attacks"])
    assert data["not_tried"][0]["reason"] == "no row map"
    assert 'class="light good"' not in first.split("Usefulness")[0]
    assert "Low in what was tried" in first
    for form in (first, screen, terminal):
        assert "but linkage and reconstruction were not tried" in form
        assert "(no row map)" in form
