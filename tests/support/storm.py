"""Rounds in a storm, and afterwards nothing is spent twice, lost or left hanging.

    python tests/support/storm.py --seconds 60 --seed 1 [--postgresql ADDRESS]

Owners and aggregator run in one process over real storage, so that hundreds of faults fit into a
minute. Faults: requests and answers lost, doubled, late, garbled, or answered by somebody else;
processes that die anywhere; power that goes between any two syncs (``power.py``); disks that are
full; clocks that jump; folders of an owner and of the aggregator restored from backups. After
every few rounds the consortium is a new one, of the next kind. Prints what happened as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from consortium import Consortium
from people import PARTS, SCHEMA, part, people
from power import Disk
from processes import make_database

from sherd.budget.ledger import Ledger
from sherd.errors import SherdError, StorageError
from sherd.federation.aggregator import round_tasks, round_work
from sherd.federation.aggregator.storage import Store, bulk_files
from sherd.federation.aggregator.storage.upkeep import copy_store
from sherd.federation.owner import agent as agent_module
from sherd.federation.owner import outbox, owner_linking, owner_tasks, sending
from sherd.federation.owner.owner_journal import OwnerJournal
from sherd.federation.owner.recovery import back_up_owner, recover, restore_owner
from sherd.federation.protocol.joint_plan import Kind, Linkage
from sherd.federation.protocol.states import OWNER_ENDS, ROUND_ENDS
from sherd.federation.wire import fetching

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = (Kind.HORIZONTAL, Kind.VERTICAL, Kind.BLOCKS)
ROUNDS_OF_ONE = 12
MODULES: list[Any] = [
    agent_module, outbox, owner_linking, owner_tasks, round_tasks, round_work, sending, fetching,
]  # fmt: skip


class Killed(BaseException):
    """Stands for kill -9 inside one process: nothing catches it."""


class Storm(httpx.BaseTransport):
    """The dice, how often each fault was thrown, and a network on which all goes wrong."""

    def __init__(self, seed: int, strength: float) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - dice, no secrets
        self.strength = strength
        self.faults: Counter[str] = Counter()
        self.quiet = True
        self.sea: Sea
        self._late: list[httpx.Request] = []

    def strikes(self, fault: str, chance: float) -> bool:
        """Whether a fault happens now."""
        if self.quiet or self.dice.random() >= chance * self.strength:
            return False
        self.faults[fault] += 1
        return True

    def reach(self, place: str) -> None:
        """A place at which a process may die."""
        if place.startswith("owner") and self.sea.is_dark(self.sea.acting):
            raise Killed
        if self.strikes(f"death at {place}", 0.03):
            raise Killed

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        if self.sea.is_dark(self.sea.acting):
            raise Killed
        if self.strikes("request lost", 0.04):
            raise httpx.ConnectError("lost")
        if self.strikes("answer of a proxy", 0.03):
            return httpx.Response(self.dice.choice([302, 429, 502]), content=b"<html>")
        if self.strikes("request late", 0.03):
            self._late.append(request)
            raise httpx.ReadTimeout("late")
        if self._late and self.dice.random() < 0.3:
            with contextlib.suppress(httpx.TransportError):
                self.sea.ask(self._late.pop(self.dice.randrange(len(self._late))))
        if self.strikes("request doubled", 0.04):
            self.sea.ask(request)
        answer = self.sea.ask(request)
        if self.strikes("answer lost", 0.04):
            raise httpx.ReadTimeout("lost")
        if self.strikes("answer garbled", 0.02):
            return httpx.Response(200, content=answer.content[:-1] + b"\xff")
        return answer


def owners_of(kind: Kind) -> dict[str, tuple[pa.Table, str]]:
    """The tables and schemas of owners; of blocks two have people each, and one of all the rest."""
    if kind is Kind.VERTICAL:
        return {name: (part(name, 12), PARTS[name]) for name in ("north", "south")}
    if kind is Kind.BLOCKS:
        held = {"north": (12, 0), "south": (12, 12), "west": (24, 0)}
        columns = {"north": "north", "south": "north", "west": "west"}
        return {
            name: (part(columns[name], count, first=first), PARTS[columns[name]])
            for name, (count, first) in held.items()
        }
    names = enumerate(("north", "south"))
    return {name: (people(12, seed=n, first=n * 100), SCHEMA) for n, name in names}


class Sea:
    """A consortium that the storm rages over."""

    def __init__(self, folder: Path, kind: Kind, storm: Storm, address: str | None) -> None:
        self.kind, self.storm = kind, storm
        storm.sea = self
        self.acting = ""
        place = folder / "registry"
        place.mkdir()
        self.consortium = Consortium(folder, database=address, place=place)
        self.restored: set[str] = set()
        self.disk: Disk | None = None
        for name, (table, schema) in owners_of(kind).items():
            home = self.consortium.add_owner(name, table, schema, key_column="id", lifetime="1e6")
            written = home.policy_file.read_text(encoding="utf-8")
            home.policy_file.write_text(written.replace("vertical]", "vertical, blocks]"))
            self.start(name)
        if library := os.environ.get("LD_PRELOAD"):
            self.disk = Disk(folder, Path(library))
            self.disk.settle(folder)

    def close(self) -> None:
        """End everything."""
        if self.disk is not None:
            self.disk.close()
        self.consortium.close()

    def folder(self, who: str) -> Path:
        """Where somebody's files are."""
        return self.consortium.folder / (who or "registry")

    def is_dark(self, who: str) -> bool:
        """Whether somebody's power is gone."""
        return self.disk is not None and self.folder(who) in self.disk.left

    # the aggregator

    def ask(self, request: httpx.Request) -> httpx.Response:
        """The aggregator's answer, where it lives to give one."""
        answer = None
        with self.risks("", 0.05):
            try:
                answer = self.consortium.transport.handle_request(request)
            except Killed:
                self.restart_aggregator()
        if self.is_dark("") or answer is None:
            self.restart_aggregator()
            raise httpx.ReadError("reset")
        return answer

    def work(self) -> None:
        """What the aggregator does by itself."""
        with self.risks("", 0.2):
            try:
                self.consortium.aggregator.work()
            except Killed:
                self.restart_aggregator()
            except (SherdError, OSError):
                if self.storm.quiet:
                    raise
        if self.is_dark("") or self.storm.strikes("aggregator restarted", 0.02):
            self.restart_aggregator()

    def restart_aggregator(self) -> None:
        """Start the aggregator again, over what its disk kept."""
        self.consortium.stop_aggregator()
        if self.disk is not None:
            self.disk.bring_back(self.folder(""))
        self.consortium.start_aggregator()

    @contextlib.contextmanager
    def risks(self, who: str, chance: float) -> Any:
        """While somebody works, its power may go, or its disk be full."""
        storm, disk = self.storm, self.disk
        if disk is None or storm.quiet:
            yield
            return
        cut, full = storm.dice.random() < chance * storm.strength, False
        if cut:
            disk.arm(self.folder(who), storm.dice.randint(1, 25), storm.dice)
        elif full := storm.strikes("disk full", chance / 3):
            disk.fill(self.folder(who))
        try:
            yield
        finally:
            disk.disarm(self.folder(who))
            if full:
                disk.fill(None)
            if cut and self.is_dark(who):
                storm.faults[f"power cut at {'an owner' if who else 'the aggregator'}"] += 1

    # owners

    def start(self, name: str) -> None:
        """Start an owner's agent once more."""
        self.acting = name
        for _ in range(50):
            self.consortium.agents[name].client.close()
            if self.disk is not None and self.is_dark(name):
                self.consortium.agents[name].journal.close()
                self.disk.bring_back(self.folder(name))
            try:
                self.consortium.start(name, self.storm)
            except Killed:
                continue
            return
        raise AssertionError("an agent that dies whenever it is started")

    def turn(self, name: str) -> None:
        """One turn of an owner, whatever befalls it."""
        self.acting = name
        if self.storm.strikes("clock skew", 0.02):
            self.consortium.offset = self.storm.dice.uniform(-600, 600)
        dead = False
        with self.risks(name, 0.12):
            try:
                self.consortium.agents[name]._try_turn(0.0)
            except (Killed, StorageError):
                dead = True
        if dead or self.is_dark(name) or self.storm.strikes("owner restarted", 0.02):
            self.start(name)

    # backups

    def back_up(self) -> Path:
        """Copies of north's folder and of the aggregator's database."""
        backups = self.consortium.folder / "backups"
        shutil.rmtree(backups, ignore_errors=True)
        backups.mkdir()
        back_up_owner(self.consortium.homes["north"], backups / "north.tar")
        copy = Store(f"sqlite:///{backups / 'aggregator.db'}")
        copy.migrate()
        copy_store(self.consortium.store, copy)
        copy.close()
        return backups

    def restore_owner(self, backups: Path, round_id: str) -> None:
        """Put north's folder back as it was before the round, and lead it back."""
        self.storm.faults["owner's backup restored"] += 1
        self.restored.add(round_id)
        consortium, home = self.consortium, self.consortium.homes["north"]
        consortium.agents["north"].journal.close()
        kept = consortium.folder / "kept"  # its table and schema are elsewhere in life
        home.folder.rename(kept)
        restored = restore_owner(backups / "north.tar", home.folder)
        for name in ("table.parquet", "schema.yaml"):
            shutil.copy(kept / name, home.folder / name)
        shutil.rmtree(kept)
        journal = OwnerJournal(restored.journal)
        recover(restored, consortium.client("north"), Ledger(restored.ledger), journal)
        journal.close()
        if self.disk is not None:
            self.disk.settle(home.folder)
        self.start("north")

    def restore_aggregator(self, backups: Path) -> None:
        """Put the aggregator's database back as it was before the round."""
        self.storm.faults["aggregator's backup restored"] += 1
        self.consortium.stop_aggregator()
        for path in self.folder("").glob("aggregator.db*"):
            path.unlink()
        shutil.copy(backups / "aggregator.db", self.folder("") / "aggregator.db")
        if self.disk is not None:
            self.disk.settle(self.folder(""))
        self.consortium.start_aggregator()

    # rounds

    def one_round(self, round_id: str) -> str:
        """A round in the storm; then the sea is calm until everybody has heard of its end."""
        storm, consortium = self.storm, self.consortium
        more = {"linkage": Linkage.OPRF, "epsilon": "9"} if self.kind is Kind.BLOCKS else {}
        consortium.aggregator.open_round(consortium.terms(round_id, kind=self.kind, **more))
        lost = storm.dice.choices(("", "owner", "aggregator"), (0.8, 0.1, 0.1))[0]
        if lost == "aggregator" and not consortium.database.startswith("sqlite"):
            lost = ""
        backups = self.back_up() if lost else consortium.folder
        storm.quiet = False
        for turns in range(60):
            for name in self.consortium.homes:
                self.turn(name)
            self.work()
            data = consortium.store.round(round_id)
            if data is None or data.state in ROUND_ENDS:
                break
            if lost and turns == 6:
                storm.quiet = True
                if lost == "owner":
                    self.restore_owner(backups, round_id)
                else:
                    self.restore_aggregator(backups)
                lost, storm.quiet = "", False
        self.calm()
        return self.check(round_id)

    def calm(self) -> None:
        """Let everybody work without faults until nothing is left to do."""
        self.storm.quiet = True
        self.consortium.offset = 0.0
        for _ in range(2):
            for _ in range(40):
                for name in self.consortium.homes:
                    self.turn(name)
                if not self.consortium.aggregator.work() and self.is_settled():
                    break
            if self.is_settled():
                return
            self.consortium.time += 3 * 3600  # what is left ends at its deadline

    def is_settled(self) -> bool:
        """Whether every round has ended everywhere."""
        consortium = self.consortium
        return not consortium.store.unfinished() and all(
            each.state in OWNER_ENDS
            for agent in consortium.agents.values()
            for each in agent.journal.rounds()
        )

    def check(self, round_id: str) -> str:
        """Nothing hangs, nothing was charged twice, everything delivered was paid for."""
        data = self.consortium.store.round(round_id)
        assert data is not None, "a round was lost"
        assert data.state in ROUND_ENDS, f"a round hangs: {data.state}"
        for agent in self.consortium.agents.values():
            agent.ledger.verify()
            charged = [
                entry
                for entry in agent.ledger.entries()
                if entry.kind == "charge" and "nothing released" not in entry.note
            ]
            assert len({entry.plan_hash for entry in charged}) == len(charged), "charged twice"
            if agent.name in data.deliveries:
                paid = {entry.artefact for entry in charged}
                assert data.deliveries[agent.name].artefact in paid, "delivered and not paid for"
            own = agent.journal.round(round_id)
            assert own is None or own.state in OWNER_ENDS, f"a round hangs: {own.state}"
            if round_id not in self.restored:
                notes = [entry for entry in charged if entry.note == f"round {round_id}"]
                assert len(notes) <= 1, "a round charged twice"
        return data.state.value


