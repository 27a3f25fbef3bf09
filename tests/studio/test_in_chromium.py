"""The studio in a real browser: from a file to an audited release, by clicks and by keyboard."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsing import FOUR, TWO, objections, visited
from small_tables import write_part
from studio_process import StudioProcess, start_studio
from walking import MAKING, Walker, keep_picture

import sherd
from sherd.budget.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator


ROWS = 500
COLUMNS = ("age", "workclass", "education", "marital_status", "sex", "hours_per_week", "income")


@pytest.fixture(scope="module", name="place")
def _place() -> Iterator[Path]:
    """Some of Adult as a file, in a folder whose name can be shown in a picture."""
    folder = Path("/srv/census") if MAKING else Path(tempfile.mkdtemp(prefix="census-"))
    folder.mkdir(exist_ok=True)
    write_part("adult", COLUMNS, ROWS, folder)
    (folder / "few.csv").write_text("age\n" + "".join(f"{20 + i % 50}\n" for i in range(80)))
    (folder / "few.yaml").write_text(
        "population: people of the census\nattributes: {age: {type: integer, domain: [0, 99]}}\n"
    )
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module", name="studio")
def _studio(place: Path) -> Iterator[StudioProcess]:
    ledger = place / "ledger.db"
    Ledger(ledger).set_limit("people of the census", sherd.Amount("5"))
    made = start_studio(place / "studio", str(place / "adult.csv"), ledger=str(ledger))
    yield made
    made.stop()


@pytest.fixture(scope="module", name="walker")
def _walker(browser: Any, studio: StudioProcess) -> Walker:
    count = sum("http://" in line for line in studio.lines)
    browser.get(studio.address)
    studio.wait_for(count + 1)
    walker = Walker(browser)
    walker.says("From a table to a release")
    return walker


@pytest.mark.timeout(600)
def test_from_file_to_audited_release(walker: Walker, place: Path) -> None:
    """Adult by clicks: open, schema, promise, explore, release; the files are there and pass."""
    walker.click("adult.csv")
    walker.says("Attributes as they were read")
    keep_picture(walker.browser, "open")
    walker.click("go through the schema")
    walker.says("14 decisions still open")
    walker.write("Lowest that can occur", "17")
    walker.write("Highest that can occur", "90")
    walker.browser.find_element("id", "a0-known").click()
    walker.click("Confirm age")
    walker.says("12 decisions still open")
    keep_picture(walker.browser, "schema")
    walker.write("Path of a schema", str(place / "adult.yaml"))
    walker.click("Use the schema in that file")
    walker.says("Everything is decided")
    walker.write("Who is it about?", "people of the census")
    walker.click("Keep")
    walker.says("Everything is decided")
    walker.click("choose what to promise")
    walker.click("Choose dp-um")
    walker.says("e^ε ≈ 2.718")
    slider = walker.browser.find_element("id", "s-epsilon")
    slider.send_keys("\ue014" * 6)  # the arrow to the right
    walker.until("//dd[contains(., 'ε = 2')]")
    walker.write("k", "25")
    walker.until("//li[contains(., 'at most 20 groups among 500 rows')]")
    keep_picture(walker.browser, "promise")
    walker.click("Keep and explore")
    walker.says("Choosing here uses the data")
    walker.write("ε", "0.5, 1, 2" if MAKING else "0.5, 2")
    walker.write("k", "5, 50" if MAKING else "5")
    walker.click("Draw the map")
    found = "6 of 6" if MAKING else "2 of 2"
    there = f"//*[local-name()='svg' and contains(@aria-label, 'risk for {found} pairs')]"
    walker.until(there, seconds=250)
    walker.click("Try it out as a candidate")
    walker.until("//h4[contains(., 'What attackers achieve')]")
    keep_picture(walker.browser, "explore", top="#map")
    walker.click("Next: release")
    walker.says("What an audit said of this plan")
    walker.says("Not safe to publish")
    walker.write("Folder to write", str(place / "out"))
    walker.click("Release and charge ε 2")
    walker.says("Released.")
    walker.until("//h2[contains(., 'Verified: ')]")
    walker.until("//iframe[@title='The audit of this release']", seconds=280)
    keep_picture(walker.browser, "release")
    walker.browser.switch_to.frame(walker.browser.find_element("tag name", "iframe"))
    walker.until("//dt[contains(., 'Promise')]")
    walker.browser.switch_to.default_content()
    assert walker.complaints() == []
    assert sherd.verify(place / "out").passed
    account = Ledger(place / "ledger.db").account("people of the census")
    assert account.spent == sherd.Amount("2")


@pytest.fixture(scope="module", name="pages")
def _pages(walker: Walker, place: Path) -> list[str]:
    """Every page of the walk."""
    assert (place / "out").exists(), "the walk comes first"
    here = walker.browser.current_url
    project = here[: here.index("/release")]
    home = here[: here.index("/p/") + 1]
    steps = ["open", "schema", "promise?method=dp-um", "explore", "release", "promise?method=none"]
    return [home, *(f"{project}/{step}" for step in steps), here]


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param(TWO, id="two-looks"),
        pytest.param(FOUR, id="every-look", marks=pytest.mark.slow),
    ],
)
def test_nothing_to_object_to(
    walker: Walker, pages: list[str], axe: str, looks: tuple[tuple[int, str], ...]
) -> None:
    """No violation by axe-core on any page, no scrolling sideways, no request elsewhere."""
    wrong: dict[str, Any] = {}
    for page in pages:
        asked = visited(walker.browser, page)
        outside = [a for a in asked if not a.startswith((pages[0], "data:"))]
        found = objections(walker.browser, axe, looks)
        if outside or found:
            wrong[page.split("/p/")[-1]] = (outside, found)
    assert wrong == {}
    # The browser notes that the page of a problem is one, and has nothing else to say.
    assert [each for each in walker.complaints() if "method=none" not in each] == []


DROP = """
const files = new DataTransfer();
files.items.add(new File(["age\\n30\\n40\\n"], "dropped.csv"));
const event = new DragEvent("drop", {dataTransfer: files, bubbles: true, cancelable: true});
return arguments[0].dispatchEvent(event);
"""


def test_a_file_can_be_dropped(walker: Walker) -> None:
    """Dropped on the frame it is chosen; dropped beside it, it does not replace the page."""
    browser = walker.browser
    browser.get("/".join([*browser.current_url.split("/")[:4], ""]))
    walker.says("Choose a file, or drop one here")
    beside = browser.find_element("tag name", "h1")
    assert browser.execute_script(DROP, beside) is False, "the browser would open the file"
    chosen = "return document.getElementById('file').files.length"
    assert browser.execute_script(chosen) == 0
    browser.execute_script(DROP, browser.find_element("css selector", "form.drop p"))
    assert browser.execute_script(chosen) == 1
    walker.click("Open this file")
    walker.says("dropped.csv")
    walker.says("Attributes as they were read")


class Typist:
    """A person with a keyboard and no mouse."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    def press(self, keys: str) -> None:
        """Press keys where the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self._browser).send_keys(keys).perform()

    def focused(self) -> Any:
        """What has the focus."""
        return self._browser.switch_to.active_element

    def reach(self, words: str, most: int = 150) -> None:
        """Press the tabulator until the focus is on what says so."""
        for _ in range(most):
            self.press("\ue004")
            there = self.focused()
            name = there.accessible_name or there.text
            if words in name:
                shown = self._browser.execute_script(
                    "return getComputedStyle(arguments[0]).outlineStyle", there
                )
                assert shown != "none", f"nobody can see that {words!r} has the focus"
                return
        raise AssertionError(f"{words!r} cannot be reached by the keyboard")


def test_keyboard_alone_completes_a_release(walker: Walker, place: Path) -> None:
    """From the first page to the release no mouse is needed, and the focus can be seen."""
    browser = walker.browser
    typist = Typist(browser)
    browser.get("/".join([*browser.current_url.split("/")[:4], ""]))
    walker.says("From a table to a release")
    typist.reach("Path on this machine")
    typist.press(f"{place / 'few.csv'}\ue007")
    walker.says("Attributes as they were read")
    typist.reach("Next: go through the schema")
    typist.press("\ue007")
    walker.says("decisions still open")
    typist.reach("Path of a schema")
    typist.press(str(place / "few.yaml"))
    typist.reach("Use the schema in that file")
    typist.press("\ue007")
    walker.says("Everything is decided")
    typist.reach("Next: choose what to promise")
    typist.press("\ue007")
    walker.says("Read what it does not cover")
    typist.reach("Choose idp")
    typist.press("\ue007")
    walker.says("Individual differential privacy")
    typist.reach("epsilon")
    typist.press("\ue009a\ue000")  # all of what is there is written over
    typist.press("0.5")
    walker.until("//dd[contains(., 'ε = 0.5')]")
    typist.reach("Keep and go to the release")
    typist.press("\ue007")
    walker.says("Where to, and how")
    typist.reach("Folder to write")
    typist.press(str(place / "typed"))
    typist.reach("Audit it afterwards")
    typist.press(" ")
    typist.reach("Release and charge")
    typist.press("\ue007")
    walker.until("//h2[contains(., 'Verified: ')]")
    assert sherd.verify(place / "typed").passed
