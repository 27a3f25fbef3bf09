"""Reports of any table: its name on each page, all attributes, narrow screens, any script."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from browsing import visited
from releases import KINDS, people_alone

import sherd
from sherd.auditing.case.case import Limits
from sherd.auditing.verdict.audit_result import Pictures
from sherd.budget.ledger import Ledger
from sherd.report import html
from sherd.report.plots import fonts_for, spelt

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sherd.auditing.verdict.audit_result import Audit

QUICK = Limits(attacked=40, modelled=60, compared=60, queries=4, triples=2, runs=200, rounds=0)
NAMES = ["收入", "возраст", "عمر", "x" * 90, *(f"attribute {i}" for i in range(26))]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """Thirty attributes, some in other scripts, one with a name as long as a line."""
    place = tmp_path_factory.mktemp("wide")
    rng = np.random.default_rng(0)
    pc.write_csv(pa.table({n: rng.integers(0, 9, 60) for n in NAMES}), place / "people 表.csv")
    one = {"type": "integer", "domain": ["0", "9"]}
    data = {"attributes": dict.fromkeys(NAMES, one), "population": "everybody"}
    schema = sherd.Schema.from_data(data)
    plan = sherd.Plan(method="dp", epsilon=1.0)
    table = pc.read_csv(place / "people 表.csv")
    made = sherd.protect(table, schema, plan, ledger=Ledger(place / "private" / "ledger.db"))
    folder = made.save(place / "out")
    return sherd.audit(place / "people 表.csv", folder, limits=QUICK, alternatives=False)


def test_a_report_says_what_was_audited(wide: Audit, tmp_path: Path) -> None:
    """Table, population and release are named in every form; in print at the foot of each page."""
    assert wide.table == "people 表.csv"
    assert wide.population == "everybody"
    assert re.fullmatch(r"[0-9a-f]{64}", wide.release_hash)
    for said in ("people 表.csv", "population everybody", wide.release_hash[:16]):
        assert said in html(wide)
        assert html(wide).count(said) >= 3, "header, footer, and each printed page"
    wide.save(tmp_path / "a.json", tmp_path / "a.md")
    assert json.loads((tmp_path / "a.json").read_text())["release_hash"] == wide.release_hash
    assert "population everybody" in (tmp_path / "a.md").read_text()


def test_every_attribute_is_on_the_page(wide: Audit) -> None:
    """Those after the first dozen in pictures that can be unfolded, each in the lists of parts."""
    page = html(wide)
    assert page.count('<figure id="figure-distributions') == 3
    assert "Attributes 13 to 24 of 30: distributions" in page
    for name in NAMES:
        assert name[:20] in page, name


@pytest.mark.filterwarnings("error")
def test_a_pdf_has_letters_for_any_script(wide: Audit, tmp_path: Path) -> None:
    """No letter is left as an empty box: a font of the machine has it, or its code is written."""
    (path,) = wide.save(tmp_path / "report.pdf")
    assert path.read_bytes()[:4] == b"%PDF"
    fonts, lacking = fonts_for(frozenset("age 收"))
    assert (len(fonts) > 1) != bool(lacking)
    assert spelt("age 收", lacking) == ("age U+6536 " if lacking else "age 收")


def test_what_a_participant_learns_is_said_to_be_beyond_the_release(audit: Audit) -> None:
    """Somebody who sees the release learns something: what it shows."""
    told = replace(audit, participants=(("analyst", ("nothing: all is in the release",)),))
    assert "Beyond the release, an analyst can learn" in html(told)


def test_nothing_runs_off_a_telephone(
    browser: Any, wide: Audit, audit_of: Callable[..., Audit], tmp_path: Path
) -> None:
    """390 points wide, everything unfolded: no scrolling sideways, no text beyond the edge."""
    from sherd.report.reporting import compare

    long = replace(wide, title="y" * 80)
    pages = [wide.save(tmp_path / "a.html")[0]]
    both = {"x" * 60: long, "dp": audit_of("dp")}
    pages += compare(both).save(tmp_path / "compare.html")
    for path in pages:
        fits_a_telephone(browser, path)


SLOW = pytest.mark.slow
ALONE = [
    "idp-ls", "slice", "mondrian", "anatomy", "diffgen", "dp-graph", "parties",
    *(pytest.param(kind, marks=SLOW) for kind in ("dp", "idp", "dp-um", "idp-cbls", "strict")),
]  # fmt: skip


@pytest.mark.parametrize("kind", ALONE)
def test_no_method_s_page_runs_off_a_telephone(browser: Any, kind: str, tmp_path: Path) -> None:
    """The same of an audit of every method, compared with other methods where that is quick."""
    KINDS[kind](tmp_path / "release")
    audited = sherd.audit(
        people_alone(), tmp_path / "release", limits=QUICK, alternatives=kind == "dp-graph"
    )
    fits_a_telephone(browser, audited.save(tmp_path / "a.html")[0])


def fits_a_telephone(browser: Any, path: Path) -> None:
    """Fail where a page, everything unfolded, is wider than 390 points.

    A window of that width will not do: Chromium's own are at least 500 wide.
    """
    visited(browser, path.as_uri())
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    found = browser.execute_script(
        "document.querySelectorAll('details').forEach(d => d.open = true);"
        "const free = e => !e.closest('.scroll, svg, .hidden, .skip');"
        "return [document.documentElement.scrollWidth, "
        "[...document.querySelectorAll('body *')].filter(free)"
        ".filter(e => e.getBoundingClientRect().right > 391).map(e => e.outerHTML)]"
    )
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert found[0] <= 392
    assert found[1] == []


def test_an_audit_in_memory_says_so(audit: Audit) -> None:
    """No name is made up."""
    assert audit.subject == "a table in memory, a release not saved"
    assert replace(audit, pictures=Pictures()).subject == audit.subject
