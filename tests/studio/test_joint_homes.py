"""An owner's and an aggregator's home: three organisations from enrolment to a joint release."""

from __future__ import annotations

import contextlib
import html
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from organisations import OWNERS, Organisations

import sherd
from sherd.signing_keys import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx
    from studio_process import Visitor


@pytest.fixture(scope="module", name="organisations")
def _organisations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Organisations]:
    with contextlib.ExitStack() as stack:
        made = Organisations(tmp_path_factory.mktemp("joint"), stack)
        for seed, name in enumerate(OWNERS):
            made.set_up(name, seed)
            made.join(name, made.enrol(name).content)
        yield made


def decide(visitor: Visitor, decision: str, **fields: str) -> httpx.Response:
    """Fill in the first request on an owner's page."""
    text = visitor.get("/").text
    form = dict(re.findall(r'<input type="hidden" name="(round|plan)" value="([^"]+)">', text))
    assert set(form) == {"round", "plan"}
    return visitor.post("/decide", {**form, "decision": decision, "who": "A. Steward", **fields})


def test_wrong_fingerprint_is_not_enrolled(organisations: Organisations) -> None:
    """The operator must have compared the key; nobody is enrolled otherwise."""
    organisations.set_up("stranger", 9)
    other = fingerprint(organisations.homes["north"].key.public)
    refused = organisations.enrol("stranger", told=other)
    assert refused.status_code == 400
    assert "not the owner" in html.unescape(refused.text)
    assert "stranger" not in organisations.operator.get("/members").text
    del organisations.homes["stranger"]


def test_three_organisations_to_a_joint_release(organisations: Organisations) -> None:
    """Opened, approved by three people, released, verified: every step by a page."""
    operator = organisations.operator
    there = organisations.open_round(name="stays")
    text = operator.get(there).text
    assert text.count("has not answered since") == 3
    organisations.settle()
    for name, visitor in organisations.visitors.items():
        page = html.unescape(visitor.get("/").text)
        assert "1 request for your decision" in page
        assert re.search(r"<th scope=\"row\">ε in one round</th><td>up to 2</td><td>1</td>", page)
        assert "not allowed" not in page
        assert "<b>stays</b> & lengths" in page
        assert "<b>stays" not in visitor.get("/").text
        assert visitor.get("/?preview=stays").text.count("% of the range") >= 1
        done = decide(visitor, "approve", why=f"agreed\nat {name} <b>board</b>")
        assert "The round is approved" in done.text
        assert "Nothing waits" in done.text
    organisations.settle()
    text = operator.get(there).text
    assert '<span class="state good">released</span>' in text
    checked = operator.post(f"{there}/verify").text
    assert 'class="good"' in checked
    assert '<li class="bad">' not in checked
    release = organisations.premises.releases / "stays"
    assert sherd.verify(release).passed
    (files,) = [f for n, f in _files(release).items() if n.startswith("data.")]
    assert files["rows"] == 180


def _files(release: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((release / "manifest.json").read_text())["files"]
    return found


def test_decision_and_budget_are_on_record(organisations: Organisations) -> None:
    """Name and comment are in the owner's own journal; the charge is in its picture."""
    visitor = organisations.visitors["north"]
    rounds = html.unescape(visitor.get("/rounds").text)
    assert "A. Steward: agreed at north <b>board</b>" in rounds
    assert "<b>board" not in visitor.get("/rounds").text
    assert "What each party sees beyond the release" in rounds
    budget = visitor.get("/budget").text
    assert "Budget spent over time: 1 of 3" in budget
    journal = organisations.agents["north"].journal.audit()
    assert any(event == "decided by" for _, _, event, _ in journal)
    south = organisations.visitors["south"].get("/rounds").text
    assert "at north" not in south


def test_no_audit_is_invented(organisations: Organisations) -> None:
    """A report that was not made is not there, whatever it is called."""
    visitor = organisations.visitors["north"]
    for name in ("stays", "..%2fkey", "nothing"):
        assert visitor.get(f"/rounds/{name}/audit.html").status_code in (400, 404)
    assert visitor.post("/rounds/nothing/audit").status_code == 400


@pytest.mark.slow
def test_delivery_is_audited_by_its_owner(organisations: Organisations) -> None:
    """What was delivered is audited against the owner's own table; the page cannot act."""
    visitor = organisations.visitors["north"]
    answer = visitor.post("/rounds/stays/audit")
    assert answer.status_code == 200, html.unescape(answer.text)
    page = visitor.get("/rounds/stays/audit.html")
    assert page.status_code == 200
    assert "sandbox" in page.headers["content-security-policy"]


def test_refusal_ends_the_round(organisations: Organisations) -> None:
    """One person refuses; the operator sees that it ended, and why, but not the comment."""
    there = organisations.open_round(name="second", epsilon="0.5")
    organisations.settle()
    decide(organisations.visitors["west"], "refuse", why="not without the board")
    organisations.settle()
    text = html.unescape(organisations.operator.get(there).text)
    assert "not without the board" not in text
    assert 'class="note bad"' in text
    kept = json.loads(organisations.operator.get("/log.json").text)
    assert {each["round"] for each in kept["rounds"]} == {"stays", "second"}
    assert "board" not in json.dumps(kept)


def test_decision_about_another_plan_is_refused(organisations: Organisations) -> None:
    """A form that shows another plan, no name or no round decides nothing."""
    organisations.open_round(name="third", epsilon="0.25")
    organisations.settle()
    visitor = organisations.visitors["north"]
    assert decide(visitor, "approve", plan="0" * 64).status_code == 400
    assert decide(visitor, "approve", who=" ").status_code == 400
    assert decide(visitor, "perhaps").status_code == 400
    assert "1 request" in visitor.get("/").text
    done = decide(visitor, "refuse")
    assert done.status_code == 200
    again = visitor.post("/decide", {"round": "third", "plan": "x", "decision": "approve",
                                     "who": "A"})  # fmt: skip
    assert again.status_code == 400, "a decision is not made twice"


def test_terms_are_checked_before_anybody_is_asked(organisations: Organisations) -> None:
    """What no round could be is said at once; what a policy forbids is refused when offered."""
    operator = organisations.operator
    bad = operator.post("/new", {"method": "dp-um", "epsilon": "1", "k": "1", "owner": "north"})
    assert bad.status_code == 400
    assert "too small for a joint release" in html.unescape(bad.text)
    stranger = operator.post("/new", {"method": "dp-um", "epsilon": "1", "k": "5", "owner": "who"})
    assert "not enrolled" in stranger.text
    there = organisations.open_round(name="dear", epsilon="2.5")
    organisations.settle()
    text = html.unescape(operator.get(there).text)
    assert "dropped out" in text or 'class="note bad"' in text


def test_revoked_owner_is_gone(organisations: Organisations) -> None:
    """A member that is revoked is not offered for the next round."""
    operator = organisations.operator
    operator.post("/members/revoke", {"name": "west"})
    assert 'value="west"' not in operator.get("/new").text
    assert operator.post("/members/revoke", {"name": "operator"}).status_code == 400
