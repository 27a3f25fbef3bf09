"""``dp-graph`` for records whose columns or cells lie with several parties, learned on shares.

Every party codes the cells that it holds. Where each attribute lies with one party, all of them
say so and it is public; an attribute whose cells lie with several is counted on shares, once it
is known that every cell has one holder. The model is learned from noisy counts, which all parties
see opened, by the same ``learn`` as one owner's; so every party comes to the same release.

Noise is Gaussian, a part of it drawn by each party that computes: outsiders face all of it, a
party all but its own part (``insiders_cost``).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.errors import PlanError, SchemaError, TableError
from sherd.methods.graphical.dp_graph import PLAIN, design_of, released
from sherd.methods.graphical.learning import learn
from sherd.methods.graphical.secure_measuring import EVERYBODY, HolderLayout, SecureMeasurer
from sherd.secure.engine.cell_holders import Holes, check_holders
from sherd.tables.schema import Missing, Outside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sherd.methods.graphical.learning import Design, Learned
    from sherd.methods.graphical.measuring import Noise
    from sherd.release.method import Outcome
    from sherd.release.plan import Plan
    from sherd.secure.engine.interface import JointEngine
    from sherd.tables.schema import Schema

    Numbers = NDArray[np.int64]
    Codes = tuple[Numbers, ...]
    Draws = Callable[[int], Callable[[Noise, int], Numbers]]

ALL, SOME, NONE = "all", "some", "none"
"""How much of an attribute's cells a party holds."""


def check_cells(plan: Plan, schema: Schema) -> Design:
    """The design of a joint release; raises where parties cannot carry it out."""
    design = design_of(plan, schema)
    if design.kind != "gaussian":
        raise PlanError(
            "parties cannot share out the noise of pure epsilon",
            must="a delta, so that the noise is Gaussian",
            do="give delta, far below one in the number of records",
        )
    if design.choice == "tree":
        raise PlanError(
            "parties do not choose a tree together",
            must="the choice 'all' or 'workload'",
            got="'tree'",
            do="set choice: all, or name the marginals",
        )
    for grid in design.grids:
        if schema.missing_policy(grid.name) is Missing.DROP or (
            schema.outside_policy(grid.name) is Outside.DROP
        ):
            raise SchemaError(
                f"records would be dropped because of the attribute '{grid.name}'",
                must="no `drop` for `missing` or `outside` in a joint release",
                do="keep or recode missing cells, and clamp what lies outside",
            )
    return design


def held_cells(codes: Codes) -> list[str]:
    """How much of each attribute a party holds, as it tells the others."""
    return [ALL if (one >= 0).all() else SOME if (one >= 0).any() else NONE for one in codes]


def holders_of(told: Sequence[Sequence[str]], design: Design) -> list[int | None]:
    """Who holds each attribute by what every party said.

    ``EVERYBODY`` where each has all of it, None where its cells lie with several.
    """
    holders: list[int | None] = []
    for a, grid in enumerate(design.grids):
        said = [one[a] for one in told]
        some = said.count(SOME)
        if said.count(ALL) == len(said):
            holders.append(EVERYBODY)
            continue
        if said.count(ALL) > 1 or (said.count(ALL) and some) or (not said.count(ALL) and some < 1):
            raise TableError(
                f"the attribute '{grid.name}' does not lie with the parties as it must",
                must="all of its cells at one party, or every cell at one of several",
                do="compare which cells each party is meant to hold",
            )
        holders.append(said.index(ALL) if ALL in said else None)
    return holders


def shared_hash(codes: Codes, holders: Sequence[int | None]) -> str:
    """A hash of what every party has all of, to be compared: it must be the same at all."""
    whole = hashlib.sha256()
    for one, holder in zip(codes, holders, strict=True):
        if holder == EVERYBODY:
            whole.update(one.astype("<i8").tobytes())
    return whole.hexdigest()


def learn_jointly(
    engine: JointEngine,
    design: Design,
    holders: Sequence[int | None],
    rows: int,
    cells: Mapping[int, Codes],
    draws: Draws,
    hosts: int,
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> Learned:
    """The model that all parties learn; ``cells`` and ``draws`` are those of this process."""
    split = [a for a, holder in enumerate(holders) if holder is None]
    if split:
        mine = {party: tuple(codes[a] for a in split) for party, codes in cells.items()}
        check_holders(engine, mine, (rows, len(split)), Holes.REFUSE)
    layout = HolderLayout(
        holders=tuple(holders), sizes=tuple(grid.size for grid in design.grids), rows=rows
    )
    return learn(design, SecureMeasurer(engine, layout, cells, draws, hosts), None, progress)


def insiders_cost(learned: Learned, hosts: int) -> Fraction:
    """What the release costs in the eyes of one party that computes, in ρ."""
    return learned.spent * hosts / (hosts - 1)


def release_of(learned: Learned, schema: Schema, seed: str) -> Outcome:
    """The release that a learned model leads to, the same at every party."""
    kinds: dict[str, Any] = {
        name: PLAIN.get(schema[name].type, pa.string()) for name in schema.protected
    }
    rng = np.random.default_rng([int(word, 16) for word in (seed[:16], seed[16:32])])
    return released(learned, schema, kinds, rng)
