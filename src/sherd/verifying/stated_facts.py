"""Checks of what a manifest states of its result (``facts``), worked out again.

Facts follow from plan, schema and the released tables; each is compared with what it must
be. Keys that are missing or that no release of the method has are a failed check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.release.traits import Traits, loaded
from sherd.verifying import fragmented_tables as fragments
from sherd.verifying import generalised_records
from sherd.verifying import label_meaning as books
from sherd.verifying import sliced_tables as slicing
from sherd.verifying.check import (
    PROTECTED,
    UNREADABLE,
    UNTOUCHED,
    Check,
    released_names,
    with_role,
)
from sherd.verifying.manifest_form import is_count, is_hash
from sherd.verifying.ordered_centroids import counted
from sherd.verifying.sealed_tables import sealed_facts
from sherd.verifying.stored_table import StoredTable, distinct, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pyarrow as pa

    Tables = Mapping[str, pa.Table]
    Stored = Mapping[str, pa.Table | StoredTable]
    Manifest = Mapping[str, Any]
    Expected = dict[str, Callable[[Any], bool]]

_UNCHECKED = {
    "suppressed": "how many tuples were left out cannot be seen in what is left",
    "fragmentation_proved_best": "that no fragmentation is better is not searched for again",
    "parties": "who computed together, over which protocol, only the parties know",
}


def check_facts(
    tables: Stored, manifest: Manifest, traits: Traits, documents: Collection[str] = ()
) -> list[Check]:
    """The tables and documents that must be there, and every fact that can be worked out again."""
    given = manifest["facts"]
    if "joint" in manifest and not traits.documents:
        rows = sum(table.num_rows for table in tables.values())
        return [_compared({"rows": _is(rows)}, given)]
    odd = sorted(set(tables) ^ set(tables if traits.tables is None else traits.tables))
    odd += [name for name in traits.documents if name not in documents]
    if odd:
        return [Check.failed("tables", "missing or not of this method: " + ", ".join(odd))]
    if traits.facts is None:
        detail = "the method does not say what a manifest must state: " + (
            ", ".join(given) or "nothing is stated"
        )
        return [Check.unmade("facts", detail)]
    expected: Expected = loaded(traits.facts)(tables, manifest)
    return [
        _compared(expected, given),
        *(
            Check.unmade(f"facts: {name}", detail)
            for name, detail in _UNCHECKED.items()
            if name in expected
        ),
    ]


def _is(wanted: Any) -> Callable[[Any], bool]:
    """Equal, and of the same type: 1 is not true."""
    return lambda given: type(given) is type(wanted) and given == wanted


def _compared(expected: Mapping[str, Callable[[Any], bool]], given: Mapping[str, Any]) -> Check:
    wrong = sorted(set(expected) ^ set(given))
    for name in set(expected) & set(given):
        try:
            if not expected[name](given[name]):
                wrong.append(name)
        except UNREADABLE:
            wrong.append(name)
    detail = "as worked out again: " + (", ".join(given) or "none")
    if wrong:
        detail = "not what plan, schema and tables lead to: " + ", ".join(sorted(wrong))
    return Check(name="facts", passed=not wrong, detail=detail)


def masked(tables: Stored, manifest: Manifest) -> Expected:
    """What a masked table's manifest must state, or that of a strict release's centroids."""
    data = tables["data"]
    if manifest["plan"].get("guarantee") != "strict":
        return {"rows": _is(data.num_rows)}
    records, clusters = counted(data)
    return {
        "rows": _is(records),
        "clusters": _is(clusters),
        "form": _is("ordered-centroids"),
    }


def generalised(tables: Stored, manifest: Manifest) -> Expected:
    """What the manifest of generalised records must state."""
    data = whole(tables["data"])
    return {
        "rows": _is(tables["records"].num_rows),
        "leaves": _is(generalised_records.leaves(data, manifest)),
        "specialisations": lambda given: generalised_records.fit(given, data, manifest),
        "left_out": _is(
            [
                name
                for name in with_role(manifest, *UNTOUCHED)
                if name != manifest["plan"].get("class_attribute")
            ]
        ),
    }


def jointly_generalised(tables: Stored, manifest: Manifest) -> Expected:
    """What the manifest of records that several parties generalised together must state."""
    return generalised(tables, manifest) | of_parties(manifest)


def of_parties(manifest: Manifest) -> Expected:
    """What the manifest of a release that parties computed together says of them."""
    names = manifest["facts"].get("parties")
    return {
        "parties": _are_names,
        "computing": lambda given: _are_names(given) and set(given) <= set(names or ()),
        "protocol": lambda given: isinstance(given, str) and bool(given),
        "linkage": lambda given: isinstance(given, str) and bool(given),
        "run": lambda given: isinstance(given, str) and bool(given),
        "opened": _are_opened,
    }


def _are_names(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(n, str) for n in given)


def _are_opened(given: Any) -> bool:
    return isinstance(given, list) and all(
        set(one) == {"what", "numbers"}
        and isinstance(one["what"], str)
        and is_count(one["numbers"])
        for one in given
    )


def _bins(manifest: Manifest, *, of_sensitive: bool = True) -> Callable[[Any], bool]:
    attributes = manifest["schema"]["attributes"]
    measured = ("number", "integer", "date", "datetime")
    wanted = {n: attributes[n] for n in slicing.sensitive_of(manifest)}
    wanted = {n: a for n, a in wanted.items() if a["type"] in measured}
    if not of_sensitive:
        wanted = {}

    def fit(given: Any) -> bool:
        return set(given) == set(wanted) and all(
            isinstance(given[name], list)
            and all(type(cut) is (str if "date" in a["type"] else float) for cut in given[name])
            and [slicing.as_kind(a["type"], cut) for cut in given[name]]
            == slicing.edges(name, a, manifest)
            for name, a in wanted.items()
        )

    return fit


def classes(tables: Stored, manifest: Manifest) -> Expected:
    """What the manifest of a generalised table with classes must state."""
    sensitive = slicing.sensitive_of(manifest)
    quasi = [n for n in with_role(manifest, *PROTECTED) if n not in sensitive]
    columns = {name: distinct(tables["data"], name) for name in quasi}
    return _with_empty_places(manifest, tables["data"].num_rows) | {
        "quasi_identifiers": _is(quasi),
        "sensitive": _is(sensitive),
        "labels": lambda given: set(given) == set(quasi) and books.fit(given, columns, manifest),
        "bins": _bins(manifest, of_sensitive=_diverse(manifest["plan"])),
    }


def _diverse(plan: Mapping[str, Any]) -> bool:
    """Whether a plan asks anything of sensitive values."""
    return plan.get("l", 1) > 1 or bool(plan.get("conditions"))


def sliced(tables: Stored, manifest: Manifest) -> Expected:
    """What a sliced table's manifest must state."""
    facts, data = manifest["facts"], tables["data"]
    untouched = set(with_role(manifest, *UNTOUCHED))
    fields = [f for f in data.column_names if f != facts["bucket"] and f not in untouched]
    of = {field: _attribute_of(field, manifest) for field in fields}
    columns = {of[field]: distinct(data, field) for field in fields}
    hidden = slicing.sensitive_of(manifest)
    alike = [[of[f] for f in c if f in of and of[f] not in hidden] for c in facts["columns"]]
    if len(columns) < len(of):
        alike = []  # one that stands in two columns has the book of either
    return _with_empty_places(manifest, data.num_rows) | {
        "columns": lambda given: _are_columns(given, fields, untouched, manifest),
        "attributes": _is(of),
        "sensitive": _is(hidden),
        "bucket": lambda given: given in data.column_names,
        "labels": lambda given: books.fit(given, columns, manifest) and _are_whole(given, alike),
        "bins": _bins(manifest),
    }


