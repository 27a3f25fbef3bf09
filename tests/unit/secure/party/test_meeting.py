"""What parties tell each other first, which run it is, and who is in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sherd.errors import (
    FormatError,
    OutputExistsError,
    PeerError,
    SchemaError,
    TableError,
    UsageError,
    VerificationError,
)
from sherd.methods.specialising.secure_leaf_counts import PartyCells
from sherd.secure.party import PartySettings, RecordLinkage
from sherd.secure.party.meeting import Hello, compare, open_run, terms, told_journals
from sherd.secure.party.party_linking import link
from sherd.secure.party.party_rows import Input
from sherd.secure.party.run_journal import RunJournal, SignedResult

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sherd.secure.party.channel import Channel

FRESH = {
    "terms": {}, "rows": 3, "nonce": "n", "open": None, "finished": None, "published": False,
}  # fmt: skip
NAMES = ["a", "b", "c"]


def hellos(*changes: dict[str, Any]) -> dict[int, Hello]:
    """What parties said, apart from nothing in particular."""
    return {i: Hello.from_data({**FRESH, **one}) for i, one in enumerate(changes)}


@pytest.mark.parametrize(
    "data",
    [
        None, [], {}, {**FRESH, "more": 1}, {**FRESH, "rows": "3"}, {**FRESH, "rows": -1},
        {**FRESH, "rows": 10**12}, {**FRESH, "rows": True}, {**FRESH, "open": 7},
        {**FRESH, "terms": []}, {**FRESH, "published": 1},
    ],
)  # fmt: skip
def test_first_words_of_a_wrong_type_are_refused(data: Any) -> None:
    """Other keys, other types, numbers out of range."""
    with pytest.raises(PeerError, match="what a party says first"):
        Hello.from_data(data)


def test_parties_that_differ_do_not_start(files: Callable[..., Path]) -> None:
    """The message names what differs, and no value."""
    settings = PartySettings.load(files())
    mine = terms(settings)
    compare([mine, dict(mine), mine], NAMES)
    other = PartySettings.load(files(linkage="known", plan={"epsilon": 2}))
    with pytest.raises(SchemaError, match="'a' and 'b' differ in plan, linkage"):
        compare([mine, terms(other)], ["a", "b"])
    with pytest.raises(SchemaError, match="differ in parties, computing"):
        compare([mine, terms(PartySettings.load(files("abc", compute=["a", "c"])))], ["a", "b"])
    with pytest.raises(SchemaError, match="differ in their messages"):
        compare([mine, {**mine, "more": 1}], ["a", "b"])


def test_a_run_is_new_unless_somebody_is_in_one() -> None:
    """One open run is everybody's; two are too many."""
    done = {"finished": "r", "published": True}
    assert open_run(hellos({}, {}, {}), NAMES) is None
    assert open_run(hellos({}, {"finished": "r"}), NAMES) is None
    assert open_run(hellos({"open": "r"}, {}, done), NAMES) == "r"
    assert open_run(hellos({"open": "r"}, {"open": "r"}), NAMES) == "r"
    assert open_run(hellos(done, done), NAMES) is None
    with pytest.raises(FormatError, match="different runs"):
        open_run(hellos({"open": "r"}, {"open": "s"}), NAMES)


def test_a_run_that_some_lost_is_told_to_them() -> None:
    """Their folders were restored; one that knows the run and has no release wants a new one."""
    done = {"finished": "r", "published": True}
    assert open_run(hellos({}, done), NAMES) == "r"
    assert open_run(hellos(done, {"finished": "q"}, done), NAMES) == "r"
    with pytest.raises(OutputExistsError):
        open_run(hellos({}, done, {"finished": "s", "published": True}), NAMES)


@pytest.mark.parametrize("other", [{"finished": "r"}, {"open": "s"}])
def test_a_release_that_is_there_is_not_written_over(other: dict[str, Any]) -> None:
    """A party that has published does not begin again, nor go on with another run."""
    done = {"finished": "r", "published": True}
    with pytest.raises(OutputExistsError, match=r"has a release; got b; move its output away"):
        open_run(hellos(other, done), NAMES)


def test_journals_of_others_are_believed_only_where_they_agree() -> None:
    """The statement of all, results of the right types, and of these settings."""
    said = {"statement": {"plan": "p", "records": 4}, "entries": [["x", [1], []]]}
    none: dict[str, Any] = {"statement": None, "entries": []}
    statement, entries = told_journals({0: said, 1: none}, {"plan": "p"})
    assert statement == {"plan": "p", "records": 4}
    assert entries == [[SignedResult(what="x", values=(1,))], []]
    with pytest.raises(VerificationError, match="contradict"):
        told_journals({0: said, 1: {**said, "statement": {"records": 5}}}, {})
    with pytest.raises(FormatError, match="other settings or tables"):
        told_journals({0: said, 1: none}, {"plan": "q"})


@pytest.mark.parametrize(
    "bad",
    [
        [], 7, {}, {"statement": None, "entries": []}, {"statement": 1, "entries": []},
        {"statement": {}, "entries": []}, {"statement": {"records": "4"}, "entries": []},
        {"statement": {"records": 4}, "entries": [["x", [1.5]]]},
        {"statement": {"records": 4}, "entries": [["x"]]},
        {"statement": {"records": 4}, "entries": 3},
    ],
)  # fmt: skip
def test_journals_of_a_wrong_type_are_refused(bad: Any) -> None:
    """From another party, so: not read but judged."""
    with pytest.raises(PeerError, match="a journal"):
        told_journals({0: bad}, {})


