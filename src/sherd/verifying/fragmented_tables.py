"""Re-checking fragments and loose associations from the released files alone.

For every constraint c, every fragment F that holds a part of it and every group of F: the
combinations of the other parts that the group is associated with must be at least k in
number, all different (Definition 4.3), and none may have a probability above 1/k. Counting
different values is not enough: a value that occurs twice is twice as likely.

Several associations over the same fragments are looked at together: what one says about a
shared fragment's tuples carries over to the next. Projections of one association use one
grouping in every fragment and are safe (Observations 1 and 2), as are associations that
share no fragment (Observation 3); separately made ones over a shared fragment may not be.

Where a part was withdrawn in a later release, its place in the association is empty. What such
a row leads to cannot be seen; a group that has one is judged by probabilities alone.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sherd.verifying.check import Check
from sherd.verifying.looseness import Link, direct, linked
from sherd.verifying.row_groups import NOWHERE, Grouping, value_codes
from sherd.verifying.sealed_tables import TABLE as SEALED_TABLE
from sherd.verifying.sealed_tables import sealed_checks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from sherd.verifying.stored_table import StoredTable

    Stored = Mapping[str, pa.Table] | Mapping[str, pa.Table | StoredTable]

_SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class ReleasedFragments:
    """What the files hold: fragments with their group columns, and the associations."""

    fragments: tuple[Any, ...]
    attributes: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    associations: tuple[tuple[str, Any], ...]
    known: dict[str, Grouping] = field(default_factory=dict, compare=False, repr=False)

    def owner(self, column: str) -> int:
        """The fragment a column of group identifiers belongs to, from 0."""
        return next(f for f, names in enumerate(self.groups) if column in names)

    def members(self, column: str) -> Grouping:
        """The groups of the tuples that are in one; in a sound release all are."""
        whole = self.grouping(column)
        if not len(whole.ids) or whole.ids[0] != NOWHERE:
            return whole
        return Grouping.of(self.fragments[self.owner(column)], column, filled=True)

    def grouping(self, column: str) -> Grouping:
        """The groups that a column of identifiers makes in its fragment; worked out once."""
        if column not in self.known:
            self.known[column] = Grouping.of(self.fragments[self.owner(column)], column)
        return self.known[column]


def verify(tables: Stored, manifest: Mapping[str, Any]) -> list[Check]:
    """Every check of a release made of fragments."""
    layout = read_layout(tables)
    if layout is None:
        return [Check.failed("files", "fragments or association are missing")]
    plan = manifest["plan"]
    given = plan["constraints"]
    constraints = [tuple(c) for c in given["constraints"]]
    checks = [
        *_fragmentation(layout, constraints, given, manifest),
        *group_checks(layout, manifest),
        *sealed_checks(tables, manifest, len(layout.fragments)),
        _only_known(tables, layout),
    ]
    k = int(plan["looseness"])
    loose = [
        check
        for c in constraints
        for check in constraint_checks(layout, c, k, implied=is_implied(c, constraints))
    ]
    checks += loose
    if not loose:
        checks.append(
            Check(name="looseness", passed=True, detail="no constraint has all its attributes")
        )
    return [
        *checks,
        Check.unmade(
            "completeness of the constraints",
            "which combinations are sensitive cannot be told from a release",
        ),
        Check.unmade("truthfulness", "that values are the true ones cannot be told from a release"),
    ]


def _only_known(tables: Stored, layout: ReleasedFragments) -> Check:
    """Whether there is no table but fragments, associations and ciphertext."""
    known = {f"fragment-{f}" for f in range(1, len(layout.fragments) + 1)} | {SEALED_TABLE}
    strange = sorted(set(tables) - known - {name for name, _ in layout.associations})
    return _check("tables", not strange, "not of this method: " + ", ".join(strange))


def read_layout(tables: Stored) -> ReleasedFragments | None:
    """The fragments and associations among a release's tables, None where they are not there."""
    count = 0
    while f"fragment-{count + 1}" in tables:
        count += 1
    associations = tuple(
        (name, table) for name, table in sorted(tables.items()) if name.startswith("association")
    )
    known = {column for _, table in associations for column in table.column_names}
    fragments = tuple(tables[f"fragment-{f}"] for f in range(1, count + 1))
    groups = tuple(tuple(c for c in f.column_names if c in known) for f in fragments)
    if count < 2 or not associations or known - {c for names in groups for c in names}:
        return None
    return ReleasedFragments(
        fragments=fragments,
        attributes=tuple(tuple(c for c in f.column_names if c not in known) for f in fragments),
        groups=groups,
        associations=associations,
    )


