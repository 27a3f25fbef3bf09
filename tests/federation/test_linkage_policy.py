"""What owners let others find out by matching people, and how people are matched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from people import PARTS, SCHEMA, part, people

from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.protocol.linkage import canonical_identifier
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.signing_keys import fingerprint

if TYPE_CHECKING:
    from consortium import Consortium

ROWS = 12


def add(consortium: Consortium, **policy: Any) -> None:
    """Two owners of different attributes; the policy changes are north's."""
    for name in ("north", "south"):
        given = policy if name == "north" else {}
        consortium.add_owner(name, part(name, ROWS), PARTS[name], key_column="id", **given)


def run(consortium: Consortium, round_id: str) -> tuple[OwnerState, Reason | None]:
    """A vertical round, and how it ended for north."""
    consortium.aggregator.open_round(consortium.terms(round_id, kind=Kind.VERTICAL))
    consortium.settle()
    data = consortium.agents["north"].journal.round(round_id)
    assert data is not None
    return data.state, data.reason


def test_guesses_are_metered_over_a_year(consortium: Consortium) -> None:
    """Two rounds of 12 are allowed 30 guesses, the third is not; a year later it is again."""
    add(consortium, guesses="30")
    assert run(consortium, "r1")[0] is OwnerState.CLOSED
    assert run(consortium, "r2")[0] is OwnerState.CLOSED
    assert run(consortium, "r3") == (OwnerState.REFUSED, Reason.TOO_MANY_GUESSES)
    consortium.time += 366 * 24 * 3600
    assert run(consortium, "r4")[0] is OwnerState.CLOSED


def test_rounds_at_once_are_metered_together(consortium: Consortium) -> None:
    """Five rounds whose plans arrive before any is signed have no more guesses than the year."""
    add(consortium, guesses="30")
    names = [f"r{number}" for number in range(5)]
    for name in names:
        consortium.aggregator.open_round(consortium.terms(name, kind=Kind.VERTICAL))
    consortium.settle()
    north = consortium.agents["north"].journal
    ends = [data.reason for name in names if (data := north.round(name)) is not None]
    assert sorted(ends, key=str) == [None, None, *[Reason.TOO_MANY_GUESSES] * 3]


@pytest.mark.parametrize("other", [False, True])
def test_a_repetition_brings_no_new_guesses(consortium: Consortium, other: bool) -> None:
    """Another batch than before is not raised in a round that repeats one; the same one is."""
    import pyarrow.parquet as pq
    from driving import step

    add(consortium, guesses=str(ROWS))
    consortium.aggregator.open_round(consortium.terms(kind=Kind.VERTICAL))
    for _ in range(8):
        for agent in consortium.agents.values():
            step(agent)
    data = consortium.store.round("r1")
    assert data is not None
    assert set(data.pseudonyms) == {"north", "south"}
    consortium.aggregator.abort("r1")
    south = consortium.agents["south"]
    if other:
        pq.write_table(part("south", ROWS, first=100), south.home.settings.source)
        south.home.forget_table()
    consortium.aggregator.repeat("r1", name="r2", deadline=int(consortium.time) + 3600)
    consortium.settle()
    again = consortium.agents["north"].journal.round("r2")
    assert again is not None
    assert again.reason is (Reason.TOO_MANY_GUESSES if other else None)
    assert again.raised == (() if other else ("south",))


def test_a_repetition_of_what_was_never_linked_counts(consortium: Consortium) -> None:
    """A round that was stopped before anybody could guess does not pay for the one after it."""
    from driving import step

    add(consortium, guesses=str(ROWS - 1))
    path = consortium.homes["north"].policy_file
    strict = path.read_text()
    path.write_text(strict.replace(f"yearly_guesses: {ROWS - 1}", "yearly_guesses: 1000"))
    consortium.aggregator.open_round(consortium.terms(kind=Kind.VERTICAL))
    north, south = consortium.agents["north"], consortium.agents["south"]
    for _ in range(3):
        step(north)
        if (data := consortium.store.round("r1")) is not None and data.plan is None:
            step(south)
    consortium.aggregator.abort("r1")
    step(north), step(south)
    first = north.journal.round("r1")
    assert first is not None
    assert first.plan is not None
    assert not first.signed
    path.write_text(strict)
    consortium.aggregator.repeat("r1", name="r2", deadline=int(consortium.time) + 3600)
    consortium.settle()
    again = north.journal.round("r2")
    assert again is not None
    assert again.reason is Reason.TOO_MANY_GUESSES