def people(*ids: str) -> Input:
    """A party with these people; the class and the only cell are their numbers' last digits."""
    numbers = np.array([int(one[-1]) for one in ids], np.int64)
    return Input(
        cells=PartyCells(codes=(numbers,)),
        classes=numbers,
        identifiers=tuple(one.encode() for one in ids),
    )


def settings_of(meeting: Any, files: Callable[..., Path], place: int, **more: Any) -> PartySettings:
    """A party of the meeting."""
    base = PartySettings.load(files("".join(peer.name for peer in meeting.peers), **more))
    name = meeting.peers[place].name
    return replace(base, name=name, peers=tuple(meeting.peers), key=meeting.folder / f"{name}.key")


HAVE = {0: people("p1", "p2", "p3"), 1: people("p3", "p2", "p4", "p5"), 2: people("p2", "p3")}


@pytest.mark.parametrize("linkage", ["oprf", "hmac"])
@pytest.mark.parametrize("parties", [2, 3])
def test_records_are_those_whom_all_parties_have(
    meeting: Any, files: Callable[..., Path], tmp_path: Path, linkage: str, parties: int
) -> None:
    """In one order at all of them, whatever their own; nobody sees an identifier."""
    (tmp_path / "shared").write_bytes(bytes(range(32)))
    meeting.invite("abc"[:parties])
    settings = [
        settings_of(meeting, files, place, linkage=linkage, linkage_key="shared")
        for place in range(parties)
    ]
    rows = {place: HAVE[place].rows for place in range(parties)}

    def act(channel: Channel, place: int) -> Any:
        return link(channel, settings[place], HAVE[place], rows, "ab" * 32)

    found = meeting.all(act)
    assert not [one for one in found if isinstance(one, Exception)]
    assert {hash_ for _, hash_ in found} == {found[0][1]}
    assert {one.identifiers for one, _ in found} == {found[0][0].identifiers}
    assert sorted(found[0][0].identifiers) == [b"p2", b"p3"]
    for one, _ in found:
        assert one.classes.tolist() == [int(i[-1:]) for i in one.identifiers]
        assert one.cells.codes[0].tolist() == one.classes.tolist()
    assert meeting.all(act)[0][1] == found[0][1]  # a run that is started again finds the same


def test_known_records_are_compared_by_hash_only(files: Callable[..., Path]) -> None:
    """As the paper has it: nothing is exchanged here."""
    settings = PartySettings.load(files(linkage="known"))
    given = people("p1", "p2")
    nobody: Any = None
    assert link(nobody, settings, given, {}, "") == (given, given.ids_hash)


def test_parties_without_a_common_record_stop(
    meeting: Any, files: Callable[..., Path], tmp_path: Path
) -> None:
    """All are told so."""
    (tmp_path / "shared").write_bytes(bytes(32))
    settings = PartySettings.load(files(linkage="hmac", linkage_key="shared"))
    meeting.invite("ab")
    have = [people("p1"), people("p2")]
    found = meeting.all(
        lambda channel, place: link(channel, settings, have[place], {0: 1, 1: 1}, "ab" * 32)
    )
    assert all(isinstance(one, TableError) for one in found)
    assert "no record in common" in str(found[0])


def test_pseudonyms_that_are_none_are_refused(meeting: Any, files: Callable[..., Path]) -> None:
    """Not sorted, or not a group elements."""
    meeting.invite("ab")
    settings = settings_of(meeting, files, 0)

    def act(channel: Channel, place: int) -> Any:
        if place == 1:
            return channel.pass_bytes(0, b"\xff" * 32, 0, 32)
        return link(channel, settings, people("p1"), {0: 1, 1: 1}, "ab" * 32)

    assert "not a group element" in str(meeting.all(act)[0])
    hmac = replace(settings, linkage=RecordLinkage.HMAC, linkage_key=meeting.folder / "shared")
    with pytest.raises(UsageError, match="at least 32 bytes"):
        link(None, hmac, people("p1"), {}, "ab" * 32)  # type: ignore[arg-type]
    (meeting.folder / "shared").write_bytes(bytes(32))

    def unsorted(channel: Channel, place: int) -> Any:
        if place == 1:
            return channel.exchange_bytes(b"b" * 32 + b"a" * 32, {0: 32})
        return link(channel, hmac, people("p1"), {0: 1, 1: 2}, "ab" * 32)

    assert "list of pseudonyms is not valid" in str(meeting.all(unsorted)[0])


def test_an_output_of_another_run_is_not_ours(files: Callable[..., Path], tmp_path: Path) -> None:
    """A folder that is no release, and one of a run that no journal knows."""
    from sherd.secure.party.meeting import PartyState

    settings = PartySettings.load(files())
    assert PartyState.of(settings) == PartyState(open=None, finished=None, published=False)
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="not a release"):
        PartyState.of(settings)
    (tmp_path / "out" / "manifest.json").write_text('{"files": {}, "facts": {"run": "r"}}')
    with pytest.raises(OutputExistsError):
        PartyState.of(settings)
    journal = RunJournal(path=settings.journal, run="r", statement={})
    journal.begin()
    state = PartyState.of(settings)  # it ended between publishing and setting the journal aside
    assert state.published
    assert state.open is None
    assert state.finished is not None
    assert state.finished.run == "r"
    assert not settings.journal.exists()
    assert PartyState.of(settings).published
    assert state.journal("r") is state.finished
    assert state.journal("s") is None
    replace(journal, run="s").begin()
    with pytest.raises(OutputExistsError):
        PartyState.of(settings)