def _fragmentation(
    layout: ReleasedFragments,
    constraints: Sequence[tuple[str, ...]],
    given: Mapping[str, Any],
    manifest: Mapping[str, Any],
) -> list[Check]:
    every = [name for names in layout.attributes for name in names]
    twice = sorted({name for name in every if every.count(name) > 1})
    schema = manifest["schema"]["attributes"]
    identifiers = [n for n in every if schema.get(n, {}).get("role") == "identifier"]
    rules = believed(given, manifest["plan"])
    told = [_closure(set(names), rules) for names in layout.attributes]
    unseen = [
        f for f in given.get("visible", ()) if not any(shows(f, set(n)) for n in layout.attributes)
    ]
    shown = [c for c in constraints if any(t.issuperset(c) for t in told)]
    joined = [
        (i + 1, j + 1)
        for i in range(len(told))
        for j in range(i + 1, len(told))
        if told[i] & told[j]
    ]
    listed = manifest.get("facts", {}).get("fragments")
    same = listed is None or [sorted(f) for f in listed] == [
        sorted(names) for names in layout.attributes
    ]
    return [
        _check(
            "fragments are disjoint", not twice, "an attribute lies in two: " + ", ".join(twice)
        ),
        _check("no identifier", not identifiers, "released: " + ", ".join(identifiers)),
        _check(
            "no fragment shows a constraint",
            not shown,
            "; ".join("{" + ", ".join(c) + "}" for c in shown),
        ),
        _check("dependencies link no fragments", not joined, f"linked: {joined}"),
        _check("what must be seen together", not unseen, "no fragment shows: " + "; ".join(unseen)),
        _check("fragments as stated", same, "the manifest lists others"),
    ]


def _check(name: str, passed: bool, wrong: str) -> Check:
    return Check.of(name, passed, "as it must be", wrong)


def _closure(names: set[str], dependencies: Sequence[Any]) -> set[str]:
    rules = []
    for rule in dependencies:
        if isinstance(rule, str):
            left, right = rule.split("->")
            rules.append(
                ({n.strip() for n in left.split(",")}, {n.strip() for n in right.split(",")})
            )
        else:
            rules.append((set(rule["determines"]), set(rule["follows"])))
    before = -1
    while before != len(names):
        before = len(names)
        for left_names, right_names in rules:
            if left_names <= names:
                names = names | right_names
    return names


def believed(given: Mapping[str, Any], plan: Mapping[str, Any]) -> list[Any]:
    """The dependencies that are right more often than one time in k."""
    sure = [r for r in given.get("dependencies", ()) if isinstance(r, str) or "confidence" not in r]
    guessed = [r for r in given.get("dependencies", ()) if r not in sure]
    return sure + [r for r in guessed if r["confidence"] > 1 / plan["looseness"]]


def shows(formula: str, names: set[str]) -> bool:
    """Whether a fragment's attributes make a formula of names, 'and' and 'or' true."""
    said: list[str] = []
    for quoted, word in re.findall(r'"([^"]*)"|([()]|[^\s()"]+)', formula):
        small = word.lower()
        said.append(small if small in ("and", "or", "(", ")") else str((quoted or word) in names))
    while len(said) > 1:
        text = " ".join(said)
        for pattern, made in _STEPS:
            match = re.search(pattern, text)
            if match is not None:
                said = (text[: match.start()] + made(match) + text[match.end() :]).split()
                break
        else:
            raise ValueError("a visibility constraint cannot be read")
    return said == ["True"]


_STEPS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"\( (True|False) \)", lambda m: m[1]),
    (r"(True|False) and (True|False)", lambda m: str(m[1] == m[2] == "True")),
    (r"(True|False) or (True|False)(?! and)", lambda m: str("True" in (m[1], m[2]))),
)
"""How a formula becomes shorter, in the order in which it is tried."""


