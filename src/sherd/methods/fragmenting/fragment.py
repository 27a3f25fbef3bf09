"""``fragment``: true values in fragments, with a k-loose association between them.

Implements Definition 4.3 and Theorem 4.7 of De Capitani di Vimercati et al. (2015): for
every confidentiality constraint covered by the fragments, a part of it that lies in one
fragment corresponds to at least k different values of the rest, equally likely from the
release. See ``association`` for where the construction departs from the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from sherd.errors import InfeasibleError, PlanError, SchemaError
from sherd.guarantees import Adversary, Assumption, Guarantee, KLooseness, Proposition, Unit
from sherd.methods.fragmenting.association import Search, associate
from sherd.methods.fragmenting.constraints import PLAN_KEYS, Constraints
from sherd.methods.fragmenting.feasibility import (
    check_feasible,
    check_sizes,
    excesses,
    findings_of,
    group_sizes,
    relevant,
)
from sherd.methods.fragmenting.fragment_parameters import PARAMETERS
from sherd.methods.fragmenting.fragmentation import (
    Fragmentation,
    Objective,
    check_given,
    find_minimal,
)
from sherd.methods.fragmenting.loose_fragmentation import loose_ones
from sherd.methods.fragmenting.next_release import first_release
from sherd.methods.fragmenting.next_release_plan import (
    OF_NEXT,
    assumptions,
    check_following,
    check_past,
    findings,
    follow,
    next_groups,
    signed,
)
from sherd.methods.fragmenting.released_tables import GROUP, first_groups, released_tables
from sherd.release.method import Described, Outcome, Parameter
from sherd.release.traits import Traits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from sherd.methods.fragmenting.association import Association
    from sherd.methods.fragmenting.feasibility import Excess
    from sherd.methods.fragmenting.private_record import Kept
    from sherd.release.method import PrivateRecord, Run
    from sherd.release.plan import Plan
    from sherd.tables.row_keys import Keys
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

SEEN_TOGETHER = "which values are gone and which are new since the release it follows"
"""What a release that follows another gives away besides."""


TRAITS = Traits(
    family="fragmenting",
    tables=None,
    verifier="sherd.verifying.fragmented_tables:verify",
    facts="sherd.verifying.stated_facts:fragmented",
    drawing="sherd.auditing.case.fragment_drawing:fragments",
    following=OF_NEXT,
    query="sherd.methods.fragmenting.query:answer",
    needs=("fragments",),
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
            lines.append(f"Withheld: {', '.join(facts['withheld'])}")
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
        found = layout(plan, schema)
        constraints = Constraints.from_data(_plain(plan["constraints"]))
        covered = relevant(constraints, found.fragments)
        words = "; ".join("{" + ", ".join(sorted(c)) + "}" for c in covered)
        covers = "no association: no constraint has all its attributes released"
        if covered:
            covers = f"the associations between values of the constraints {words}"
        not_covered = NOT_COVERED if plan["fragments"] is not None else (*NOT_COVERED, ASKED)
        if plan["after"] is not None:
            covers += (
                "; also for somebody who holds the release it follows "
                f"(sha256 of its manifest: {plan['after']['release']}) and those before that one"
            )
            not_covered = (*NOT_COVERED[:-1], SEEN_TOGETHER)
        return Guarantee(
            notion=KLooseness(k=plan["looseness"]),
            unit=Unit.ASSOCIATION,
            covers=covers,
            adversary=Adversary.SEES_FRAGMENTS,
            assumes=(
                Assumption.CONSTRAINTS_COMPLETE,
                Assumption.NO_CORRELATED_KNOWLEDGE,
                *assumptions(plan),
                Assumption.PARAMETERS_PUBLIC,
            ),
            source=Proposition(work="decapitani2015", place="Def. 4.3, Theorem 4.7"),
            not_covered=not_covered,
        )

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Fragment a prepared table, keeping no record of who is where."""
        return _run(table, schema, plan, run)[0]

    def run_keeping_record(
        self,
        table: pa.Table,
        schema: Schema,
        plan: Plan,
        run: Run,
        *,
        keys: Keys,
        past: PrivateRecord | None,
    ) -> tuple[Outcome, PrivateRecord]:
        """Fragment a prepared table, also after an earlier release, and say who is where."""
        outcome, record = _run(table, schema, plan, run, keys, past)
        assert record is not None, "kept where there are keys"
        return outcome, record


def _run(
    table: pa.Table,
    schema: Schema,
    plan: Plan,
    run: Run,
    keys: Keys | None = None,
    past: PrivateRecord | None = None,
) -> tuple[Outcome, Kept | None]:
    """The release, and where keys name the tuples the record of who is where."""
    constraints = Constraints.from_data(_plain(plan["constraints"]))
    found = layout(plan, schema)
    sizes = _sizes(plan, len(found.fragments))
    facts: dict[str, object] = {
        "fragments": [list(f) for f in found.fragments],
        "sizes": list(sizes),
        "withheld": list(found.withheld),
        "constraints": [sorted(c) for c in relevant(constraints, found.fragments)],
        "fragmentation_proved_best": found.proved,
        "fragmentation_minimal": found.minimal,
    }
    search = Search(
        strategy=plan["strategy"],
        window=plan["window"],
        probes=plan["probes"],
        budget=plan["budget"],
    )
    old = check_past(plan, schema, run, keys, past)
    if old is not None and keys is not None:
        change = next_groups(
            old,
            table,
            schema,
            plan,
            run,
            keys=keys,
            constraints=constraints,
            fragments=found.fragments,
            sizes=sizes,
            search=search,
        )
        outcome = Outcome(
            tables=released_tables(
                change.kept.groups, table, found.fragments, run.randomness, shuffle=run.shuffle
            ),
            facts={**facts, "after": plan["after"]["release"]},
            findings=findings(change),
        )
        return outcome, signed(change.kept, schema, run, keys)
    found, forced, made = _first(table, schema, plan, run, constraints, found, sizes, search)
    facts["fragments"] = [list(f) for f in found.fragments]
    left_out = made.suppressed
    groups = first_groups(made, run.randomness)
    record = None
    if keys is not None:
        record = first_release(groups, table, keys.values, found.fragments)
        record = signed(record, schema, run, keys)
    outcome = Outcome(
        tables=released_tables(
            groups,
            table,
            found.fragments,
            run.randomness,
            shuffle=run.shuffle,
            projections=plan["projections"],
        ),
        facts={**facts, "suppressed": left_out},
        findings=findings_of(made, forced, table.num_rows),
    )
    return outcome, record


