"""The approval page: what it shows, who may decide there, and how it looks in a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest
from browsing import axe_fixture, browser_fixture, violations, visited  # noqa: F401 - fixtures
from consortium import AppTransport
from people import SCHEMA, people
from spawning import spawn

from sherd.errors import ConnectionFailedError, UsageError
from sherd.federation.owner.approval_page import ApprovalPage, check_loopback, open_page
from sherd.federation.owner.approvals import decide
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from consortium import Consortium

HOST, TOKEN = "127.0.0.1:8123", "the-token-of-this-test"
OWN = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}


def ask(consortium: Consortium, rounds: tuple[str, ...] = ("r1",), **policy: str) -> None:
    """An owner whose rounds wait for a person."""
    consortium.add_owner("north", people(40), SCHEMA, approve="ask", **policy)
    for name in rounds:
        terms = consortium.terms(name, purpose="<b>stays</b> & lengths")
        consortium.aggregator.open_round(terms)
    consortium.settle()


@pytest.fixture
def page(consortium: Consortium) -> Iterator[httpx.Client]:
    """The page of an owner with one request."""
    ask(consortium)
    made = ApprovalPage(consortium.homes["north"], token=TOKEN, hosts=frozenset({HOST}))
    transport = AppTransport(made.app())
    with httpx.Client(base_url=f"http://{HOST}", transport=transport) as client:
        yield client
    transport.stop()


def form(page: httpx.Client, decision: str = "approve") -> dict[str, str]:
    """The first form on the page, filled in."""
    text = page.get(f"/{TOKEN}/").text
    found = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)">', text))
    assert set(found) == {"round", "plan", "code"}
    return {**found, "decision": decision}


def post(page: httpx.Client, data: dict[str, str], **headers: str) -> httpx.Response:
    """A form sent from the page itself, but for the headers given."""
    return page.post(f"/{TOKEN}/decide", data=data, headers={**OWN, **headers})


def test_what_the_page_shows(page: httpx.Client) -> None:
    """The plan in words, cost and budget, the promise; nothing is loaded or run; all escaped."""
    answer = page.get(f"/{TOKEN}/")
    assert answer.status_code == 200
    text = answer.text
    for words in (
        "r1", "&#39;registry&#39;", "joint release by rows", "&lt;b&gt;stays&lt;/b&gt; &amp;",
        "40 rows would be masked here by &#39;dp-um&#39; with k = 3", "age, income, colour",
        "ε = 1", "0 of 100", "Left now", "Promise:", "Show the preview",
    ):  # fmt: skip
        assert words in text, words
    assert "<script" not in text
    assert not re.search(r'(?:src|href|action)="(?:https?:)?//', text)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["cache-control"] == "no-store"
    assert page.get(f"/{TOKEN}/style.css").headers["content-type"].startswith("text/css")


def test_preview_only_when_asked_for(page: httpx.Client, consortium: Consortium) -> None:
    """The preview is made on request, marked as internal, and spends nothing."""
    assert "internal" not in page.get(f"/{TOKEN}/").text
    shown = page.get(f"/{TOKEN}/?preview=r1").text
    assert "internal: not for publication" in shown
    assert "in the mean" in shown
    assert "of the cells changed" in shown
    assert not consortium.agents["north"].ledger.account("people of north").spent
    (consortium.homes["north"].folder / "table.parquet").unlink()
    assert "The preview could not be made" in page.get(f"/{TOKEN}/?preview=r1").text


def test_budget_that_does_not_suffice(consortium: Consortium) -> None:
    """A second request that the first would leave no budget for is shown as such."""
    ask(consortium, ("r1", "r2"), lifetime="1.5")
    home = consortium.homes["north"]
    page = ApprovalPage(home, token=TOKEN, hosts=frozenset({HOST}))
    assert "not enough left" not in page.html()
    decide(consortium.agents["north"].journal, "r1", "approve")
    consortium.settle()
    assert "There is not enough left" in page.html()


def test_approving_on_the_page(page: httpx.Client, consortium: Consortium) -> None:
    """Approve: the agent signs, is charged, and the round is released; the page is then empty."""
    answer = post(page, form(page))
    assert (answer.status_code, answer.headers["location"]) == (303, "./?done=approve")
    shown = page.get(f"/{TOKEN}/?done=approve").text
    assert "The request was approved" in shown
    assert "Nothing waits for approval" in shown
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.RELEASED


def test_refusing_on_the_page(page: httpx.Client, consortium: Consortium) -> None:
    """Refuse: the aggregator is told that a person refused."""
    given = form(page, "refuse")
    assert post(page, given).status_code == 303
    consortium.settle()
    found = consortium.agents["north"].journal.round("r1")
    assert found is not None
    assert (found.state, found.reason) == (OwnerState.REFUSED, Reason.NOT_INTERESTED)
    again = post(page, given)
    assert again.status_code == 409, "a round that does not wait any more"


def undecided(consortium: Consortium) -> bool:
    """Whether nothing was decided."""
    return consortium.agents["north"].journal.decision("r1") is None


def test_wrong_token(page: httpx.Client, consortium: Consortium) -> None:
    """Without the token there is nothing to see and nothing to decide."""
    given = form(page)
    for path in ("/", "/style.css", "//", "/wrong/", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/", "/ü/"):
        answer = page.get(path)
        assert answer.status_code == 404, path
        assert "r1" not in answer.text
    assert page.post("/wrong/decide", data=given, headers=OWN).status_code == 404
    assert page.get(f"/{TOKEN}/decide").status_code == 405
    assert undecided(consortium)


def test_forms_from_elsewhere(page: httpx.Client, consortium: Consortium) -> None:
    """A form that another site sends, or that is not the one shown, decides nothing."""
    given = form(page)
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://{HOST}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        assert post(page, given, **headers).status_code == 403, headers
    assert page.post(f"/{TOKEN}/decide", data=given).status_code == 403, "no Origin"
    for change in (
        {"code": "0" * 64},
        {"code": ""},
        {"round": "r2"},
        {"plan": "0" * 64},
    ):
        assert post(page, {**given, **change}).status_code == 403, change
    assert post(page, {**given, "decision": "perhaps"}).status_code == 400
    assert post(page, {**given, "more": "x" * 5000}).status_code == 413
    assert undecided(consortium)


def test_form_about_another_plan(page: httpx.Client, consortium: Consortium) -> None:
    """A decision counts for the plan that was shown, not for one that came in its place."""
    made = ApprovalPage(consortium.homes["north"], token=TOKEN, hosts=frozenset({HOST}))
    other = {"round": "r1", "plan": "0" * 64, "code": made.code("r1", "0" * 64)}
    answer = post(page, {**other, "decision": "approve"})
    assert answer.status_code == 409
    assert undecided(consortium)
    with pytest.raises(UsageError, match="not the one that was shown"):
        decide(consortium.agents["north"].journal, "r1", "approve", plan_hash="0" * 64)


@pytest.mark.parametrize("host", ["evil.example:8123", "127.0.0.1", "127.0.0.1:80", "0.0.0.0:8123"])
def test_names_that_are_pointed_here(page: httpx.Client, consortium: Consortium, host: str) -> None:
    """A request by another name (DNS rebinding) is refused, even with the token."""
    given = form(page)
    answer = page.get(f"/{TOKEN}/", headers={"Host": host})
    assert answer.status_code == 421
    assert "r1" not in answer.text
    assert post(page, given, Host=host, Origin=f"http://{host}").status_code == 421
    assert undecided(consortium)


def test_only_this_machine(consortium: Consortium) -> None:
    """Addresses that other machines reach are refused; a port that is taken is said."""
    assert check_loopback("localhost") == "127.0.0.1"
    assert check_loopback("::1") == "::1"
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org", ""):  # noqa: S104 - refused
        with pytest.raises(UsageError, match="this machine only"):
            check_loopback(host)
    ask(consortium)
    home = consortium.homes["north"]
    address, _, listener = open_page(home, host="127.0.0.1", port=0)
    try:
        port = urlsplit(address).port
        assert port
        listener.listen()
        with pytest.raises(ConnectionFailedError, match="could not listen"):
            open_page(home, host="127.0.0.1", port=port)
    finally:
        listener.close()


def test_page_command_in_a_browser(
    consortium: Consortium,
    tmp_path: Path,
    browser: Any,
    axe: str,
) -> None:
    """`sherd owner page`: shown in Chromium in light and dark, accessible, approved by a click."""
    from processes import wait_until

    ask(consortium)
    home, log = consortium.homes["north"], tmp_path / "page.log"
    refused = spawn(["owner", "page", "--home", str(home.folder), "--host", "0.0.0.0"], log)  # noqa: S104
    assert refused.wait(60) == 2
    process = spawn(["owner", "page", "--home", str(home.folder)], log)
    try:
        wait_until(lambda: "http://" in log.read_text(), "the page is there")
        address = re.findall(r"http://\S+", log.read_text())[0]
        for dark in (False, True):
            asked = visited(browser, address, dark=dark)
            assert {urlsplit(a).netloc for a in asked if not a.startswith("data:")} == {
                urlsplit(address).netloc
            }
            assert violations(browser, axe) == []
        browser.find_element("css selector", "a.button").click()
        wait_until(lambda: "internal: not for publication" in browser.page_source, "the preview")
        assert violations(browser, axe) == []
        browser.find_element("css selector", "button.approve").click()
        wait_until(lambda: "The request was approved" in browser.page_source, "the decision")
        assert [e for e in browser.get_log("browser") if e["level"] == "SEVERE"] == []
        assert urlsplit(address).path.strip("/") not in log.read_text().replace(address, "")
    finally:
        process.kill()
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.RELEASED
