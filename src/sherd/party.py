"""One party of a joint release: its settings, its fragment, and the run from start to end.

Order of events: the ledger reserves; the fragment is read; the parties connect (TLS, pinned
certificates) and compare schema, plan, record ids and classes by their hashes; each charges its
ledger; only then does the first share leave. A run that breaks off is started again at all
parties with the same settings: what was opened comes from the journal, and nothing is charged
twice. The release appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import FormatError, PolicyError, SchemaError, TableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.budget.ledger import Ledger
    from sherd.joint.link import Peer
    from sherd.joint.oracle import Fragment
    from sherd.plan import Plan
    from sherd.release import Release
    from sherd.tables.schema import Schema

_KEYS = {"name", "parties", "key", "table", "schema", "plan", "id", "journal", "output",
         "population", "most_epsilon", "timeout"}  # fmt: skip
_NEEDED = ("name", "parties", "key", "table", "schema", "plan", "id", "output")


@dataclass(frozen=True, kw_only=True)
class PartySettings:
    """What a party's file says; paths are relative to it.

    ``most_epsilon`` is the party's policy: a plan that asks for more is refused.
    """

    name: str
    peers: tuple[Peer, ...]
    key: Path
    table: Path
    schema: Schema
    plan: Plan
    id: str
    journal: Path
    output: Path
    population: str | None = None
    most_epsilon: float | None = None
    timeout: float = 60.0

    @property
    def rank(self) -> int:
        """This party's place among the parties."""
        return [peer.name for peer in self.peers].index(self.name)

    @classmethod
    def load(cls, path: str | Path) -> PartySettings:
        """Read a party's file."""
        from sherd.joint.link import Peer
        from sherd.plan import Plan
        from sherd.tables.files import read_yaml
        from sherd.tables.schema import Schema

        path = Path(path)
        data = read_yaml(path)
        if not isinstance(data, dict) or not set(_NEEDED) <= set(data) <= _KEYS:
            raise FormatError(
                "the party's file is not complete",
                must="the settings " + ", ".join(sorted(_NEEDED)),
                do="make one with `sherd party init`",
            )
        folder = path.parent
        peers = tuple(
            Peer(
                name=str(one["name"]),
                address=str(one["address"]),
                certificate=folder / str(one["certificate"]),
            )
            for one in data["parties"]
        )
        names = [peer.name for peer in peers]
        if len(peers) not in (2, 3) or len(set(names)) != len(names) or data["name"] not in names:
            raise PolicyError(
                "the list of parties does not fit",
                must="two or three parties of different names, this one among them",
                got=f"{len(peers)} parties",
                do="with one party alone use diffgen",
            )
        plan = Plan(**{"method": "arbdistdp", **data["plan"]})
        return cls(
            name=str(data["name"]),
            peers=peers,
            key=folder / str(data["key"]),
            table=folder / str(data["table"]),
            schema=Schema.load(folder / str(data["schema"])),
            plan=plan,
            id=str(data["id"]),
            journal=folder / str(data.get("journal", "journal.jsonl")),
            output=folder / str(data["output"]),
            population=data.get("population"),
            most_epsilon=data.get("most_epsilon"),
            timeout=float(data.get("timeout", 60)),
        )


def init(folder: str | Path, name: str) -> Path:
    """A key, its certificate and a file of settings to edit."""
    from sherd.joint.link import make_key
    from sherd.tables.files import write_whole

    folder = Path(folder)
    path = folder / "party.yaml"
    if path.exists():
        raise UsageError("the folder has a party already", got=str(path))
    folder.mkdir(parents=True, exist_ok=True)
    key, certificate = make_key(folder, name)
    text = f"""# One party of a joint release.
# Give {certificate.name} to the others, and {key.name} to nobody.
name: {json.dumps(name)}
key: {key.name}
parties:            # all of them, in the same order everywhere; the others' certificates beside
  - {{name: {json.dumps(name)}, address: "127.0.0.1:9530", certificate: {certificate.name}}}
  # - {{name: other, address: "127.0.0.1:9531", certificate: other.pem}}
table: fragment.csv # this party's cells; a cell that another party holds is left empty
id: id              # the column that says which record a row belongs to
schema: schema.yaml # the same at all parties
plan: {{epsilon: 1, h: 10, class_attribute: income}}  # the same at all parties
output: release
timeout: 60         # seconds to wait for the others
# most_epsilon: 1   # refuse plans that ask for more
"""
    write_whole(path, text.encode())
    return path


