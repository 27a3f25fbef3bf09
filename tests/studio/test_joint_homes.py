"""An owner's and an aggregator's home: three organisations from enrolment to a joint release."""

from __future__ import annotations

import contextlib
import html
import json
import re
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from organisations import OWNERS, Organisations

import sherd
from sherd.errors import UsageError, VerificationError
from sherd.federation.aggregator.aggregator_home import renew_owner
from sherd.federation.protocol import audit_chain
from sherd.federation.wire import certificates
from sherd.federation.wire.enrolment import make_request, read_answer, read_request
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


def test_certificate_is_renewed_by_a_click(organisations: Organisations) -> None:
    """A new certificate for the same key, which the owner takes in; nobody else gets one."""
    operator, home = organisations.operator, organisations.homes["north"]
    before = home.certificate.read_bytes()
    answer = operator.post("/members/renew", {"name": "north"})
    assert answer.headers["content-disposition"].endswith('"north.enrolment.json"')
    (home.folder / "renewed.json").write_bytes(answer.content)
    home.join(read_answer(home.folder / "renewed.json"))
    assert home.certificate.read_bytes() != before
    context = ssl.create_default_context(cafile=str(home.authority))
    context.load_cert_chain(home.certificate, home.channel_key)
    page = operator.get("/members").text
    until = r'<td class="when">20\d\d-\d\d-\d\d</td>'
    assert re.search(until, page), "the page says how long it lasts"
    assert organisations.enrol("north").status_code == 200, "its request renews it, too"
    for name in ("operator", "nobody", "../north", ""):
        assert operator.post("/members/renew", {"name": name}).status_code == 400


def test_renewing_needs_the_key_that_is_enrolled(organisations: Organisations) -> None:
    """A request under an enrolled name with another key is refused; the owner is left as it is."""
    organisations.set_up("other", 8)
    home = organisations.homes.pop("other")
    forged = make_request("north", home.key, certificates.request("north", certificates.new_key()))
    operator = organisations.operator
    answer = operator.client.post(
        f"{operator.base}{operator.root}/members/enrol",
        data={"code": operator.code, "fingerprint": fingerprint(home.key.public)},
        files={"request": ("request.json", forged)},
        headers={"Origin": operator.base},
    )
    assert answer.status_code == 400
    assert "name is already taken" in answer.text
    (home.folder / "forged.json").write_bytes(forged)
    with pytest.raises(UsageError, match="same key"):
        renew_owner(organisations.premises, "north", read_request(home.folder / "forged.json"))
    assert renew_owner(organisations.premises, "north")


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
    assert {each["name"] for each in kept["members"]} == {"operator", *OWNERS}
    ended = {each["round"]: each["reason"] for each in kept["rounds"]}
    assert ended == {"stays": None, "second": "an owner refused"}
    assert "board" not in json.dumps(kept)
    lines = organisations.operator.get("/audit-log.jsonl").text.splitlines()
    count, head = audit_chain.verify_lines(audit_chain.read_export(lines))
    assert count == len(kept["audit"]) > 5
    assert head == kept["head"] == kept["audit"][-1]["hash"]
    with pytest.raises(VerificationError):
        audit_chain.verify_lines(audit_chain.read_export([*lines[:2], *lines[3:]]))


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


def test_what_an_announced_policy_forbids_cannot_be_opened(organisations: Organisations) -> None:
    """The page names the owner and the limit, keeps what was filled in, and opens nothing."""
    operator = organisations.operator
    organisations.announce("south", "all")
    assert "largest epsilon 2" in operator.get("/new").text
    given = {"method": "dp-um", "kind": "horizontal", "epsilon": "2.5", "k": "7", "name": "dear",
             "purpose": "lengths & stays", "owner": ["north", "south"]}  # fmt: skip
    text = html.unescape(operator.post("/new", given).text)
    assert "<b>south</b> allows epsilon up to 2 in one round; the round asks for 2.5" in text
    assert "Open the round" not in text
    refused = operator.post("/open", given)
    assert refused.status_code == 400
    assert "south allows epsilon up to 2" in html.unescape(refused.text)
    assert organisations.service.store.round("dear") is None
    change = re.search(r'href="/\w+(/new\?[^"]+)"', text)
    assert change is not None
    again = html.unescape(operator.get(change[1]).text)
    assert 'name="k" value="7"' in again
    assert 'value="lengths & stays"' in again
    assert re.search(r'value="south" checked', again)
    assert not re.search(r'value="west" checked', again)
    organisations.announce("south", "[]")
    fine = operator.post("/new", given).text
    assert "Open the round" in fine


def test_the_command_line_refuses_the_same(
    organisations: Organisations, capsys: pytest.CaptureFixture[str]
) -> None:
    """`sherd aggregator round open` ends with the code for policies, and says which limit."""
    from sherd.cli import run

    organisations.announce("south", "[least_k]")
    words = ["aggregator", "round", "open", "cheap", "--home", str(organisations.premises.folder),
             "--kind", "horizontal", "--owner", "south", "-m", "dp-um", "-e", "1"]  # fmt: skip
    path = organisations.homes["south"].policy_file
    path.write_text(path.read_text().replace("least_k: 3", "least_k: 6"))
    organisations.settle()
    assert (run([*words, "-k", "5"]), organisations.service.store.round("cheap")) == (3, None)
    assert "south allows k from 6; the round asks for 5" in capsys.readouterr().err
    path.write_text(path.read_text().replace("least_k: 6", "least_k: 3"))
    organisations.announce("south", "[]")


def test_who_is_silent_and_since_when(organisations: Organisations) -> None:
    """Each owner that is awaited is named, with when it was asked and when it last called."""
    there = organisations.open_round(name="quiet", epsilon="0.25")
    text = organisations.operator.get(there).text
    known = (
        r"<b>{}</b> {}[^<]*: has not answered since \d{{4}}-\d\d-\d\d \d\d:\d\d UTC, last called \d"
    )
    for name in OWNERS:
        assert re.search(known.format(name, "invited"), text), name
    organisations.settle()
    text = organisations.operator.get(there).text
    for name in OWNERS:
        assert re.search(known.format(name, "offered"), text), "each must sign, and has not"
    decide(organisations.visitors["north"], "approve")
    organisations.settle()
    text = organisations.operator.get(there).text
    assert not re.search(known.format("north", "signed"), text)
    assert "south since" in organisations.operator.get("/").text
    assert "north since" not in organisations.operator.get("/").text
    organisations.operator.post(f"{there}/abort")
    organisations.settle()
    text = organisations.operator.get(there).text
    assert "the operator ended the round" in text
    assert "has not answered" not in text


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
    """A member that is revoked is not offered for the next round, and its rounds end."""
    operator = organisations.operator
    there = organisations.open_round(name="last", epsilon="0.25")
    operator.post("/members/revoke", {"name": "west"})
    ended = organisations.operator.get(there).text
    assert "west has no access any more" in ended
    assert 'value="west"' not in operator.get("/new").text
    assert operator.post("/members/revoke", {"name": "operator"}).status_code == 400
