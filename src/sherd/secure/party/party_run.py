"""A joint run at one party, from start to end.

Order of events: the ledger reserves; the fragment is read; the parties connect and compare what
they were set up for, then whom they have and the classes; each charges its ledger; only then does
the first share leave. The release appears whole or not at all.

A run that breaks off is started again at all parties with the same settings: what was opened
comes from the journals, and nothing is charged twice. A party that knows all results finishes
alone. One that has finished tells the others, when it is started again, what was opened; so one
that lost the last result needs any one of them.
"""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sherd.errors import ConnectionFailedError, PolicyError
from sherd.secure.party import message_frames
from sherd.secure.party.co_signing import CoSigner, public_keys
from sherd.secure.party.journaled_engine import JournaledEngine
from sherd.secure.party.meeting import (
    Hello,
    PartyState,
    another_run,
    compare,
    hashed,
    open_run,
    terms,
    told_journals,
)
from sherd.secure.party.party_programs import OwnWords, SharedWork, program_of
from sherd.secure.party.party_publishing import publish, replay
from sherd.secure.party.run_budget import RunBudget
from sherd.secure.party.run_journal import RunJournal, RunWords, cells_of_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sherd.budget.ledger import Ledger
    from sherd.release.bundle import Release
    from sherd.secure.engine.cost_meter import Meter
    from sherd.secure.engine.link import Peer
    from sherd.secure.party.channel import Channel
    from sherd.secure.party.party_rows import Input
    from sherd.secure.party.party_settings import PartySettings

    Progress = Callable[[str, int, int], None]


def run(
    settings: PartySettings,
    *,
    ledger: Ledger | None,
    progress: Progress = lambda _step, _done, _total: None,
    meter: Meter | None = None,
) -> Release:
    """Take part in the joint release, and write it; a ``meter`` is told what it costs."""
    from sherd.release.bundle import Release
    from sherd.secure.party.channel import Channel
    from sherd.tables.read import read

    plan, schema = settings.plan, settings.schema
    plan.guarantee(schema)
    program = program_of(plan)
    program.check(plan, schema)
    if settings.most_epsilon is not None and plan["epsilon"] > settings.most_epsilon:
        raise PolicyError(
            "the plan asks for more than this party's policy allows",
            must=f"an epsilon of at most {settings.most_epsilon:g}",
            got=f"{plan['epsilon']:g}",
        )
    state = PartyState.of(settings)
    _check_engine(settings)
    known = state.open or (state.finished if state.published else None)
    with RunBudget(settings, ledger, None if known is None else known.run) as budget:
        if state.open is not None and not state.published:
            state = _finish_alone(settings, state.open, budget)
        given = None
        if not state.published:
            given = program.read(read(settings.table), settings)
        with Channel(
            settings.peers,
            settings.rank,
            settings.key,
            timeout=settings.timeout,
            longest_wait=settings.longest_wait,
        ) as channel:
            here = channel.connect(all_needed=known is None)
            party = _Party(settings, channel, here, budget, state, progress, meter)
            release = party.take_part(given) or Release.load(settings.output)
            channel.part()
            return release


def _check_engine(settings: PartySettings) -> None:
    """Raise where this party computes and its engine is not there or cannot do what is due."""
    if not settings.computes:
        return
    if settings.engine == "spu":
        from sherd.secure.engine.spu_engine import load_spu

        load_spu()
        return
    from sherd.secure.engine.mpyc_engine import load_mpyc

    load_mpyc()
    if settings.plan.parameters.get("overlaps", "refuse") != "refuse":
        raise PolicyError(
            "the engine mpyc does not settle overlaps",
            must="`overlaps: refuse` in the plan",
            got=str(settings.plan["overlaps"]),
            do="use the engine spu, or see to it that every cell has one holder",
        )


def _finish_alone(settings: PartySettings, journal: RunJournal, budget: RunBudget) -> PartyState:
    """Publish what the journal has, if that is all of it; how far the party then is."""
    if all(journal.statement.get(key) == value for key, value in terms(settings).items()):
        journal = journal.checked(public_keys(settings))
        result = replay(settings, journal)
        if result is not None:
            budget.pay(journal.run)
            publish(settings, journal, result, budget)
    return PartyState.of(settings)


