"""The seven owners of the demonstration: their tables, as in section 5 of the paper, and homes.

Adult lies with four owners by rows, Wine Quality with three by columns.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sherd.federation.owner.owner_home import OwnerHome, OwnerSettings
from sherd.federation.wire.enrolment import read_answer, read_request
from sherd.signing_keys import fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.tables.schema import Schema

ADULT = (
    "age", "workclass", "education", "marital_status", "occupation", "relationship", "race",
    "sex", "hours_per_week", "native_country",
)  # fmt: skip
ADULT_OWNERS = {"north": 11_100, "east": 15_000, "south": 12_000, "west": 7_122}
WINE_OWNERS = {
    "acids": ("fixed_acidity", "volatile_acidity", "citric_acid"),
    "salts": ("residual_sugar", "chlorides", "free_sulfur_dioxide", "total_sulfur_dioxide"),
    "spirits": ("density", "ph", "sulphates", "alcohol"),
}
KEY = "sample"
"""The column by which owners of Wine Quality know what is the same sample."""


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """One owner's table and schema; ``key`` links people."""

    owner: str
    table: pa.Table
    schema: Schema
    key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A table that is in fragments: as a whole, its schema, its owners' parts, and ids."""

    table: pa.Table
    schema: Schema
    fragments: list[Fragment]
    identifiers: pa.Array | None = None

    @property
    def pooled(self) -> pa.Table:
        """The whole table as somebody would have it who knows everything."""
        if self.identifiers is None:
            return self.table
        return self.table.append_column(KEY, self.identifiers)


def adult_fragments(part: int = 1) -> Cut:
    """Adult, shuffled and cut into the paper's four unequal parts by rows; one of ``part``."""
    from sherd import datasets
    from sherd.randomness import Randomness
    from sherd.tables.coding import arrow_array
    from sherd.tables.schema import Missing

    table = datasets.load("adult", complete=True).select(list(ADULT))
    table = table.take(arrow_array(Randomness.from_system().permutation(table.num_rows)))
    whole = datasets.schema("adult")
    attributes = {name: whole[name] for name in ADULT}
    schema = replace(whole, attributes=attributes, missing=Missing.REFUSE)
    fragments, start = [], 0
    for owner, whole_size in ADULT_OWNERS.items():
        size = whole_size // part
        fragments.append(Fragment(owner=owner, table=table.slice(start, size), schema=schema))
        start += size
    return Cut(table=table.slice(0, start), schema=schema, fragments=fragments)


def wine_fragments(part: int = 1) -> Cut:
    """Wine Quality with an identifier, cut into the paper's three parts by columns."""
    import pyarrow as pa

    from sherd import datasets
    from sherd.randomness import Randomness
    from sherd.tables.coding import arrow_array
    from sherd.tables.schema import Attribute, Role, Type

    whole = datasets.schema("wine")
    names = [name for own in WINE_OWNERS.values() for name in own]
    table = datasets.load("wine").select(names)
    table = table.slice(0, table.num_rows // part)
    identifiers = pa.array([f"sample-{i:05d}" for i in range(table.num_rows)])
    key = Attribute(name=KEY, type=Type.TEXT, role=Role.IDENTIFIER)
    fragments = []
    for owner, own in WINE_OWNERS.items():
        # Every owner keeps its rows in an order of its own.
        order = arrow_array(Randomness.from_system().permutation(table.num_rows))
        columns = table.select(list(own)).append_column(KEY, identifiers).take(order)
        attributes = {**{name: whole[name] for name in own}, KEY: key}
        schema = replace(whole, attributes=attributes)
        fragments.append(Fragment(owner=owner, table=columns, schema=schema, key=KEY))
    schema = replace(whole, attributes={name: whole[name] for name in names})
    return Cut(table=table, schema=schema, fragments=fragments, identifiers=identifiers)


def set_up_owner(
    premises: AggregatorHome,
    folder: Path,
    fragment: Fragment,
    methods: tuple[str, ...],
    epsilon: str,
) -> OwnerHome:
    """An owner's folder: its table, its enrolled home, and a policy that allows both releases."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    pq.write_table(fragment.table, folder / "table.parquet")
    (folder / "schema.yaml").write_text(json.dumps(fragment.schema.as_data()), encoding="utf-8")
    home = OwnerHome.make(
        folder / "home",
        OwnerSettings(
            name=fragment.owner,
            source=str((folder / "table.parquet").absolute()),
            schema=str((folder / "schema.yaml").absolute()),
            key_column=fragment.key,
            population=population_of(fragment.owner),
        ),
    )
    answer = folder / "enrolment.json"
    answer.write_bytes(
        premises.enrol(read_request(home.folder / "request.json"), now=int(time.time()))
    )
    home.join(read_answer(answer))
    policy = {
        "aggregators": {premises.settings.name: fingerprint(premises.key.public)},
        "kinds": ["vertical" if fragment.key else "horizontal"],
        "methods": list(methods),
        "attributes": "all",
        "linkage": ["oprf"],
        "least_k": "10",
        "least_rows": "100",
        "largest_epsilon": epsilon,
        "lifetime_epsilon": f"{len(methods) * float(epsilon):g}",
        "peers": "all",
        "largest_batch": 10_000_000,
        "yearly_guesses": 1_000_000_000,
        "approve": "automatic",
    }
    home.policy_file.write_text(json.dumps(policy, indent=2), encoding="utf-8")
    return home


def population_of(owner: str) -> str:
    """Whose budget an owner's releases are charged to."""
    return f"people of {owner}"
