"""One small release of every kind, saved, to be looked at or tampered with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from people import PARTS, SCHEMA, part, people, terms_of

import sherd
from sherd.budget.ledger import Ledger
from sherd.federation.protocol.joint_plan import Kind
from sherd.release.manifest import manifest_of
from sherd.release.protect import Settings, protect_to

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 240
TOWNS = [
    ["Ulm", "South", "*"],
    ["Kiel", "North", "*"],
    ["Passau", "South", "*"],
    ["Bremen", "North", "*"],
]
PEOPLE = sherd.Schema.from_data(
    {
        "missing": "refuse",
        "attributes": {
            "id": {"type": "text", "role": "identifier"},
            "age": {"type": "integer", "domain": ["20", "69"]},
            "sex": {"type": "category", "values": ["F", "M"]},
            "town": {"type": "category", "taxonomy": TOWNS},
            "pay": {"type": "number", "role": "sensitive", "domain": ["0", "100"]},
            "ward": {"type": "integer", "role": "insensitive", "domain": ["0", "9"]},
        },
    }
)


def people_alone() -> pa.Table:
    """The table that one owner releases in most of these kinds."""
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "id": [str(i) for i in range(ROWS)],
            "age": rng.integers(20, 70, ROWS),
            "sex": rng.choice(["F", "M"], ROWS),
            "town": rng.choice([path[0] for path in TOWNS], ROWS),
            "pay": np.round(rng.uniform(0, 100, ROWS), 1),
            "ward": rng.integers(0, 10, ROWS),
        }
    )


def _alone(folder: Path, settings: Settings | None = None, **plan: Any) -> None:
    """A release by one owner, which is recorded where it costs anything."""
    made = sherd.Plan(**plan)
    ledger = Ledger(folder.parent / "ledger.db") if "epsilon" in plan else None
    protect_to(folder, people_alone, PEOPLE, made, ledger=ledger, settings=settings)


def _masked(method: str, **more: Any) -> Callable[[Path], None]:
    return lambda folder: _alone(folder, method=method, epsilon=1.0, **more)


def _seeded(folder: Path) -> None:
    """A release that was made without a ledger, can be made again and keeps the order of rows."""
    plan = sherd.Plan(method="dp", epsilon=1.0)
    settings = Settings(seed=3, keep_order=True)
    sherd.protect(people_alone(), PEOPLE, plan, settings=settings).save(folder)


def _escaped(folder: Path) -> None:
    """A CSV file whose labels and header a spreadsheet would run."""
    schema = sherd.Schema.from_data(
        {"attributes": {"=b": {"type": "category", "values": ["=1+0", "-x", "'-x", "x"]}}}
    )
    table = pa.table({"=b": ["=1+0", "-x", "'-x", "x"] * 20})
    made = sherd.protect(table, schema, sherd.Plan(method="dp", epsilon=1.0))
    made.save(folder, format="csv", spreadsheet_safe=True)


def _fragmented(folder: Path) -> None:
    table = pa.table(
        {
            "job": [i % 40 for i in range(400)],
            "age": [i % 37 for i in range(400)],
            "pay": [i % 31 for i in range(400)],
            "ill": [i * 7 % 41 for i in range(400)],
            "name": [str(i) for i in range(400)],
        }
    )
    kinds = {name: {"type": "integer"} for name in table.column_names} | {"name": {"type": "text"}}
    schema = sherd.Schema.from_data({"attributes": kinds})
    constraints = {"constraints": [["age", "ill"], ["job", "ill"], ["age", "ill", "pay"], ["name"]]}
    plan = sherd.Plan(method="fragment", constraints=constraints, looseness=6)
    sherd.protect(table, schema, plan).save(folder)


def _by_parties(folder: Path) -> None:
    """What parties with a joint computation write, made of one owner's release of that kind."""
    plan = sherd.Plan(method="diffgen", epsilon=5.0, h=4)
    one = sherd.protect(people_alone(), PEOPLE, plan)
    joint = sherd.Plan(method="arbdistdp", epsilon=5.0, h=4)
    facts = {
        **one.manifest["facts"],
        "parties": ["clinic", "bank", "shop"],
        "computing": ["clinic", "bank"],
        "protocol": "SEMI2K",
        "linkage": "ids",
        "run": "0f" * 16,
        "opened": [{"what": "noisy counts", "numbers": 8}],
    }
    manifest = manifest_of(PEOPLE, joint, joint.guarantee(PEOPLE), Settings(), None)
    sherd.Release(tables=one.tables, manifest={**manifest, "facts": facts}).save(folder)