def _first(
    table: pa.Table,
    schema: Schema,
    plan: Plan,
    run: Run,
    constraints: Constraints,
    found: Fragmentation,
    sizes: tuple[int, ...],
    search: Search,
) -> tuple[Fragmentation, tuple[Excess, ...], Association]:
    """The fragmentation as it is or, where it cannot be made loose, one that can, and its groups.

    A given fragmentation is kept. Else a few that frequencies do not rule out are tried, the best
    by the objective first, and of equally good ones that which leaves out fewest tuples is taken.
    """
    if plan["fragments"] is None:
        choices = loose_ones(
            table,
            constraints,
            schema.released,
            found,
            sizes,
            allowed=plan["suppress"],
            objective=plan["objective"],
            time_limit=plan["time_limit"],
        )
    else:
        forced = excesses(table, constraints, found.fragments, sizes)
        check_feasible(forced, table.num_rows, plan["suppress"], all_tried=False)
        choices = iter([(found, forced)])
    best: tuple[Fragmentation, tuple[Excess, ...], Association] | None = None
    for chosen, forced in islice(choices, _TRIED if table.num_rows > _SMALL else 2):
        if best is not None and chosen.value < best[0].value:
            break
        made = associate(
            table,
            schema,
            constraints,
            chosen.fragments,
            sizes,
            similar=plan["similar"] or (),
            search=search,
            block=plan["block"],
            allowed=plan["suppress"],
            randomness=run.randomness,
            progress=run.progress,
        )
        few = made.suppressed <= plan["suppress"] * table.num_rows and made.suppressed < len(table)
        if few and (best is None or made.suppressed < best[2].suppressed):
            best = chosen, forced, made
        if made.suppressed == 0:
            break
    if best is not None:
        return best
    raise InfeasibleError(
        "too many tuples would have to be left out: the search found no groups for them",
        must=f"at most {100 * plan['suppress']:g} % ('suppress')",
        got="more",
        do="lower the looseness, choose more even group sizes ('sizes'), raise 'suppress' or "
        "'budget', or coarsen attributes",
    )


_TRIED, _SMALL = 8, 2000
"""Fragmentations for which groups are looked for; fewer in a small table, tried many times each."""


def layout(plan: Plan, schema: Schema) -> Fragmentation:
    """The fragmentation a plan leads to under a schema, checked."""
    constraints = Constraints.from_data(_plain(plan["constraints"]))
    constraints.check(schema.attributes)
    check_following(plan)
    released = schema.released
    for name in plan["similar"] or ():
        schema[name]  # raises where the schema lacks it
    if plan["suppress"] > 1:
        raise PlanError(
            "the 'suppress' parameter is not valid",
            must="a share from 0 to 1",
            got=repr(plan["suppress"]),
        )
    for name in released:
        if name.startswith(GROUP) and name[len(GROUP) :].isdigit():
            raise SchemaError(
                f"the attribute '{name}' is called like a column of group identifiers",
                do="rename it",
            )
    if plan["fragments"] is not None:
        given = _lists(plan["fragments"], "fragments", str)
        found = check_given(constraints, given, released)
    else:
        found = _solved(constraints, released, plan["objective"], plan["time_limit"])
    if len(found.fragments) < 2:
        raise PlanError(
            "the constraints need no fragmentation: one fragment fulfils them",
            do="release the table without the withheld attributes, or add constraints",
        )
    check_sizes(_sizes(plan, len(found.fragments)), plan["looseness"], len(found.fragments))
    for chosen in _lists(plan["projections"] or (), "projections", int):
        if len(set(chosen)) < 2 or not set(chosen) <= set(range(1, len(found.fragments) + 1)):
            raise PlanError(
                "a projection is not valid",
                must=f"two or more of the fragments 1 to {len(found.fragments)}",
                got=repr(list(chosen)),
            )
    return found


@lru_cache(maxsize=16)
def _solved(
    constraints: Constraints, released: tuple[str, ...], objective: Objective, time_limit: float
) -> Fragmentation:
    """The fragmentation of these attributes, solved once for ``check``, ``guarantee`` and ``run``.

    Under a limit of time two searches could end differently; the promise speaks of one of them.
    """
    return find_minimal(constraints, released, objective=objective, time_limit=time_limit)


def _sizes(plan: Plan, fragments: int) -> tuple[int, ...]:
    if plan["sizes"] is None:
        return group_sizes(plan["looseness"], fragments)
    return tuple(plan["sizes"])


def _lists(given: Any, name: str, kind: type) -> list[tuple[Any, ...]]:
    if not all(isinstance(f, tuple) and all(isinstance(a, kind) for a in f) for f in given):
        what = "attributes" if kind is str else "numbers"
        raise PlanError(f"the '{name}' parameter is not valid", must=f"lists of {what}")
    return list(given)


def _plain(value: Any) -> Any:
    from collections.abc import Mapping

    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


METHOD = Fragment()
