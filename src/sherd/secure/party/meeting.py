"""What parties tell each other before a run, and which run it then is.

Each party says what it was set up for (its terms), how many rows it has, and how far it is: in the
middle of a run, or done with one. The functions here conclude what follows from what everybody
said; every party comes to the same conclusion, or to the same error.

A run has a name of its own, made of what was agreed on and of random words of all parties: a
second release of the same table under the same plan is another run, with another charge.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import FormatError, OutputExistsError, SchemaError, VerificationError
from sherd.secure.party import message_frames
from sherd.secure.party.run_journal import RunJournal, SignedResult, finished

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sherd.secure.party.party_settings import PartySettings

MOST_ROWS = 10**8
"""More rows than any party has; so much, and no more, is believed."""


@dataclass(frozen=True, kw_only=True)
class PartyState:
    """How far a party is: the journal of a run that is open, of one that is finished."""

    open: RunJournal | None
    finished: RunJournal | None
    published: bool

    @classmethod
    def of(cls, settings: PartySettings) -> PartyState:
        """What is on disk; raises where the output is there and not of a run we know."""
        from sherd.release.bundle import check_target, read_manifest

        begun = RunJournal.load(settings.journal)
        done = RunJournal.load(finished(settings.journal))
        if not settings.output.exists():
            return cls(open=begun, finished=done, published=False)
        run = read_manifest(settings.output).get("facts", {}).get("run")
        if begun is not None and begun.run == run:
            # It ended between publishing and setting the journal aside.
            begun.finish()
            begun, done = None, begun
        if begun is not None or done is None or done.run != run:
            check_target(settings.output, force=False)
        return cls(open=None, finished=done, published=True)

    def journal(self, run: str) -> RunJournal | None:
        """The journal of that run, if this party has it."""
        for one in (self.open, self.finished):
            if one is not None and one.run == run:
                return one
        return None


@dataclass(frozen=True, kw_only=True)
class Hello:
    """What a party says first."""

    terms: dict[str, Any]
    rows: int
    nonce: str
    open: str | None
    finished: str | None
    published: bool

    @classmethod
    def from_data(cls, data: Any) -> Hello:
        """A hello from plain data of another party."""
        text = (str, type(None))
        kinds: dict[str, Any] = {
            "terms": dict, "rows": int, "nonce": str, "open": text, "finished": text,
            "published": bool,
        }  # fmt: skip
        if (
            not isinstance(data, dict)
            or set(data) != set(kinds)
            or not all(isinstance(data[key], kind) for key, kind in kinds.items())
            or not _is_count(data["rows"])
        ):
            raise message_frames.malformed("what a party says first")
        return cls(**data)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_ROWS


def terms(settings: PartySettings) -> dict[str, Any]:
    """What must be equal at all parties before anything is read."""
    from sherd import __version__

    certificates = [
        hashlib.sha256(peer.certificate.read_bytes()).hexdigest() for peer in settings.peers
    ]
    return {
        "version": __version__,
        "schema": settings.schema.hash,
        "plan": settings.plan.hash,
        "parties": [list(one) for one in zip(settings.names, certificates, strict=True)],
        "computing": settings.names[: settings.hosts],
        "engine": settings.engine,
        "linkage": str(settings.linkage),
    }


def hashed(data: Any) -> str:
    """A hash of plain data."""
    return hashlib.sha256(message_frames.pack(data)).hexdigest()


def compare(statements: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Raise an error that says what differs, unless all say the same."""
    first = statements[0]
    for name, other in zip(names, statements, strict=True):
        differing = [key for key in first if other.get(key) != first[key]]
        if differing or set(other) != set(first):
            raise SchemaError(
                f"the parties do not agree: '{names[0]}' and '{name}' differ in "
                + (", ".join(differing) or "their messages"),
                must="the same at every party",
                do="compare the files, then start all parties again",
            )


def open_run(hellos: Mapping[int, Hello], names: Sequence[str]) -> str | None:
    """The run that is to be brought to its end, None where a new one begins."""
    runs = {one.open for one in hellos.values()} - {None}
    if len(runs) > 1:
        raise FormatError(
            "the parties are in the middle of different runs",
            must="one run that some have begun and none has left",
            do="find out which run is the last, and move the journals of others away",
        )
    run = next(iter(runs), None) or _lost_run(hellos)
    done = [place for place, one in hellos.items() if one.published and one.finished != run]
    if done and not (run is None and len(done) == len(hellos)):
        raise OutputExistsError(
            "a party already has a release",
            got=", ".join(names[place] for place in done),
            do="move its output away for a new run",
        )
    return run


def _lost_run(hellos: Mapping[int, Hello]) -> str | None:
    """The run that some have published and the others, whose folders were restored, lost.

    A party that still has its journal wants a new run, and is told whose release is in the way.
    """
    done = {one.finished for one in hellos.values() if one.published}
    others = [one for one in hellos.values() if not one.published]
    if len(done) != 1 or not others or any(one.finished in done for one in others):
        return None
    return done.pop()


def told_journals(
    told: Mapping[int, Any], expected: Mapping[str, Any]
) -> tuple[dict[str, Any], list[list[SignedResult]]]:
    """What was agreed on for an open run, and the results that parties know of it."""
    try:
        entries = [list(map(SignedResult.from_data, one["entries"])) for one in told.values()]
        statements = [one["statement"] for one in told.values() if one["statement"] is not None]
    except (TypeError, ValueError, KeyError):
        raise message_frames.malformed("a journal") from None
    statement = statements[0] if statements else None
    if not isinstance(statement, dict) or not _is_count(statement.get("records")):
        raise message_frames.malformed("a journal")
    if any(one != statement for one in statements):
        raise VerificationError(
            "the parties' journals contradict each other", must="of one and the same run"
        )
    if any(statement.get(key) != value for key, value in expected.items()):
        raise another_run()
    return statement, entries


def another_run() -> FormatError:
    """The settings or tables are not those of the run that was begun."""
    return FormatError(
        "the run that was begun had other settings or tables",
        must="the same schema, plan, parties and tables until it is finished",
        do="bring them back, or move the journals away and begin a new run",
    )
