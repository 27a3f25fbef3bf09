"""Small tables of invented numbers for joint releases, and the terms of a round over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.federation.protocol.joint_plan import Kind, Linkage, Terms

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = (Kind.HORIZONTAL, Kind.VERTICAL)
"""The kinds of rounds that two owners can have; blocks are tried in tests of their own."""

SCHEMA = """\
attributes:
  id: {role: identifier}
  age: {type: integer, domain: [0, 99]}
  income: {type: number, domain: [0, 1000]}
  colour: {type: category, values: [red, green, blue], order: declared}
"""

PARTS = {
    "north": "attributes:\n  id: {role: identifier}\n  age: {type: integer, domain: [0, 99]}\n"
    "  income: {type: number, domain: [0, 1000]}\n",
    "south": "attributes:\n  id: {role: identifier}\n"
    "  colour: {type: category, values: [red, green, blue], order: declared}\n",
    "west": "attributes:\n  id: {role: identifier}\n  height: {type: number, domain: [50, 250]}\n",
}


def people(count: int, seed: int = 0, first: int = 0) -> pa.Table:
    """So many people with identifiers from ``first`` on."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": [f"id-{first + i:07d}" for i in range(count)],
            "age": random.integers(0, 100, count),
            "income": np.round(random.uniform(0, 1000, count), 2),
            "colour": pa.array(random.choice(["red", "green", "blue"], count)),
        }
    )


def part(owner: str, count: int, seed: int = 0, first: int = 0) -> pa.Table:
    """An owner's columns of the same people."""
    whole = people(count, seed, first)
    height = np.round(np.random.default_rng(seed + 1).uniform(50, 250, count), 1)
    whole = whole.append_column("height", pa.array(height))
    names = {
        "north": ["id", "age", "income"],
        "south": ["id", "colour"],
        "west": ["id", "height"],
    }[owner]
    return whole.select(names)


def terms_of(owners: Iterable[str], now: int, /, **changes: Any) -> Terms:
    """Terms of a round of these owners that ends in an hour; a vertical one is linked by OPRF."""
    base: dict[str, Any] = {
        "aggregator": "registry",
        "kind": Kind.HORIZONTAL,
        "owners": tuple(owners),
        "method": "dp-um",
        "parameters": {"k": 3},
        "epsilon": "1",
        "deadline": now + 3600,
    }
    if changes.get("kind") is Kind.VERTICAL:
        base["linkage"] = Linkage.OPRF
    return Terms(**{**base, **changes})
