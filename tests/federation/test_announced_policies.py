"""Owners announce what their policies allow; a round that they forbid is refused at once."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from driving import step
from people import SCHEMA, people

from sherd.errors import PeerError, PlanError, PolicyError
from sherd.federation.aggregator.announced import announced_policies, take_announcement
from sherd.federation.owner.agent_duties import ANNOUNCED
from sherd.federation.protocol.announced_policy import AnnouncedPolicy, announced_objections
from sherd.federation.protocol.joint_plan import Kind, Linkage, Sharing
from sherd.federation.protocol.reasons import Reason
from sherd.federation.wire.envelope import sign_announcement
from sherd.signing_keys import SigningKey

if TYPE_CHECKING:
    from consortium import Consortium

OWNERS = ("north", "south")


def set_up(consortium: Consortium, announce: str = "all", **policy: Any) -> None:
    """Two owners with the same attributes; south announces so much of its policy."""
    for seed, name in enumerate(OWNERS):
        consortium.add_owner(name, people(60, seed=seed), SCHEMA, **policy)
    tell(consortium, announce)


def tell(consortium: Consortium, announce: str) -> None:
    """Write into south's policy what it announces, and let both call."""
    path = consortium.homes["south"].policy_file
    lines = [line for line in path.read_text().splitlines() if "announce:" not in line]
    path.write_text("\n".join([*lines, f"announce: {announce}", ""]))
    for agent in consortium.agents.values():
        step(agent)


def announced(consortium: Consortium) -> dict[str, AnnouncedPolicy]:
    """What the aggregator knows of both."""
    return announced_policies(consortium.aggregator, OWNERS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": "2"}, "south allows epsilon up to 1.5 in one round; the round asks for 2"),
        ({"method": "slice", "epsilon": None}, "south does not allow the method slice"),
        ({"linkage": Linkage.OPRF}, "south does not allow the linkage oprf"),
        ({"parameters": {"k": 4}}, "south allows k from 5; the round asks for 4"),
    ],
)
def test_refused_at_once(consortium: Consortium, changes: dict[str, Any], words: str) -> None:
    """The operator is told which owner and which limit, and nobody is invited."""
    set_up(consortium, "[]", largest="1.5")
    path = consortium.homes["south"].policy_file
    text = path.read_text().replace("linkage: [oprf, hmac]", "linkage: [hmac]")
    path.write_text(text.replace("least_k: 3", "least_k: 5"))
    given = {"parameters": {"k": 5}, **changes}
    consortium.aggregator.open_round(consortium.terms("before", **given))
    tell(consortium, "all")
    with pytest.raises(PolicyError) as refused:
        consortium.aggregator.open_round(consortium.terms("after", **given))
    assert words in refused.value.what
    assert "north" not in refused.value.what
    assert consortium.store.round("after") is None
    fine = consortium.terms("fine", parameters={"k": 5})
    consortium.aggregator.open_round(fine)
    assert consortium.store.round("fine") is not None


def test_only_what_is_named_is_told(consortium: Consortium) -> None:
    """An announcement holds the settings its owner names and nothing else of the policy."""
    set_up(consortium, "[largest_epsilon]", largest="1.5")
    assert {name: policy.in_words for name, policy in announced(consortium).items()} == {
        "south": {"largest_epsilon": "1.5"}
    }
    raw = consortium.store.announced("south") or b""
    told = {name for name, value in json.loads(raw)["policy"].items() if value is not None}
    assert told == {"owner", "aggregator", "version", "largest_epsilon"}


def test_who_announces_nothing_sends_nothing(consortium: Consortium) -> None:
    """Without `announce` no announcement is made, kept or held against a round."""
    set_up(consortium, "[]")
    assert announced(consortium) == {}
    assert not (consortium.homes["south"].folder / ANNOUNCED).exists()
    consortium.aggregator.open_round(consortium.terms("r1", epsilon="999"))


def test_changed_and_withdrawn(consortium: Consortium) -> None:
    """A changed policy is announced again by the next turn; an empty list takes all of it back."""
    set_up(consortium, "all", largest="1")
    first = announced(consortium)["south"]
    for agent in consortium.agents.values():
        step(agent)
    assert announced(consortium)["south"] == first, "nothing changed, nothing is sent"
    path = consortium.homes["south"].policy_file
    path.write_text(path.read_text().replace("largest_epsilon: 1", "largest_epsilon: 3"))
    step(consortium.agents["south"])
    second = announced(consortium)["south"]
    assert second.version > first.version
    assert second.largest_epsilon == "3"
    tell(consortium, "[]")
    assert announced(consortium)["south"].in_words == {}


def test_restored_home_announces_again(consortium: Consortium) -> None:
    """A home restored from a backup announces what its policy says now, not what it said."""
    set_up(consortium, "all", largest="1")
    home = consortium.homes["south"]
    kept = (home.folder / ANNOUNCED).read_bytes(), home.policy_file.read_bytes()
    consortium.time += 60
    home.policy_file.write_text(
        home.policy_file.read_text().replace("epsilon: 1\n", "epsilon: 3\n")
    )
    step(consortium.agents["south"])
    assert announced(consortium)["south"].largest_epsilon == "3"
    (home.folder / ANNOUNCED).write_bytes(kept[0])
    home.policy_file.write_bytes(kept[1])
    consortium.time += 60
    step(consortium.start("south"))
    assert announced(consortium)["south"].largest_epsilon == "1"