def _are_whole(labels: Any, columns: list[list[str]]) -> bool:
    """Attributes of one column are generalised together: all have a book, or none has."""
    return all(len({name in labels for name in column}) < 2 for column in columns)


def _attribute_of(field: str, manifest: Manifest) -> str:
    """The attribute a field shows: its own name, or that name with a number behind it."""
    if field in manifest["schema"]["attributes"]:
        return field
    name, _, number = field.rpartition(".")
    return name if number.isdigit() else field


def _are_columns(given: Any, fields: list[str], untouched: set[str], manifest: Manifest) -> bool:
    """Every field once; where the plan gives the groups, those."""
    flat = [field for column in given for field in column]
    groups = manifest["plan"].get("groups")
    layout = {
        frozenset(_attribute_of(field, manifest) for field in column)
        for column in given
        if not set(column) & untouched
    }
    return (
        all(isinstance(column, list) and column for column in given)
        and sorted(flat) == sorted([*fields, *untouched])
        and (groups is None or {frozenset(g) for g in groups} <= layout)
    )


def _following(manifest: Manifest) -> Expected:
    """What the manifest of a release that follows another must state of it."""
    after = manifest["plan"].get("after")
    if after is None:
        return {}
    return {"after": lambda given: is_hash(given) and given == after["release"]}


