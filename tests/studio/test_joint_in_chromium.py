"""Three organisations in a real browser: from enrolment to a joint release, by clicks."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from browsing import FOUR, TWO, objections
from organisations import OWNERS, Organisations
from walking import Walker, keep_picture

import sherd
from sherd.federation.wire.enrolment import read_answer
from sherd.signing_keys import fingerprint
from sherd.studio.aggregator_pages import AggregatorPages
from sherd.studio.owner_pages import OwnerPages
from sherd.studio.studio_server import StudioServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextlib.contextmanager
def opened(pages: Any, walker: Walker) -> Iterator[Callable[[str], None]]:
    """A studio on a real socket, entered by the browser; goes to its pages."""
    server = StudioServer(pages.app(), most=pages.most, announce=lambda _address: None)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        walker.browser.get(server.address)
        walker.until("//nav")
        root = walker.browser.current_url.rstrip("/")
        yield lambda path: walker.browser.get(root + path)
    finally:
        server.stop()
        thread.join()


def check(walker: Walker, axe: str, looks: tuple[tuple[int, str], ...]) -> None:
    """Nothing to object to on the page that is open: light and dark, wide and narrow."""
    assert objections(walker.browser, axe, looks) == []


def wait_for(path: Path) -> None:
    """Wait until the browser has downloaded a file."""
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end, sorted(each.name for each in path.parent.iterdir())
        time.sleep(0.05)


def enrol(there: Organisations, walker: Walker, name: str, folder: Path) -> None:
    """The operator enrols one owner; the browser downloads the answer."""
    home = there.homes[name]
    walker.browser.find_element("id", "request").send_keys(str(home.folder / "request.json"))
    walker.write("Its fingerprint", fingerprint(home.key.public))
    walker.click("Enrol")
    answer = folder / f"{name}.enrolment.json"
    wait_for(answer)
    read_answer(answer)
    there.join(name, answer.read_bytes())


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "looks",
    [
        pytest.param(TWO, id="two-looks"),
        pytest.param(FOUR, id="every-look", marks=pytest.mark.slow),
    ],
)
def test_three_organisations_by_clicks(
    browser: Any, axe: str, tmp_path: Path, looks: tuple[tuple[int, str], ...]
) -> None:
    """Enrolled, asked, approved, released and verified, with nothing but a browser."""
    walker = Walker(browser)
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    with contextlib.ExitStack() as stack:
        there = Organisations(tmp_path / "joint", stack)
        operator = AggregatorPages(there.premises)
        stack.callback(operator.close)
        with opened(operator, walker) as visit:
            visit("/members")
            for seed, name in enumerate(OWNERS):
                there.set_up(name, seed)
                enrol(there, walker, name, tmp_path)
                visit("/members")
                walker.says(name)
            (tmp_path / "north.enrolment.json").unlink()
            walker.click("Renew the certificate of north")
            wait_for(tmp_path / "north.enrolment.json")
            check(walker, axe, looks)
            walker.click("New round")
            check(walker, axe, looks)
            walker.write("k", "5")
            there.announce("south", "[attributes, largest_epsilon]")
            walker.write("ε of the whole release", "2.5")
            walker.write("Name of the round", "stays")
            walker.write("What the release is for", "lengths of stay in three hospitals")
            walker.click("Review it before anybody is asked")
            walker.says("south allows epsilon up to 2 in one round; the round asks for 2.5")
            check(walker, axe, looks)
            keep_picture(browser, "refused")
            walker.click("Change it")
            walker.write("ε of the whole release", "1")
            walker.click("Review it before anybody is asked")
            walker.says("nobody has been asked yet")
            check(walker, axe, looks)
            walker.click("Open the round and invite them")
            walker.says("has not answered since")
            keep_picture(browser, "aggregator")
            check(walker, axe, looks)
            visit("/")
            walker.says("Waiting for")
            check(walker, axe, looks)
            there.settle()
        for name in OWNERS:
            with opened(OwnerPages(there.homes[name]), walker) as visit:
                walker.says("1 request for your decision")
                if name == "north":
                    walker.click("Show the preview")
                    walker.says("of the range")
                    check(walker, axe, looks)
                    visit("/")
                    keep_picture(browser, "owner")
                walker.write("Your name", "A. Steward")
                walker.write("Comment", "agreed by the board")
                walker.click("Approve")
                walker.says("The round is approved")
        there.settle()
        with opened(OwnerPages(there.homes["north"]), walker) as visit:
            visit("/rounds")
            walker.says("The result is fetched and checked")
            check(walker, axe, looks)
            visit("/budget")
            check(walker, axe, looks)
        with opened(operator, walker) as visit:
            walker.click("stays")
            walker.click("Verify it from what was released alone")
            walker.until("//li[@class='good']")
            check(walker, axe, looks)
        assert sherd.verify(there.premises.releases / "stays").passed
        assert walker.complaints() == []
