"""Whole public tables in a real browser: from their files to audited releases, all by clicks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.support.ui import Select
from studio_process import StudioProcess, data_hashes, run_shown, start_studio
from walking import Walker

import sherd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BOUNDS = {
    "age": (0, 120), "citizenship": (1, 5), "family_size": (1, 30), "children": (0, 30),
    "education_level": (0, 24), "english_level": (0, 4), "salary": (-20000, 2000000),
    "hours_worked": (0, 99), "weeks_worked": (0, 52), "hours-per-week": (0, 99),
    "education-num": (1, 16), "capital-gain": (0, 100000), "capital-loss": (0, 10000),
}  # fmt: skip
"""The ranges of the surveys' code books; what is not listed is an amount."""


@pytest.fixture(name="studio")
def _studio(
    request: pytest.FixtureRequest, data_dir: Path, tmp_path: Path
) -> Iterator[StudioProcess]:
    source = str(data_dir / request.param)
    made = start_studio(tmp_path / "w", source, ledger=str(tmp_path / "l.db"))
    yield made
    made.stop()


def describe(walker: Walker) -> None:
    """Go through the schema's cards from top to bottom, and confirm each."""
    for place in range(len(walker.browser.find_elements("css selector", "li.attribute"))):
        card = f"//li[@id='a{place}']"
        name = walker.until(f"{card}//h2").text
        low, values = (walker.browser.find_elements("id", f"a{place}-{end}")
                       for end in ("low", "values"))  # fmt: skip
        if low:
            for end, bound in zip(("low", "high"), BOUNDS.get(name, (0, 2000000)), strict=True):
                field = walker.browser.find_element("id", f"a{place}-{end}")
                field.clear()
                field.send_keys(str(bound))
        if values and not values[0].get_attribute("value").strip():
            Select(walker.browser.find_element("id", f"a{place}-role")).select_by_value(
                "identifier"
            )
        known = walker.browser.find_elements("id", f"a{place}-known")
        if known and not known[0].is_selected():
            known[0].click()
        walker.click(f"Confirm {name}")
        walker.until(f"{card}//p[contains(., 'decided')]")
    walker.says("Everything is decided")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("studio", ["adult.csv", "acs2018_gov.csv.gz"], indirect=True)
def test_from_file_to_audited_release(
    studio: StudioProcess, browser: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Every row, by clicks: the release passes, and the command that is shown makes it again."""
    walker = Walker(browser)
    browser.get(studio.address)
    walker.says("From a table to a release")
    walker.click(request.node.callspec.params["studio"])
    walker.says("Attributes as they were read", 300)
    walker.click("go through the schema")
    describe(walker)
    walker.click("choose what to promise")
    walker.click("Choose dp-um")
    walker.write("k", "100")
    walker.until("//li[contains(., 'groups among')]")
    walker.click("Keep and go to the release")
    walker.write("Folder to write", str(tmp_path / "out"))
    browser.find_element("xpath", "//summary[contains(., 'seed')]").click()
    walker.write("Seed", "7")
    walker.click("Release and charge")
    walker.says("Released.", 600)
    walker.until("//h2[contains(., 'Verified: ')]", 600)
    walker.until("//iframe[@title='The audit of this release']", 1200)
    assert walker.complaints() == []
    assert sherd.verify(tmp_path / "out").passed
    run_shown(browser.find_element("id", "command").text)
    assert data_hashes(tmp_path / "out-again") == data_hashes(tmp_path / "out")