@dataclass(kw_only=True)
class _Ready:
    """What a party says when it has paid: nobody starts before everybody has."""

    run: str
    compute: str | None

    @classmethod
    def from_data(cls, data: Any, run: str) -> _Ready:
        if not isinstance(data, dict) or set(data) != {"run", "compute"} or data["run"] != run:
            raise message_frames.malformed("that a party has charged its ledger for this run")
        return cls(**data)


class _Party:
    """This party among those that are connected."""

    def __init__(
        self,
        settings: PartySettings,
        channel: Channel,
        here: list[int],
        budget: RunBudget,
        state: PartyState,
        progress: Progress,
        meter: Meter | None,
    ) -> None:
        self._settings, self._channel, self._here = settings, channel, here
        self._budget, self._state, self._progress = budget, state, progress
        self._meter = meter
        self._terms = terms(settings)
        self._keys = public_keys(settings)
        self._link: Any = None

    def take_part(self, given: Input | None) -> Release | None:
        """The release, or None where this party has it already and helped the others."""
        if not self._here and self._state.published:
            return None
        hellos = self._meet(0 if given is None else given.rows)
        run = open_run(hellos, self._settings.names)
        if run is None and given is None:
            return None
        if run is not None:
            journal = self._common_journal(run)
            result = replay(self._settings, journal)
            if result is not None:
                return self._take_over(journal, result)
            self._need_all()
        else:
            self._need_all()
            journal = None
        assert given is not None
        return self._compute(given, hellos, journal)

    def _meet(self, rows: int) -> dict[int, Hello]:
        state = self._state
        mine = {
            "terms": self._terms,
            "rows": rows,
            "nonce": secrets.token_hex(16),
            "open": None if state.open is None else state.open.run,
            "finished": None if state.finished is None else state.finished.run,
            "published": state.published,
        }
        told = self._channel.exchange(mine)
        hellos = {place: Hello.from_data(one) for place, one in told.items()}
        names = self._settings.names
        compare([one.terms for one in hellos.values()], [names[place] for place in hellos])
        return hellos

    def _need_all(self) -> None:
        absent = set(range(len(self._settings.peers))) - {self._settings.rank, *self._here}
        if absent:
            raise ConnectionFailedError(
                "other parties could not be reached",
                must="running, as results are missing that nobody here knows: "
                + ", ".join(self._settings.names[place] for place in sorted(absent)),
                do="start all parties again",
            )

    def _common_journal(self, run: str) -> RunJournal:
        """The journal of an open run, brought up to what any of the parties has seen."""
        mine = self._state.journal(run)
        told = self._channel.exchange(
            {
                "statement": None if mine is None else mine.statement,
                "entries": [] if mine is None else [one.as_data() for one in mine.entries],
            }
        )
        statement, entries = told_journals(told, self._terms)
        journal = mine or RunJournal(path=self._settings.journal, run=run, statement=statement)
        journal.adopt(entries, self._keys)
        return journal

    def _take_over(self, journal: RunJournal, result: Any) -> Release | None:
        """Publish what others knew, unless it is here already."""
        if self._state.published:
            return None
        if journal.path == self._settings.journal:
            journal.begin()
        self._budget.pay(journal.run)
        return publish(self._settings, journal, result, self._budget)

    def _compute(
        self, given: Input, hellos: Mapping[int, Hello], journal: RunJournal | None
    ) -> Release:
        from sherd.secure.party.party_linking import link

        settings, channel = self._settings, self._channel
        rows = {place: one.rows for place, one in hellos.items()}
        given, ids_hash = link(channel, settings, given, rows, hashed(self._terms))
        statement = {
            **self._terms,
            "records": given.rows,
            "record ids": ids_hash,
            "classes": given.classes_hash,
            **program_of(settings.plan).agree(channel, settings, given),
        }
        compare(list(channel.exchange(statement).values()), settings.names)
        if journal is None:
            name = hashed([statement, [hellos[place].nonce for place in sorted(hellos)]])
            journal = RunJournal(path=settings.journal, run=name, statement=statement)
        elif journal.statement != statement:
            raise another_run()
        elif self._state.journal(journal.run) is None and self._budget.charge_of(journal.run):
            # Whatever was opened in it is paid for; more, by that name, would be for nothing.
            raise another_run()
        own = [column.tobytes() for column in given.cells.codes]
        # With what was agreed on: the same noise is not drawn for another plan, either.
        named = f"{journal.run}\0{hashed(statement)}"
        cells = cells_of_run(settings.key.read_bytes(), named, own)
        if journal.cells not in (None, cells):
            raise another_run()
        journal.cells = cells
        journal.begin()
        self._budget.pay(journal.run)
        mine = {"run": journal.run, "compute": self._compute_address()}
        told = channel.exchange(mine)
        ready = {p: _Ready.from_data(one, journal.run) for p, one in told.items()}
        return self._run_engine(given, journal, ready)

    def _compute_address(self) -> str | None:
        """Where this party computes: as its file says, else at a free port."""
        from sherd.secure.engine.link import address_of

        if not self._settings.computes:
            return None
        if self._settings.compute_address is not None:
            return self._settings.compute_address
        host, _ = address_of(self._settings.peers[self._settings.rank].address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((host, 0))
            return f"{host}:{probe.getsockname()[1]}"

    def _run_engine(
        self, given: Input, journal: RunJournal, ready: Mapping[int, _Ready]
    ) -> Release:
        """Compute, or share out what others compute with, and publish."""
        from sherd.randomness import Randomness
        from sherd.secure.engine.share_holders import GuestEngine

        settings, channel = self._settings, self._channel
        rank, hosts, owners = settings.rank, settings.hosts, len(settings.peers)

        key = settings.key.read_bytes()
        words = RunWords(key, journal.run, f"noise {journal.cells}")
        own = OwnWords(
            noise=words,
            masks=RunWords(key, journal.run, f"masks {journal.cells}"),
            draws=RunWords(key, journal.run, f"draws {journal.cells}"),
        )

        def released(engine: Any) -> Release:
            signer = CoSigner(settings, channel, self._keys)
            work = SharedWork(
                journal=journal,
                engine=JournaledEngine(engine, journal, signer, own),
                cells={rank: given.cells},
                classes=given.classes,
                words=own,
                progress=self._progress,
            )
            result = program_of(settings.plan).compute(settings, work)
            return publish(settings, journal, result, self._budget)

        if not settings.computes:
            return released(GuestEngine(channel, rank, owners, hosts, Randomness.from_system()))
        computing = [
            replace(settings.peers[place], address=_address(ready[place].compute))
            for place in range(hosts)
        ]
        if settings.engine == "mpyc":
            return self._with_mpyc(computing, words, released)
        return self._with_spu(computing, words, released)

    def _with_mpyc(
        self, computing: list[Peer], words: RunWords, released: Callable[[Any], Release]
    ) -> Release:
        from sherd.secure.engine.mpyc_engine import MpycEngine

        settings = self._settings
        engine = MpycEngine(
            computing,
            settings.rank,
            settings.key,
            words,
            timeout=settings.timeout,
            longest_wait=settings.longest_wait,
        )
        try:
            engine.connect()
            return released(engine)
        finally:
            if self._meter is not None:
                self._meter.passed("secure computation", [engine.sent], [])
            engine.close()

    def _with_spu(
        self, computing: list[Peer], words: RunWords, released: Callable[[Any], Release]
    ) -> Release:
        from sherd.secure.engine.link import connect, within
        from sherd.secure.engine.spu_engine import SpuEngine

        settings = self._settings
        link = connect(computing, settings.rank, settings.key, timeout=settings.timeout)
        # Kept until all have parted: others still need an answer when their link is taken down.
        self._link = link
        owners = len(settings.peers)
        try:
            engine = SpuEngine(link, words, owners=owners, wire=self._channel, meter=self._meter)
            return released(engine)
        finally:
            # After publishing: with a peer gone, SPU may end this process here, or not come back.
            within(settings.timeout, link.stop_link)


def _address(told: Any) -> str:
    """The address that a computing party told us."""
    from sherd.errors import UsageError
    from sherd.secure.engine.link import address_of

    try:
        host, port = address_of(str(told))
    except UsageError:
        raise message_frames.malformed("an address to compute at") from None
    return f"{host}:{port}"
