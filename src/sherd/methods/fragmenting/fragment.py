"""``fragment``: true values in fragments, with a k-loose association between them.

Implements Definition 4.3 and Theorem 4.7 of De Capitani di Vimercati et al. (2015): for
every confidentiality constraint covered by the fragments, a part of it that lies in one
fragment corresponds to at least k different values of the rest, equally likely from the
release. See ``association`` for where the construction departs from the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.guarantees import Adversary, Assumption, Guarantee, KLooseness, Proposition, Unit
from sherd.guarantees.guarantee import WAITING
from sherd.methods.fragmenting.constraints import PLAN_KEYS, Constraints
from sherd.methods.fragmenting.feasibility import relevant
from sherd.methods.fragmenting.fragment_layout import given_constraints, layout, planned_constraints
from sherd.methods.fragmenting.fragment_parameters import PARAMETERS
from sherd.methods.fragmenting.next_release_plan import OF_NEXT, assumptions, follow
from sherd.release.method import Described, Outcome, Parameter
from sherd.release.traits import Suggestion, Traits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from sherd.methods.fragmenting.private_record import Kept
    from sherd.release.method import Lineage, PrivateRecord, Run
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

NOT_COVERED = (
    "that somebody is in the table, and every single released value",
    "combinations of attributes that lie in one fragment, which are released as they are",
    "combinations that no constraint names",
    "how many tuples were left out",
)
"""What fragments give away all the same."""

ASKED = "how frequent values are, as far as that decides which of the smallest fragmentations fits"
"""What the choice of a fragmentation gives away, where it is left to the method."""

GUESSED = "what dependencies tell that are right with probability 1/k at most, also several of them"
"""What is left aside where dependencies have a confidence."""

SEEN_TOGETHER = "which values are gone and which are new since the release it follows"
"""What a release that follows another gives away besides."""


TRAITS = Traits(
    family="fragmenting",
    tables=None,
    verifier="sherd.verifying.fragmented_tables:verify",
    facts="sherd.verifying.stated_facts:fragmented",
    verified_in_pieces=True,
    drawing="sherd.auditing.case.method_drawing:fragments",
    following=OF_NEXT,
    query="sherd.methods.fragmenting.query:answer",
    needs=("fragments",),
    suggestion=Suggestion(
        place=4,
        gives="true values, apart where they may not be seen together; not differential privacy",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """The method behind ``sherd fragment``."""

    name: str = "fragment"
    title: str = "Fragments with a loose association"
    summary: str = (
        "Splits the attributes into fragments that keep true values, so that no sensitive "
        "combination lies in one of them, and says which groups of tuples belong together, "
        "but not which tuples."
    )
    parameters: tuple[Parameter, ...] = PARAMETERS
    traits: Traits = TRAITS

    def describe(self) -> tuple[Described, ...]:
        """What the method promises in general."""
        return (
            Described(
                name=None,
                promise=KLooseness.definition(),
                covers="the associations between values that the given constraints name",
                not_covered=(*NOT_COVERED, ASKED),
                source="decapitani2015, Def. 4.3, Theorem 4.7",
            ),
        )

    def explain(self, plan: Plan, schema: Schema) -> dict[str, Any]:
        """Which fragments a plan leads to."""
        chosen = layout(plan, schema)
        return {
            "fragments": [list(names) for names in chosen.fragments],
            "withheld": list(chosen.withheld),
            "proved_best": chosen.proved or plan["fragments"] is not None,
            "minimal": chosen.minimal,
        }

    def told(self, facts: Mapping[str, Any]) -> list[str]:
        """Which fragments there are, what is withheld, and whether better ones may exist."""
        sizes = facts.get("sizes")
        lines = [
            f"Fragment {at}{f' (groups of {sizes[at - 1]})' if sizes else ''}: {', '.join(names)}"
            for at, names in enumerate(facts["fragments"], 1)
        ]
        if facts["withheld"]:
            how = ", as ciphertext" if "ciphertext" in facts else ""
            lines.append(f"Withheld{how}: {', '.join(facts['withheld'])}")
        if facts.get("suppressed"):
            lines.append(f"Left out: {facts['suppressed']} tuples that no group could take.")
        if not facts.get("minimal", True):
            lines.append("Two of these fragments could be merged without breaking a constraint.")
        elif not facts.get("proved_best", True):
            lines.append("The time limit ended the search: a better fragmentation may exist.")
        return lines

    def read_parameter(self, name: str, data: Any) -> dict[str, Any]:
        """What a file of constraints, or of a given fragmentation, says."""
        if name == "fragments":
            return {name: data.get("fragments") if isinstance(data, dict) else data}
        also = {key: data[key] for key in PLAN_KEYS if isinstance(data, dict) and data.get(key)}
        return {name: Constraints.from_data(data).as_data(), **also}

    def load_record(self, path: Path) -> Kept:
        """Read the record that an earlier release left with its owner."""
        from sherd.methods.fragmenting.private_record import Kept

        return Kept.load(path)

    def plan_after(
        self, old: Path, record: PrivateRecord, schema: Schema, chosen: Mapping[str, Any]
    ) -> Plan:
        """The plan of the release after the one in the folder ``old``."""
        return follow(old, record, schema, chosen)

    def check(self, plan: Plan, schema: Schema) -> None:
        """Raise PlanError or SchemaError where plan and schema do not fit the method."""
        layout(plan, schema)

    def guarantee(self, plan: Plan, schema: Schema) -> Guarantee:
        """What a release will promise; computed without seeing the table."""
        fragmentation = layout(plan, schema)
        constraints, given = planned_constraints(plan), given_constraints(plan)
        covered = relevant(constraints, fragmentation.fragments)
        words = "; ".join("{" + ", ".join(sorted(c)) + "}" for c in covered)
        covers = "no association: no constraint has all its attributes released"
        if covered:
            covers = f"the associations between values of the constraints {words}"
        not_covered = NOT_COVERED if plan["fragments"] is not None else (*NOT_COVERED, ASKED)
        if any(rule.confidence < 1 for rule in given.dependencies):
            not_covered = (*not_covered, GUESSED)
        if plan["after"] is not None:
            covers += (
                "; also for somebody who holds the release it follows "
                f"(sha256 of its manifest: {plan['after']['release']}) and those before that one"
            )
            not_covered = (*NOT_COVERED[:-1], SEEN_TOGETHER, WAITING)
        sealed = plan["withheld"] == "ciphertext"
        return Guarantee(
            notion=KLooseness(k=plan["looseness"]),
            unit=Unit.ASSOCIATION,
            covers=covers,
            adversary=Adversary.SEES_FRAGMENTS,
            assumes=(
                Assumption.CONSTRAINTS_COMPLETE,
                Assumption.NO_CORRELATED_KNOWLEDGE,
                *assumptions(plan),
                *((Assumption.CELL_KEY_SECRET,) if sealed else ()),
                Assumption.PARAMETERS_PUBLIC,
            ),
            source=Proposition(work="decapitani2015", place="Def. 4.3, Theorem 4.7"),
            not_covered=not_covered,
        )

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Fragment a prepared table, keeping no record of who is where."""
        from sherd.methods.fragmenting.fragment_run import run_fragmenting

        return run_fragmenting(table, schema, plan, run)[0]

    def run_keeping_record(
        self, table: pa.Table, schema: Schema, plan: Plan, run: Run, lineage: Lineage
    ) -> tuple[Outcome, PrivateRecord]:
        """Fragment a prepared table, also after an earlier release, and say who is where."""
        from sherd.methods.fragmenting.fragment_run import run_fragmenting

        outcome, record = run_fragmenting(table, schema, plan, run, lineage)
        assert record is not None, "kept where there are keys"
        return outcome, record


METHOD = Fragment()
