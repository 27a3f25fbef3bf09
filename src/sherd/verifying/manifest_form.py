"""Checks of the manifest itself: its form, what it says of the budget, what it says twice.

The form is checked strictly and first: a part that is missing, of another type or unknown is
a failed check. What no file of a release can confirm is listed as such.
"""

from __future__ import annotations

import csv
import io
import re
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sherd.release.bundle import PACKAGE, is_document, read_json
from sherd.release.manifest import EARLIER_FORMAT, FORMAT
from sherd.tables.coded_columns import holds_numbers
from sherd.verifying.check import UNREADABLE, Check
from sherd.verifying.stored_table import arrow_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_STAMPS = ("reproducible: carries no guarantee", "order of rows kept: not for publication")
_HASH = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"\d[\w.+!-]*")
_AMOUNT = re.compile(r"\d{1,18}(\.\d{1,18})?")
_OPTIONAL = ("joint",)


def is_hash(value: Any) -> bool:
    """Whether a value is a sha256 as text."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def is_count(value: Any) -> bool:
    """Whether a value is a whole number from 0."""
    return type(value) is int and value >= 0


def is_mapping(value: Any) -> bool:
    """Whether a value is a mapping."""
    return isinstance(value, dict)


def are_versions(value: Any) -> bool:
    """Whether a value gives the version of Sherd and of other parts."""
    return (
        isinstance(value, dict)
        and "sherd" in value
        and all(isinstance(v, str) and _VERSION.fullmatch(v) for v in value.values())
    )


def _is_moment(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _are_stamps(value: Any) -> bool:
    return isinstance(value, list) and all(stamp in _STAMPS for stamp in value)


def _are_files(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(facts, dict) and _is_file(name, facts) for name, facts in value.items()
    )


def _is_file(name: str, facts: Mapping[str, Any]) -> bool:
    wanted = {"sha256", "bytes"}
    if name != PACKAGE and not is_document(name):
        wanted |= {"rows", "columns"}
    given = set(facts)
    if ".csv" in name and facts.get("spreadsheet_safe") is True:
        given.discard("spreadsheet_safe")
    return (
        given == wanted
        and is_hash(facts["sha256"])
        and all(is_count(facts[key]) for key in wanted - {"sha256"})
    )


_PARTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "created": (_is_moment, "a time with a zone"),
    "stamps": (_are_stamps, "a list of known stamps"),
    "guarantee": (is_mapping, "a mapping"),
    "plan": (is_mapping, "a mapping"),
    "plan_hash": (is_hash, "a sha256"),
    "schema": (is_mapping, "a mapping"),
    "schema_hash": (is_hash, "a sha256"),
    "budget": (is_mapping, "a mapping"),
    "versions": (are_versions, "a mapping of versions"),
    "facts": (is_mapping, "a mapping"),
    "files": (_are_files, "a mapping of files' facts, each of them complete"),
    "joint": (is_mapping, "a mapping"),
}


def check_manifest(manifest: Mapping[str, Any]) -> list[Check]:
    """The manifest's form, its budget, and what of it nothing can confirm."""
    given = manifest.get("format")
    if type(given) is not int or given not in (EARLIER_FORMAT, FORMAT):
        detail = f"is not {FORMAT}, nor {EARLIER_FORMAT}: only these forms of manifests are known"
        return [Check.failed("format", detail)]
    wrong = [
        Check.failed(part, "is missing" if part not in manifest else "unknown")
        for part in sorted({"format", *_PARTS} ^ set(manifest) - {*_OPTIONAL})
        if part not in _OPTIONAL
    ]
    wrong += [
        Check.failed(part, f"cannot be read: it must be {must}")
        for part, (fits, must) in _PARTS.items()
        if part in manifest and not fits(manifest[part])
    ]
    if wrong:
        return wrong
    return [
        Check(name="manifest", passed=True, detail=f"format {given}, all parts there"),
        *_budget(manifest),
        Check.unmade(
            "created, versions", "when and with what a release was made, only its maker knows"
        ),
    ]


def _budget(manifest: Mapping[str, Any]) -> list[Check]:
    """Whether what was charged is what the promise costs."""
    budget, joint = manifest["budget"], "joint" in manifest
    recorded = budget.get("recorded")
    if type(recorded) is not bool:
        return [Check.failed("budget", "cannot be read: 'recorded' must be true or false")]
    try:
        costs = _costs(manifest)
    except UNREADABLE:
        return [Check.failed("budget", "what the plan costs cannot be told")]
    if not recorded:
        keys = {"recorded", "spent"} if joint else {"recorded"}
        clean = set(budget) == keys and budget.get("spent") is None
        if not clean or (joint and costs is not None):
            return [Check.failed("budget", "says that nothing was recorded and what was")]
        if costs is None:
            return [Check(name="budget", passed=True, detail="the method spends none")]
        detail = f"no ledger was kept; that {_text(costs)} was spent is recorded nowhere"
        return [Check.unmade("budget", detail)]
    keys = {"recorded", "spent"} if joint else {"recorded", "spent", "population"}
    spent = budget.get("spent")
    readable = set(budget) == keys and isinstance(spent, str) and _AMOUNT.fullmatch(spent)
    named = joint or (isinstance(budget.get("population"), str) and budget["population"])
    if not readable or not named:
        return [Check.failed("budget", "cannot be read: it must say who was charged how much")]
    same = costs is not None and Fraction(str(spent)) == costs
    checks = [
        Check.of(
            "budget", same, f"{spent} was charged, as the plan costs", "is not what the plan costs"
        )
    ]
    if not joint:
        detail = "that this account was charged, only the owner's ledger shows"
        checks.append(Check.unmade("population", detail))
    return checks


