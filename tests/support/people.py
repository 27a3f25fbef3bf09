"""Small tables of invented numbers for joint releases, and the terms of a round over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.federation.protocol.joint_plan import Kind, Linkage, Terms

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = (Kind.HORIZONTAL, Kind.VERTICAL)
"""The kinds of rounds that two owners can have; blocks have the four of ``block``."""

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


def numbered(numbers: Iterable[int], of: int) -> pa.Table:
    """People whose every cell follows from their number of so many, so that a wrong row shows."""
    share = np.array(list(numbers)) / of
    return pa.table(
        {
            "id": [f"id-{number:04d}" for number in numbers],
            "age": np.round(share * 99).astype(np.int64),
            "income": share * 1000,
            "height": 50 + share * 200,
        }
    )


BLOCK_OWNERS = ("north", "south", "west", "east")


def block(owner: str, count: int) -> tuple[pa.Table, str]:
    """An owner's rows and columns of so many people, and their schema.

    Two have the first attributes, each of half of the people; two have the last one, and part the
    people otherwise.
    """
    numbers = {
        "north": range(count // 2),
        "south": range(count // 2, count),
        "west": range(1, count, 2),
        "east": range(0, count, 2),
    }[owner]
    like = "north" if owner in ("north", "south") else "west"
    names = ["id", "age", "income"] if like == "north" else ["id", "height"]
    mixed = np.random.default_rng(len(owner)).permutation(numbers).tolist()
    return numbered(mixed, count).select(names), PARTS[like]


def terms_of(owners: Iterable[str], now: int, /, **changes: Any) -> Terms:
    """Terms of a round of these owners that ends in an hour; people are linked by OPRF."""
    base: dict[str, Any] = {
        "aggregator": "registry",
        "kind": Kind.HORIZONTAL,
        "owners": tuple(owners),
        "method": "dp-um",
        "parameters": {"k": 3},
        "epsilon": "1",
        "deadline": now + 3600,
    }
    if changes.get("kind") in (Kind.VERTICAL, Kind.BLOCKS):
        base["linkage"] = Linkage.OPRF
    return Terms(**{**base, **changes})