@dataclass(frozen=True, kw_only=True)
class Input:
    """A party's fragment in the order of the record ids, and what all parties know."""

    fragment: Fragment
    classes: NDArray[np.int64]
    ids_hash: str
    classes_hash: str


def read_input(table: pa.Table, schema: Schema, plan: Plan, id_name: str) -> Input:
    """A fragment from a table whose empty cells are held by others."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from sherd.joint.oracle import Fragment
    from sherd.methods.diffgen import encode, settings
    from sherd.tables.coding import nulls

    chosen = settings(plan, schema)
    target = plan["class_attribute"]
    wanted = [id_name, *(one.name for one in chosen.hierarchies), *([target] if target else [])]
    absent = [name for name in wanted if name not in table.column_names]
    if absent:
        raise TableError("columns are missing: " + ", ".join(absent), must="those of the schema")
    ids = table.column(id_name).cast(pa.string())
    if ids.null_count or len(pc.unique(ids)) != len(ids):
        raise TableError(f"the ids in '{id_name}' are empty or not unique", must="one for each row")
    if target and table.column(target).null_count:
        raise TableError(f"the class '{target}' has empty cells", must="known to every party")
    order = pc.sort_indices(ids)
    table, ids = table.take(order), ids.take(order)
    codes, classes = encode(table, schema, chosen)
    held = [~nulls(table.column(one.name).combine_chunks()) for one in chosen.hierarchies]
    mine = tuple(np.where(own, code, -1) for own, code in zip(held, codes, strict=True))
    text = "\n".join(str(one) for one in ids.to_pylist())
    return Input(
        fragment=Fragment(codes=mine),
        classes=classes,
        ids_hash=hashlib.sha256(text.encode()).hexdigest(),
        classes_hash=hashlib.sha256(classes.tobytes()).hexdigest(),
    )


def statement(given: Input, schema: Schema, plan: Plan) -> dict[str, Any]:
    """What a party says before the run; all parties' statements must be equal."""
    from sherd import __version__

    return {
        "version": __version__,
        "schema": schema.hash,
        "plan": plan.hash,
        "records": len(given.classes),
        "record ids": given.ids_hash,
        "classes": given.classes_hash,
    }


def compare(statements: list[dict[str, Any]], names: list[str]) -> str:
    """The name of the run that all parties agree on, or an error that says what differs."""
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
    return hashlib.sha256(json.dumps(first, sort_keys=True).encode()).hexdigest()


