"""What parties compute together: one program for each family of methods that can be run so.

A program reads a party's fragment, says what else the parties must agree on, computes on shares,
and makes the release of what was opened. Everything around it (meeting, linking, charging,
journals, signatures) is the same for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from sherd.errors import PlanError
from sherd.secure.party import message_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.methods.specialising.secure_leaf_counts import PartyCells
    from sherd.release.method import Outcome
    from sherd.release.plan import Plan
    from sherd.secure.engine.interface import JointEngine
    from sherd.secure.party.channel import Channel
    from sherd.secure.party.party_rows import Input
    from sherd.secure.party.party_settings import PartySettings
    from sherd.secure.party.run_journal import RunJournal, RunWords

    Progress = Callable[[str, int, int], None]
    Cells = Mapping[int, PartyCells]


@dataclass(frozen=True, kw_only=True)
class OwnWords:
    """A party's own random words of a run, which are told at which step it is."""

    noise: RunWords
    masks: RunWords
    draws: RunWords

    def at(self, step: int) -> None:
        """Begin with the words of a step; masks belong to the run as a whole."""
        self.noise.at(step)
        self.draws.at(step)


@dataclass(frozen=True, kw_only=True)
class SharedWork:
    """What a program computes with: shares, what this party puts in, and the journal of the run.

    ``words`` are None where a complete journal is replayed, which asks for none.
    """

    journal: RunJournal
    engine: JointEngine
    cells: Cells
    classes: NDArray[np.int64]
    words: OwnWords | None = None
    progress: Progress = lambda _step, _done, _total: None


class PartyProgram(Protocol):
    """What one family of methods computes on shares."""

    def check(self, plan: Plan, schema: Any) -> None:
        """Raise where parties cannot carry a plan out."""

    def read(self, table: pa.Table, settings: PartySettings) -> Input:
        """This party's fragment."""

    def agree(self, channel: Channel, settings: PartySettings, given: Input) -> dict[str, Any]:
        """What the parties state besides records and classes, the same at all of them."""

    def compute(self, settings: PartySettings, given: SharedWork) -> Any:
        """What the opened results lead to."""

    def outcome(self, settings: PartySettings, journal: RunJournal, result: Any) -> Outcome:
        """The release that a result is."""


def program_of(plan: Plan) -> PartyProgram:
    """The program that carries out a plan."""
    programs: dict[str, PartyProgram] = {
        "specialising": SpecialisingProgram(),
        "graphical": GraphicalProgram(),
    }
    family = plan.spec.traits.family
    if family not in programs:
        raise PlanError(
            f"the method '{plan.method}' cannot be computed jointly by parties",
            must="arbdistdp or dp-graph",
        )
    return programs[family]


class SpecialisingProgram:
    """``arbdistdp``: records generalised together."""

    def check(self, plan: Plan, schema: Any) -> None:
        """Nothing more than the method itself checks."""
        plan.check(schema)

    def read(self, table: pa.Table, settings: PartySettings) -> Input:
        """The fragment, with the classes that every party knows."""
        from sherd.secure.party.party_rows import read_input

        return read_input(table, settings.schema, settings.plan, settings.id)

    def agree(self, channel: Channel, settings: PartySettings, given: Input) -> dict[str, Any]:
        """Nothing more."""
        del channel, settings, given
        return {}

    def compute(self, settings: PartySettings, given: SharedWork) -> Any:
        """The partition of all parties' cells."""
        from sherd.methods.specialising.arbdistdp import agreement, release
        from sherd.methods.specialising.diffgen import settings as chosen

        plan, schema = settings.plan, settings.schema
        agreed = agreement(plan, chosen(plan, schema), len(given.classes))

        def own_words(_party: int, n: int) -> NDArray[np.uint64]:
            assert given.words is not None
            return given.words.masks.words(n)

        return release(
            given.engine,
            given.cells,
            given.classes,
            agreed,
            masks=own_words,
            progress=given.progress,
        )

    def outcome(self, settings: PartySettings, journal: RunJournal, result: Any) -> Outcome:
        """The partition's leaves with their counts, and the records that they stand for."""
        from sherd.methods.specialising.diffgen import facts
        from sherd.release.method import Outcome

        n = int(journal.statement["records"])
        return Outcome(
            tables={"data": result.weighted(), "records": result.expanded(n)},
            facts=facts(result, settings.schema, settings.plan, n),
        )


class GraphicalProgram:
    """``dp-graph``: a model learned from noisy counts that were added up on shares."""

    def check(self, plan: Plan, schema: Any) -> None:
        """Refuse noise and choices that parties cannot make together."""
        from sherd.methods.graphical.joint_cells import check_cells

        check_cells(plan, schema)

    def read(self, table: pa.Table, settings: PartySettings) -> Input:
        """The fragment; no attribute need be known to every party."""
        from sherd.secure.party.party_rows import read_cells

        return read_cells(table, settings.schema, settings.plan, settings.id)

    def agree(self, channel: Channel, settings: PartySettings, given: Input) -> dict[str, Any]:
        """Which party holds which attribute, by what each says."""
        from sherd.methods.graphical.dp_graph import design_of
        from sherd.methods.graphical.joint_cells import (
            ALL,
            NONE,
            SOME,
            held_cells,
            holders_of,
            shared_hash,
        )

        design = design_of(settings.plan, settings.schema)
        told = channel.exchange({"held": held_cells(given.cells.codes)})
        said = []
        for place in sorted(told):
            one = told[place].get("held") if isinstance(told[place], dict) else None
            fits = isinstance(one, list) and len(one) == len(design.grids)
            if not fits or not set(one or ()) <= {ALL, SOME, NONE}:
                raise message_frames.malformed("which attributes a party holds")
            said.append(one or [])
        holders = holders_of(said, design)
        return {"holders": holders, "held by all": shared_hash(given.cells.codes, holders)}

    def compute(self, settings: PartySettings, given: SharedWork) -> Any:
        """The model that all parties learn."""
        from sherd.methods.graphical.dp_graph import design_of
        from sherd.methods.graphical.joint_cells import learn_jointly
        from sherd.randomness import Randomness

        def draws(_party: int) -> Any:
            assert given.words is not None
            key = given.words.draws.words(4).tobytes()
            return lambda noise, n: noise.draw(Randomness.keyed(key), n)

        return learn_jointly(
            given.engine,
            design_of(settings.plan, settings.schema),
            given.journal.statement["holders"],
            len(given.classes),
            {party: one.codes for party, one in given.cells.items()},
            draws,
            settings.hosts,
            given.progress,
        )

    def outcome(self, settings: PartySettings, journal: RunJournal, result: Any) -> Outcome:
        """Records drawn from the model, and what the release costs in a party's eyes."""
        from sherd.guarantees.concentrated import epsilon_of
        from sherd.methods.graphical.joint_cells import insiders_cost, release_of

        outcome = release_of(result, settings.schema, journal.run)
        rho = insiders_cost(result, settings.hosts)
        delta = settings.plan.exact("delta")
        insiders = {
            "rho": str(rho),
            "epsilon": math.ceil(epsilon_of(rho, delta) * 10**6) / 10**6,
            "delta": float(delta),
            "holders": {
                grid.name: _who(holder, settings.names)
                for grid, holder in zip(
                    result.design.grids, journal.statement["holders"], strict=True
                )
            },
        }
        return replace(outcome, facts={**outcome.facts, "insiders": insiders})


def _who(holder: int | None, names: list[str]) -> str:
    """Who holds an attribute, in words."""
    if holder is None:
        return "several parties"
    return names[holder] if holder >= 0 else "every party"