def _costs(manifest: Mapping[str, Any]) -> Fraction | None:
    """The plan's epsilon for a person, who may have several rows; None where it has none."""
    epsilon = manifest["plan"].get("epsilon")
    if epsilon is None:
        return None
    return Fraction(repr(epsilon)) * int(manifest["schema"].get("rows_per_unit", 1))


def _text(amount: Fraction) -> str:
    return f"{float(amount):g}"


def _columns_of(folder: Path, resource: Mapping[str, Any], kinds: Mapping[str, str]) -> int | None:
    """How many columns a resource of the data package has; None for a document.

    Raises LookupError where they are not those of the file.
    """
    if is_document(resource["path"]):
        return None if "schema" not in resource else -1
    fields = resource["schema"]["fields"]
    for field, (name, known) in zip(
        fields, _columns(folder / resource["path"], kinds), strict=True
    ):
        if field["name"] != name or field["type"] not in known:
            raise LookupError(name)
    return len(fields)


def _columns(path: Path, kinds: Mapping[str, str]) -> list[tuple[str, set[str]]]:
    """The columns of a file, with what a data package may call their types."""
    import pyarrow as pa

    form = path.name.partition(".")[2]
    if form.startswith("csv"):
        with pa.input_stream(str(path), compression="detect") as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            header = next(csv.reader(text))
        # Groups of values are labels, whatever type the values had.
        return [
            (name, {"string", kinds[name]} if name in kinds else _FIELD_TYPES) for name in header
        ]
    if form == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as held:
            schema = held.schema_arrow
    else:
        with arrow_batches(path) as (schema, _):
            pass
    return [
        (one.name, {_called(str(one.type.value_type if holds_numbers(one.type) else one.type))})
        for one in schema
    ]


def _called(kind: str) -> str:
    """What a data package calls an Arrow type; earlier releases have narrower integers, too."""
    whole = re.sub(r"\W.*|\d+", "", kind)
    return _ARROW_TYPES.get(whole, "string")


_ARROW_TYPES = {
    "int": "integer",
    "uint": "integer",
    "double": "number",
    "float": "number",
    "halffloat": "number",
    "decimal": "number",
    "bool": "boolean",
    "date": "date",
    "timestamp": "datetime",
}

_FIELD_TYPES = {"integer", "number", "boolean", "date", "datetime", "string"}


def _is_plain(package: Mapping[str, Any]) -> bool:
    """Whether a data package has the parts it must have, and no others."""
    resource = {"name", "path", "format", "bytes", "hash"}
    return (
        set(package) == {"name", "created", "description", "resources"}
        and all(
            set(one) in (resource, {*resource, "schema"})
            and one["path"].startswith(f"{one['name']}.{one['format']}")
            and set(one.get("schema", {"fields": []})) == {"fields"}
            and all(
                set(field) == {"name", "type"} and field["type"] in _FIELD_TYPES
                for field in one.get("schema", {"fields": []})["fields"]
            )
            for one in package["resources"]
        )
        and package["name"] == "sherd-release"
    )


def check_package(folder: Path, manifest: Mapping[str, Any]) -> Check:
    """Whether the data package says of time, promise and files what the manifest says."""
    name = "data package"
    if PACKAGE not in manifest["files"]:
        return Check.failed(name, "is missing")
    try:
        package = read_json(folder / PACKAGE, "the data package")
        declared = manifest["schema"]["attributes"]
        kinds = {
            name: one["type"] if one["type"] in _FIELD_TYPES else "string"
            for name, one in declared.items()
        }
        described = {
            one["path"]: (one["hash"], one["bytes"], _columns_of(folder, one, kinds))
            for one in package["resources"]
        }
        same = (
            _is_plain(package)
            and package["created"] == manifest["created"]
            and package["description"] == str(manifest["guarantee"].get("words", ""))
            and described
            == {
                file: (f"sha256:{facts['sha256']}", facts["bytes"], facts.get("columns"))
                for file, facts in manifest["files"].items()
                if file != PACKAGE
            }
        )
    except (*UNREADABLE, OSError, csv.Error):
        return Check.failed(name, "cannot be read")
    return Check.of(
        name, same, "says the same as the manifest", "does not say what the manifest says"
    )