def test_forged_replayed_and_misdirected(consortium: Consortium) -> None:
    """Only the owner's own, newest announcement to this aggregator counts."""
    set_up(consortium, "all")
    now = announced(consortium)["south"]
    key, member = consortium.homes["south"].key, consortium.store.member("south")
    assert member is not None
    cases = [
        (sign_announcement(dataclasses.replace(now, version=now.version + 1),
                           SigningKey.generate()), Reason.SIGNATURE),
        (sign_announcement(dataclasses.replace(now, version=1), key), Reason.STALE),
        (sign_announcement(dataclasses.replace(now, methods=()), key), Reason.STALE),
        (sign_announcement(dataclasses.replace(now, owner="north"), key), Reason.UNKNOWN_SENDER),
        (sign_announcement(dataclasses.replace(now, aggregator="other"), key),
         Reason.WRONG_RECIPIENT),
        (b'{"policy":{},"signature":""}', Reason.MALFORMED),
        (b"{}", Reason.MALFORMED),
        (b"\xff" * 10, Reason.MALFORMED),
        (b"1" * (1 << 20), Reason.TOO_LARGE),
    ]  # fmt: skip
    for raw, reason in cases:
        with pytest.raises(PeerError) as refused:
            take_announcement(consortium.aggregator, member, raw)
        assert refused.value.reason == reason
    assert announced(consortium)["south"] == now
    take_announcement(consortium.aggregator, member, sign_announcement(now, key))


def test_nonsense_cannot_be_announced() -> None:
    """Names that could end a line, a page or a terminal's state are no names."""
    for given in (
        {"attributes": ("a\x1b[2J",)}, {"attributes": ("",)}, {"attributes": ("a" * 201,)},
        {"methods": ("<b>",)}, {"kinds": ("diagonal",)}, {"linkage": ("magic",)},
        {"least_k": 1}, {"largest_epsilon": "-1"}, {"largest_epsilon": "1e99"}, {"version": 0},
        {"version": 2**60}, {"owner": "North"}, {"attributes": tuple(map(str, range(2001)))},
    ):  # fmt: skip
        base: dict[str, Any] = {"owner": "south", "aggregator": "registry", "version": 1}
        with pytest.raises((PlanError, ValueError)):
            AnnouncedPolicy(**{**base, **given})


def test_attributes_are_compared_between_owners(consortium: Consortium) -> None:
    """By rows every owner must offer the same attributes, by columns none twice."""
    set_up(consortium, "all")
    told = announced(consortium)["south"]
    assert told.attributes
    other = dataclasses.replace(told, owner="north", attributes=(told.attributes[0], "extra"))
    both = {"north": other, "south": told}
    rows = announced_objections(consortium.terms("r1"), both)["south"]
    assert f"offers the attribute '{told.attributes[1]}', and north does not" in rows
    assert "offers no attribute 'extra', as north does" in rows
    columns = consortium.terms("r2", kind=Kind.VERTICAL, linkage=Linkage.OPRF)
    assert announced_objections(columns, both) == {
        "south": [f"offers the attribute '{told.attributes[0]}', as north does"]
    }


def test_shares_are_held_against_the_limit_where_they_are_known(consortium: Consortium) -> None:
    """By columns an owner's share counts, not the whole: given, equal, or not known yet."""
    set_up(consortium, "[largest_epsilon]", largest="1")
    told = announced(consortium)

    def refused(**changes: Any) -> bool:
        given = {"kind": Kind.VERTICAL, "linkage": Linkage.OPRF, "epsilon": "3", **changes}
        return bool(announced_objections(consortium.terms("r1", **given), told))

    assert not refused()
    assert refused(sharing=Sharing.EQUAL)
    assert not refused(sharing=Sharing.EQUAL, epsilon="2")
    assert refused(sharing=Sharing.GIVEN, given={"north": "1", "south": "2"})
    assert not refused(sharing=Sharing.GIVEN, given={"north": "2", "south": "1"})


def test_a_policy_that_cannot_be_announced_stops_no_round(consortium: Consortium) -> None:
    """An aggregator that takes no announcements, or a policy that shares nothing, is survived."""
    set_up(consortium, "[]")
    path = consortium.homes["south"].policy_file
    path.write_text(path.read_text().replace("attributes: all", "attributes: []"))
    tell(consortium, "[attributes]")
    tell(consortium, "[attributes]")
    said = [event for _, _, event, _ in consortium.agents["south"].journal.audit()]
    assert said.count("could not announce the policy") == 1


def test_revoked_owner_leaves_nothing_behind(consortium: Consortium) -> None:
    """Announcement and last call of an owner go with its access."""
    set_up(consortium, "all")
    assert consortium.store.seen() == dict.fromkeys(OWNERS, int(consortium.time))
    consortium.aggregator.revoke("south")
    assert consortium.store.announced("south") is None
    assert set(consortium.store.seen()) == {"north"}