class Record:
    """What a run came to."""

    def __init__(self) -> None:
        self.rounds: Counter[str] = Counter()
        self.failures: list[str] = []


def one_sea(number: int, args: argparse.Namespace, record: Record, faults: Counter[str]) -> None:
    """A few rounds of one consortium."""
    kind = KINDS[number % len(KINDS)]
    storm = Storm(args.seed * 1_000_003 + number, args.strength)
    for module in MODULES:
        module.reach = storm.reach
    address = args.postgresql
    if address is not None:
        address = make_database(address, f"sea_{args.seed}_{number}")
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="sherd-sea-") as folder:
        sea = Sea(Path(folder).resolve(), kind, storm, address)
        try:
            for each in range(ROUNDS_OF_ONE):
                if time.monotonic() > args.until and each > 1:
                    break
                record.rounds[f"{kind.value} {sea.one_round(f'r{each}')}"] += 1
        except Exception:
            record.failures.append(f"seed {args.seed}, sea {number}: {traceback.format_exc()}")
            sys.stderr.write(record.failures[-1] + "\n")
        finally:
            faults.update(storm.faults)
            sea.close()


def main() -> int:
    """Run, and print what happened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="The sea to begin with.")
    parser.add_argument("--strength", type=float, default=1.5)
    parser.add_argument("--postgresql")
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    logging.getLogger("sherd").setLevel(logging.CRITICAL)
    bulk_files.LEAST = 1  # the chunks of small tables lie in files, too
    memory = Path("/dev/shm")  # noqa: S108 - fresh folders of our own in it
    args.folder = memory if os.access(memory, os.W_OK) else None
    args.until = time.monotonic() + args.seconds
    record, faults, number = Record(), Counter[str](), args.first
    while number < args.first + len(KINDS) or time.monotonic() < args.until:
        one_sea(number, args, record, faults)
        number += 1
        told = {
            "seconds": round(time.monotonic() - args.until + args.seconds),
            "storage": "postgresql" if args.postgresql else "sqlite",
            "faults": sum(faults.values()),
            "rounds": dict(record.rounds),
            "failures": record.failures,
            "by_kind": dict(sorted(faults.items())),
        }
        if args.record is not None:
            args.record.write_text(json.dumps(told, indent=1), encoding="utf-8")
    sys.stdout.write(json.dumps(told) + "\n")
    return 1 if record.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