def test_a_batch_larger_than_allowed_is_refused(consortium: Consortium) -> None:
    """How many people another owner may ask about in one round is the policy's."""
    add(consortium)
    path = consortium.homes["north"].policy_file
    path.write_text(path.read_text().replace("largest_batch: 1000000", "largest_batch: 11"))
    assert run(consortium, "r1") == (OwnerState.REFUSED, Reason.TOO_MANY_GUESSES)


def test_a_round_with_a_stranger_waits_for_a_person(consortium: Consortium) -> None:
    """Automatic approval is for peers that the policy names, by their keys."""
    add(consortium, peers="{}")
    assert run(consortium, "r1")[0] is OwnerState.AWAITING_APPROVAL
    consortium.agents["north"].journal.decide("r1", "approve")
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.RELEASED


def test_a_peer_with_another_key_is_refused(consortium: Consortium) -> None:
    """A pinned key that is not the plan's is refused; the right one is approved by policy."""
    add(consortium)
    path = consortium.homes["north"].policy_file
    south = fingerprint(consortium.homes["south"].key.public)
    given = path.read_text()
    path.write_text(given.replace("peers: all", "peers: {south: " + "0" * 32 + "}"))
    assert run(consortium, "r1") == (OwnerState.REFUSED, Reason.UNKNOWN_PEER)
    path.write_text(given.replace("peers: all", f"peers: {{south: {south}}}"))
    assert run(consortium, "r2")[0] is OwnerState.CLOSED


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("Müller", "1970-01-31"), ("Mueller", "1970-01-31"), False),
        (("Müller", "1970-01-31"), ("MULLER ", "1970/01/31"), True),
        (("O'Neil", "1"), ("ONEIL", "1"), True),
        (("ab", "c"), ("a", "bc"), False),
    ],
)
def test_normalised_keys(one: tuple[str, ...], other: tuple[str, ...], same: bool) -> None:
    """Case, accents and punctuation do not matter, the parts' borders do."""
    found = canonical_identifier(*one, how="letters") == canonical_identifier(*other, how="letters")
    assert found is same
    assert canonical_identifier(*one) != canonical_identifier(*other)


def test_composite_keys_link_people(consortium: Consortium) -> None:
    """Name and date together, written differently by two owners, match by letters."""
    import dataclasses

    from sherd.federation.owner.owner_home import SETTINGS
    from sherd.federation.wire.settings_file import write_settings

    names = [f"Zoë {chr(65 + i)}" for i in range(ROWS)]
    for name in ("north", "south"):
        table = part(name, ROWS).drop_columns(["id"])
        written = names if name == "north" else [each.upper().replace("Ë", "E") for each in names]
        born = pa.array(["1970-01-31"] * ROWS)
        table = table.append_column("name", pa.array(written)).append_column("born", born)
        schema = PARTS[name].replace(
            "  id: {role: identifier}\n",
            "  name: {role: identifier}\n  born: {role: identifier}\n",
        )
        home = consortium.add_owner(name, table, schema)
        settings = dataclasses.replace(
            home.settings, key_columns=["name", "born"], normalise="letters"
        )
        write_settings(home.folder / SETTINGS, settings)
    assert run(consortium, "r1")[0] is OwnerState.CLOSED
    data = consortium.store.round("r1")
    assert data is not None
    assert data.common_count == ROWS


def test_few_matches_are_warned_of(consortium: Consortium) -> None:
    """Where far fewer people match than both owners hold, the log says so."""
    consortium.add_owner("north", part("north", ROWS), PARTS["north"], key_column="id")
    consortium.add_owner("south", part("south", ROWS, first=4), PARTS["south"], key_column="id")
    assert run(consortium, "r1")[0] is OwnerState.CLOSED
    said = [line[3] for line in consortium.agents["north"].journal.audit() if "few" in line[2]]
    assert said == ["8 of at most 12: compare how each owner writes its keys"]


def test_revoking_an_owner_ends_its_rounds(consortium: Consortium) -> None:
    """An owner whose access is taken away does not keep others waiting."""
    for number, name in enumerate(("north", "south")):
        consortium.add_owner(name, people(ROWS, seed=number, first=number * 100), SCHEMA)
    consortium.aggregator.open_round(consortium.terms())
    assert consortium.aggregator.revoke("south") == ["r1"]
    data = consortium.store.round("r1")
    assert data is not None
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.STOPPED)


def test_texts_of_others_do_not_steer_a_terminal() -> None:
    """Escapes in what a peer wrote are shown, not obeyed."""
    from sherd.cli.options import in_words, printable

    assert printable("a\x1b[2Jb\x07\u202e") == "a\\x1b[2Jb\\x07\\u202e"
    assert in_words({"purpose": "a\x1b]0;x"}) == "purpose a\\x1b]0;x"