def separate(constraints: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The constraints over several attributes, each once, that no other implies."""
    several = [tuple(c) for c in constraints]
    kept: dict[frozenset[str], tuple[str, ...]] = {}
    for c in several:
        if len(c) > 1 and not is_implied(c, several):
            kept.setdefault(frozenset(c), c)
    return list(kept.values())


def is_minimal(layout: ReleasedFragments, plan: Mapping[str, Any]) -> bool:
    """Whether no two fragments could be one without showing what may not be shown."""
    given = plan["constraints"]
    rules = believed(given, plan)
    told = [_closure(set(names), rules) for names in layout.attributes]
    for i, j in itertools.combinations(range(len(told)), 2):
        merged = _closure({*layout.attributes[i], *layout.attributes[j]}, rules)
        apart = all(not merged & told[f] for f in range(len(told)) if f not in (i, j))
        if apart and not any(merged.issuperset(c) for c in given["constraints"]):
            return False
    return True


def group_checks(layout: ReleasedFragments, manifest: Mapping[str, Any]) -> list[Check]:
    """Sizes, and that an association names each group as often as it has members."""
    sizes = manifest.get("facts", {}).get("sizes")
    checks = []
    for name, table in layout.associations:
        wrong = []
        for column in table.column_names:
            named = Grouping.of(table, column, filled=True)
            if not layout.members(column).counts_as(named):
                wrong.append(column)
        checks.append(
            _check(f"{name}: groups occur as often as they have members", not wrong,
                   ", ".join(wrong) + " does not")
        )  # fmt: skip
    for f, names in enumerate(layout.groups):
        for column in names:
            if sizes is None:
                continue
            held = layout.members(column).size
            least = int(held.min()) if len(held) else 0
            checks.append(
                _check(f"{column}: least group size", least >= sizes[f],
                       f"{least}, but {sizes[f]} is stated")
            )  # fmt: skip
        if len(names) > 1:
            checks.append(
                Check.failed(
                    f"fragment {f + 1}: one grouping",
                    "associations over it were made separately: " + ", ".join(names),
                )
            )
    return checks


def is_implied(constraint: tuple[str, ...], constraints: Sequence[tuple[str, ...]]) -> bool:
    """Whether another constraint lies within this one, so that it says nothing new."""
    return any(set(other) < set(constraint) for other in constraints)


def constraint_checks(
    layout: ReleasedFragments, constraint: tuple[str, ...], k: int, *, implied: bool
) -> list[Check]:
    """Looseness of one constraint over every association; none where it is not released.

    Of a constraint that another implies, probabilities are checked and not that all
    combinations differ: groups of sizes that multiply to k bound them anyway.
    """
    held = {name for names in layout.attributes for name in names}
    if len(constraint) < 2 or not held.issuperset(constraint):
        return []
    label = "{" + ", ".join(constraint) + "}"
    parts = {
        f: tuple(name for name in names if name in constraint)
        for f, names in enumerate(layout.attributes)
        if set(names).intersection(constraint)
    }
    codes = {f: value_codes(layout.fragments[f], names) for f, names in parts.items()}
    checks = []
    for name, table in layout.associations:
        columns = {layout.owner(column): column for column in table.column_names}
        if not set(parts) <= set(columns):
            continue
        groupings = {f: layout.grouping(columns[f]) for f in parts}
        reached = direct(groupings, table, columns, codes)
        checks += [
            Check(
                name=f"{label}: {k} different combinations ({name})",
                passed=reached.fewest >= k and (implied or not reached.repeated),
                detail=f"at least {reached.fewest}"
                + (f", but {reached.repeated} groups reach one twice" if reached.repeated else ""),
            ),
            Check(
                name=f"{label}: no combination likelier than 1/{k} ({name})",
                passed=reached.likeliest <= 1 / k + _SLACK,
                detail=f"the likeliest has {reached.likeliest:.4g}",
            ),
        ]
    if checks and len(layout.associations) == 1:
        return checks
    links = []
    for _, table in layout.associations:
        columns = {layout.owner(column): column for column in table.column_names}
        links.append(Link.of(table, columns, {f: layout.grouping(c) for f, c in columns.items()}))
    chained = linked(links, codes)
    if chained is None:
        detail = "no associations link its fragments"
        return [*checks, Check(name=f"{label}: associations together", passed=True, detail=detail)]
    passed: bool | None = chained <= 1 / k + _SLACK
    detail = f"through all associations the likeliest combination has {chained:.4g}"
    if not passed and all(len(names) == 1 for names in layout.groups):
        # Observation 2: projections of one k-loose association say less than it does, but
        # that it was k-loose is not to be seen from them
        passed = None
        detail += "; safe if they are projections of one loose association"
    return [*checks, Check(name=f"{label}: associations together", passed=passed, detail=detail)]