def run(
    settings: PartySettings,
    *,
    ledger: Ledger | None,
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> Release:
    """Take part in the joint release, and write it."""
    from sherd.joint.link import connect, exchange
    from sherd.joint.spu import SpuEngine
    from sherd.randomness import Randomness
    from sherd.release import check_target
    from sherd.tables.read import read

    plan, schema = settings.plan, settings.schema
    promised = plan.guarantee(schema)
    if settings.most_epsilon is not None and plan["epsilon"] > settings.most_epsilon:
        raise PolicyError(
            "the plan asks for more than this party's policy allows",
            must=f"an epsilon of at most {settings.most_epsilon:g}",
            got=f"{plan['epsilon']:g}",
        )
    check_target(settings.output, force=False)
    with _Account(settings, ledger) as account:
        given = read_input(read(settings.table), schema, plan, settings.id)
        link = connect(settings.peers, settings.rank, settings.key, timeout=settings.timeout)
        names = [peer.name for peer in settings.peers]
        try:
            agreed = compare(exchange(link, statement(given, schema, plan)), names)
            journal = _journal(settings, link, agreed)
            account.pay(agreed)
            # Nobody starts before everybody has paid.
            exchange(link, "charged")
            engine = SpuEngine(link, Randomness.from_system())
            made = _release(settings, given, engine, journal, promised, progress)
            made = replace(made, manifest={**made.manifest, "budget": account.as_data()})
        finally:
            link.stop_link()
        staged = made.stage(settings.output)
        staged.publish()
        settings.journal.rename(settings.journal.with_suffix(".finished"))
        return made


def _journal(settings: PartySettings, link: Any, agreed: str) -> Any:
    """This party's journal, brought up to what any of the parties has seen."""
    from sherd.joint.journal import Journal
    from sherd.joint.link import exchange

    journal = Journal.load(settings.journal, agreed)
    others = exchange(link, journal.entries)
    journal.adopt([[(str(w), tuple(int(v) for v in vs)) for w, vs in one] for one in others])
    journal.begin()
    return journal


def _release(
    settings: PartySettings,
    given: Input,
    engine: Any,
    journal: Any,
    promised: Any,
    progress: Callable[[str, int, int], None],
) -> Release:
    from sherd.joint.arbdistdp import release
    from sherd.joint.journal import Resumed
    from sherd.methods.arbdistdp import agreement
    from sherd.methods.diffgen import facts
    from sherd.methods.diffgen import settings as chosen
    from sherd.protection import Settings, manifest_of
    from sherd.release import Release

    plan, schema = settings.plan, settings.schema
    n = len(given.classes)
    agreed = agreement(plan, chosen(plan, schema), n)
    resumed: Any = Resumed(engine, journal)
    partition = release(
        resumed, {settings.rank: given.fragment}, given.classes, agreed, progress=progress
    )
    opened = [{"what": what, "numbers": len(values)} for what, values in journal.entries]
    manifest = manifest_of(schema, plan, promised, Settings(), None)
    parties = [peer.name for peer in settings.peers]
    return Release(
        tables={"data": partition.weighted(), "records": partition.expanded(n)},
        manifest={
            **manifest,
            "facts": {
                **facts(partition, schema, plan, n),
                "parties": parties,
                "protocol": {2: "CHEETAH", 3: "ABY3"}[len(parties)],
                "opened": opened,
            },
        },
    )


class _Account:
    """Reserves the plan's epsilon, and charges it once for each run that was agreed on.

    A run that is started again finds its journal, and its charge under the run's name.
    """

    def __init__(self, settings: PartySettings, ledger: Ledger | None) -> None:
        self._settings, self._ledger = settings, ledger
        self._reservation: Any = None

    def __enter__(self) -> _Account:
        from sherd.budget.amount import Amount
        from sherd.joint.journal import run_of
        from sherd.protection import population_of

        plan, schema = self._settings.plan, self._settings.schema
        if self._ledger is not None and not self._paid(run_of(self._settings.journal)):
            self._reservation = self._ledger.reserve(
                population=population_of(schema, self._settings.population),
                amount=Amount(plan.exact("epsilon") * schema.rows_per_unit),
                plan_hash=plan.hash,
                schema_hash=schema.hash,
                method=plan.method,
            )
        return self

    def _paid(self, run: str | None) -> bool:
        assert self._ledger is not None
        return run is not None and any(one.artefact == run for one in self._ledger.entries())

    def pay(self, agreed: str) -> None:
        """Charge the run, unless it was charged when it began."""
        if self._ledger is not None and self._reservation is not None:
            self._ledger.charge(self._reservation, artefact_sha256=agreed)

    def as_data(self) -> dict[str, Any]:
        """What the manifest says of the budget."""
        from sherd.protection import population_of

        if self._ledger is None:
            return {"recorded": False}
        plan, schema = self._settings.plan, self._settings.schema
        population = population_of(schema, self._settings.population)
        spent = plan.exact("epsilon") * schema.rows_per_unit
        return {"recorded": True, "population": population, "spent": str(float(spent))}

    def __exit__(self, *_error: object) -> None:
        held = self._reservation
        if self._ledger is not None and held is not None and not self._ledger.is_charged(held):
            self._ledger.free(held)