def _joint(kind: Kind) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        from sherd.federation.aggregator.assembly import assemble
        from sherd.federation.protocol.composition import make_plan
        from sherd.federation.protocol.joint_plan import Offer, write_schema
        from sherd.federation.protocol.knowledge import RoundData
        from sherd.federation.protocol.messages import Attachment, Delivery
        from sherd.federation.protocol.reasons import Reason
        from sherd.signing_keys import SigningKey
        from sherd.tables.files import read_yaml

        horizontal = kind is Kind.HORIZONTAL
        keys = {name: SigningKey.generate() for name in ("north", "south")}
        invited = (*keys, "west") if horizontal else tuple(keys)
        changes = {"dropout": "continue"} if horizontal else {}
        offers, schemas, raw = {}, {}, {}
        for number, name in enumerate(keys):
            path = folder.parent / f"{name}.yaml"
            path.write_text(SCHEMA if horizontal else PARTS[name], encoding="utf-8")
            whole = read_yaml(path, typed=False)
            del whole["attributes"]["id"]
            schemas[name] = sherd.Schema.from_data(whole)
            raw[name] = people(30, seed=number) if horizontal else part(name, 30)
            offers[name] = Offer(schema=write_schema(schemas[name]), rows=30, key=True)
        terms = terms_of(invited, 0, round="r1", kind=kind, **_typed(changes))
        publics = {name: key.public for name, key in keys.items()}
        plan = make_plan(terms, offers, publics, "11" * 32)
        data = RoundData(terms=terms, aggregator_key="11" * 32, keys=publics, plan=plan)
        data.signatures = {name: key.sign_plan(plan.hash) for name, key in keys.items()}
        data.common_count = None if horizontal else 30
        data.dropped = {"west": Reason.LATE} if horizontal else {}
        tables = {}
        for name in keys:
            made = sherd.protect(raw[name].drop(["id"]), schemas[name], plan.local(name))
            tables[name] = dict(made.tables)
            data.deliveries[name] = Delivery(
                artefact="22" * 32,
                files={"data.arrows": Attachment(sha256="33" * 32, size=1, chunks=("33" * 32,))},
                rows=30,
                head="44" * 32,
                versions=made.manifest["versions"],
            )
        assemble(data, tables).save(folder)

    return make


def _typed(changes: dict[str, str]) -> dict[str, Any]:
    from sherd.federation.protocol.joint_plan import Dropout

    return {name: Dropout(value) for name, value in changes.items()}


KINDS: dict[str, Callable[[Path], None]] = {
    "dp": _masked("dp"),
    "idp": _masked("idp"),
    "dp-um": _masked("dp-um", k=5),
    "idp-ls": _masked("idp-ls", k=5, guarantee="paper"),
    "idp-cbls": _masked("idp-cbls", k=5, guarantee="centroids"),
    "strict": _masked("dp-um", k=5, guarantee="strict"),
    "seeded": _seeded,
    "escaped": _escaped,
    "slice": lambda folder: _alone(
        folder, method="slice", l=2, columns=2, bins={"pay": 4}, min_frequency=3
    ),
    "mondrian": lambda folder: _alone(folder, method="mondrian", k=5, l=2, bins={"pay": 4}),
    "anatomy": lambda folder: _alone(folder, method="anatomy", l=2, bins={"pay": [10, 50]}),
    "diffgen": _masked("diffgen", h=6, class_attribute="sex"),
    "dp-graph": _masked("dp-graph", class_attribute="sex"),
    "parties": _by_parties,
    "fragment": _fragmented,
    "joint rows": _joint(Kind.HORIZONTAL),
    "joint columns": _joint(Kind.VERTICAL),
}
"""What makes a release of each kind in a folder."""