def _with_empty_places(manifest: Manifest, rows: int) -> Expected:
    """The same where empty places of records that are gone are rows of the table."""
    facts = _following(manifest)
    if facts:
        facts["empty"] = lambda given: is_count(given) and given <= rows
    return facts


def bucketised(_tables: Stored, manifest: Manifest) -> Expected:
    """What the manifest of a bucketised table must state."""
    # Bucket and count are columns of the tables, as the check of these finds.
    return _following(manifest) | {
        "sensitive": _is(slicing.sensitive_of(manifest)),
        "bucket": lambda given: isinstance(given, str),
        "count": lambda given: isinstance(given, str),
        "bins": _bins(manifest),
    }


def fragmented(tables: Tables, manifest: Manifest) -> Expected:
    """What the manifest of a release made of fragments must state."""
    layout, plan = fragments.read_layout(tables), manifest["plan"]
    assert layout is not None, "the check of the files comes first"
    named = plan["constraints"]["constraints"]
    held = {name for names in layout.attributes for name in names}
    separate = [sorted(c) for c in fragments.separate(named) if held.issuperset(c)]
    rows = max(table.num_rows for table in layout.fragments)
    shown = [sorted(names) for names in layout.attributes]
    facts: Expected = {
        "fragments": lambda given: [sorted(names) for names in given] == shown,
        "sizes": _is(plan.get("sizes") or _sizes_of_sets(plan, len(layout.fragments))),
        "withheld": _is([name for name in released_names(manifest) if name not in held]),
        "constraints": _is(separate),
        "fragmentation_proved_best": lambda given: type(given) is bool,
        "fragmentation_minimal": _is(fragments.is_minimal(layout, plan)),
        **sealed_facts(manifest),
    }
    if plan.get("after") is not None:
        return facts | {"after": lambda given: is_hash(given) and given == plan["after"]["release"]}
    most = float(plan["suppress"])
    return facts | {
        "suppressed": lambda given: is_count(given) and given <= most * (given + rows) + 1e-9
    }


def _sizes_of_sets(plan: Mapping[str, Any], count: int) -> list[int]:
    """Group sizes where the plan gives none, in every set of fragments that are associated."""
    sizes: dict[int, int] = {}
    for chosen in plan.get("associations") or [list(range(1, count + 1))]:
        sizes.update(zip(chosen, _sizes(plan["looseness"], len(chosen)), strict=True))
    return [sizes[f] for f in range(1, count + 1)]


def _sizes(looseness: int, count: int) -> list[int]:
    """Group sizes where the plan gives none: every two multiply to the looseness."""
    large = next(size for size in range(1, looseness + 1) if size * size >= looseness)
    small = -(-looseness // large)
    return [large, small] if count == 2 else [small, *[large] * (count - 1)]
