"""Schemas: read, checked, written back."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from sherd.errors import FormatError, SchemaError
from sherd.federation.protocol.joint_plan import read_schema
from sherd.tables.schema import Attribute, Missing, Outside, Role, Schema, Type
from sherd.tables.taxonomy import Taxonomy

if TYPE_CHECKING:
    from pathlib import Path

YAML = """
population: patients
unit: ssn
rows_per_unit: 2
missing: drop
outside: refuse
missing_values: ['?', NA]
attributes:
  ssn: {role: identifier}
  age: {type: integer, domain: [17, 90], missing: recode, recode: 40}
  height: {type: number, domain: ['1.0', '2.5'], grid: '0.01', outside: clamp}
  born: {type: date, domain: [1900-01-01, 2025-12-31]}
  seen: {type: datetime, domain: ['2020-01-01T00:00:00+02:00', 2024-01-01]}
  smoker: {type: boolean, role: sensitive}
  answer: {type: category, values: [yes, no, 007], other: no}
  level: {type: ordinal, values: [low, high], values_from_data: true}
  job: {type: category, taxonomy: job.csv}
  weight: {type: number, role: weight}
  note: {type: text, role: insensitive}
"""


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    """A schema with a bit of everything, from a file."""
    (tmp_path / "job.csv").write_text("nurse;health;*\ndoctor;health;*\nsmith;smith;*\n")
    (tmp_path / "schema.yaml").write_text(YAML)
    return Schema.load(tmp_path / "schema.yaml")


def test_a_file_is_read(schema: Schema) -> None:
    """Types, roles, domains, labels as they were written, taxonomies beside the file."""
    assert schema["age"].domain == (Decimal(17), Decimal(90))
    assert schema["born"].domain == (date(1900, 1, 1), date(2025, 12, 31))
    assert schema["seen"].domain == (
        datetime(2019, 12, 31, 22, tzinfo=UTC),
        datetime(2024, 1, 1, tzinfo=UTC),
    )
    assert schema["answer"].values == ("yes", "no", "007")
    assert schema["job"].labels == ("nurse", "doctor", "smith")
    assert schema["height"].grid == Decimal("0.01")
    assert schema["note"].labels is None
    assert schema.missing_values == ("?", "NA")
    assert schema.population == "patients"
    assert schema["level"].values_from_data


def test_roles_say_what_happens(schema: Schema) -> None:
    """Protected, untouched and released attributes, in their order."""
    assert schema.named(Role.IDENTIFIER) == ("ssn",)
    assert schema.untouched == ("weight", "note")
    assert schema.protected[:2] == ("age", "height")
    assert "ssn" not in schema.released
    assert len(schema.released) == 10


def test_an_attributes_policy_comes_before_the_schemas(schema: Schema) -> None:
    """For missing cells and for values outside the domain."""
    assert schema.missing_policy("age") is Missing.RECODE
    assert schema.missing_policy("born") is Missing.DROP
    assert schema.outside_policy("height") is Outside.CLAMP
    assert schema.outside_policy("born") is Outside.REFUSE


def test_a_schema_survives_as_data(schema: Schema) -> None:
    """Written and read back it is the same, with the same hash."""
    again = Schema.from_data(schema.as_data())
    assert again == schema
    assert again.hash == schema.hash
    other = Schema.from_data({**schema.as_data(), "missing": "keep"})
    assert other.hash != schema.hash


def test_one_mark_may_stand_alone() -> None:
    """``missing_values: NA`` is a list of one."""
    data = {"attributes": {"x": {"type": "boolean"}}, "missing_values": "NA"}
    assert Schema.from_data(data).missing_values == ("NA",)


def test_an_unknown_attribute_gets_a_hint(schema: Schema) -> None:
    """The nearest name."""
    with pytest.raises(SchemaError, match="did you mean 'height'"):
        schema["heigth"]
    with pytest.raises(SchemaError) as caught:
        schema["qqqqqqqqqq"]
    assert caught.value.do is None


def test_labels_in_the_taxonomys_order() -> None:
    """``order: taxonomy`` sorts the values as the tree has them."""
    paths = [["a", "*"], ["b", "*"], ["c", "*"]]
    data = {"type": "category", "values": ["c", "a"], "taxonomy": paths, "order": "taxonomy"}
    assert Schema.from_data({"attributes": {"x": data}})["x"].labels == ("a", "c")


def _with(**attribute: Any) -> dict[str, Any]:
    return {"attributes": {"x": {"type": "number", **attribute}}}


LABELS = {"type": "category", "values": ["a", "b"]}
BAD: list[tuple[Any, str]] = [
    (None, "the schema cannot be understood"),
    ([], "the schema cannot be understood"),
    ({}, "'attributes' cannot be understood"),
    ({"attributes": {}}, "has no attributes"),
    ({"attributes": {"x": 3}}, "cannot be understood"),
    ({"attributs": {}}, "did you mean 'attributes'"),
    ({"attributes": {"x": None}}, "has no type"),
    (_with(type="numbr"), "did you mean 'number'"),
    (_with(role="sensitiv"), "did you mean 'sensitive'"),
    (_with(domian=[0, 1]), "did you mean 'domain'"),
    (_with(domain=[0]), "a pair"),
    (_with(domain="0-1"), "a pair"),
    (_with(domain=["a", "b"]), "a number"),
    (_with(domain=[1, 1]), "empty domain"),
    (_with(domain=[2, 1]), "empty domain"),
    (_with(domain=["0", "inf"]), "domain without end"),
    (_with(domain=["nan", "1"]), "domain without end"),
    (_with(type="integer", domain=["0", "1.5"]), "whole numbers"),
    (_with(type="date", domain=["2020", "never"]), "dates such as"),
    (_with(type="datetime", domain=["2020-01-01", "never"]), "dates such as"),
    (_with(type="boolean", domain=[0, 1]), "has a domain but is of type boolean"),
    (_with(grid="0"), "a grid out of range"),
    (_with(grid="inf"), "a grid out of range"),
    (_with(grid="fine"), "a number"),
    (_with(values=["1"]), "has values but is of type number"),
    (_with(**{**LABELS, "values": []}), "empty list of values"),
    (_with(**{**LABELS, "values": ["a", "a"]}), "lists a value twice"),
    (_with(**{**LABELS, "values": "a"}), "a list of labels"),
    (_with(**{**LABELS, "values": [["a"]]}), "a list of labels"),
    (_with(**LABELS, other="c"), "recodes to a label it does not list"),
    (_with(**LABELS, recode="c"), "recodes to a label it does not list"),
    (_with(recode="five"), "not of its type number"),
    (_with(type="integer", recode="1.5"), "not of its type integer"),
    (_with(type="date", recode="soon"), "not of its type date"),
    (_with(domain=[0, 100], recode="500"), "recodes to a value outside its domain"),
    (_with(type="boolean", recode="perhaps"), "true or false"),
    ({**_with(), "missing": "recode"}, "the schema names no value"),
    (_with(missing="recode"), "the schema names no value"),
    (_with(**LABELS, taxonomy=[["a", "*"]]), "1 value.s. that its taxonomy lacks"),
    (_with(type="category", taxonomy=3), "a file's path, or lists of nodes"),
    (_with(type="category", taxonomy=["a"]), "a file's path, or lists of nodes"),
    (_with(type="category", taxonomy=[[]]), "an empty line"),
    (_with(**LABELS, order="alphabetical"), "declared or taxonomy"),
    (_with(**LABELS, order="taxonomy"), "a taxonomy it does not have"),
    (_with(type="category", order="declared"), "an order but no values"),
    (_with(missing="ignore"), "'missing' is not valid"),
    (_with(outside="ignore"), "'outside' is not valid"),
    ({**_with(), "missing": "ignore"}, "the schema's 'missing' is not valid"),
    ({**_with(), "outside": "ignore"}, "the schema's 'outside' is not valid"),
    ({**_with(), "unit": "y"}, "unit is not among its attributes"),
    ({**_with(), "unit": "x"}, "unit 'x' would be released"),
    ({**_with(), "rows_per_unit": 2}, "rows_per_unit but no unit"),
    ({**_with(), "rows_per_unit": 0}, "rows_per_unit is out of range"),
    ({**_with(), "rows_per_unit": "-1"}, "rows_per_unit is out of range"),
    ({**_with(), "rows_per_unit": "two"}, "rows_per_unit is out of range"),
]


@pytest.mark.parametrize(
    ("data", "text"), BAD, ids=[f"{i}-{t[:24]}" for i, (_, t) in enumerate(BAD)]
)
def test_what_contradicts_itself_is_refused(data: Any, text: str) -> None:
    """Every refusal is reached and says what it must be."""
    with pytest.raises(SchemaError, match=text):
        Schema.from_data(data)


@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        (Type.NUMBER, (0, 1)),
        (Type.NUMBER, (Decimal(0), 1.5)),
        (Type.INTEGER, (date(2020, 1, 1), date(2021, 1, 1))),
        (Type.DATE, (Decimal(0), Decimal(1))),
        (Type.DATETIME, (date(2020, 1, 1), date(2021, 1, 1))),
        (Type.DATETIME, (datetime(2020, 1, 1), datetime(2021, 1, 1))),  # noqa: DTZ001
    ],
)
def test_a_domain_has_its_attributes_type(kind: Type, domain: Any) -> None:
    """Made in Python, a domain is exact: decimals, dates, times with a zone."""
    with pytest.raises(SchemaError, match="a domain of another type"):
        Attribute(name="x", type=kind, domain=domain)


def test_an_attribute_may_be_made_in_python() -> None:
    """As the YAML file would make it."""
    tree = Taxonomy.from_paths([["a", "*"], ["b", "*"]])
    made = Attribute(name="x", type=Type.CATEGORY, taxonomy=tree, recode="a")
    data = {"type": "category", "taxonomy": [["a", "*"], ["b", "*"]], "recode": "a"}
    assert Schema.from_data({"attributes": {"x": data}})["x"] == made


@pytest.mark.parametrize("path", ["job.csv", "/dev/zero", "../job.csv"])
def test_a_schema_that_came_from_elsewhere_opens_no_file(path: str, tmp_path: Path) -> None:
    """In a message, a plan or a manifest, a taxonomy is spelt out; a path is refused unread."""
    data = {"attributes": {"job": {"type": "category", "taxonomy": path}}}
    with pytest.raises(SchemaError, match="names a file"):
        Schema.from_data(data)
    with pytest.raises(SchemaError, match="names a file"):
        read_schema(json.dumps(data))
    (tmp_path / "job.csv").write_text("cook,work\nclerk,work\n")
    beside = {"attributes": {"job": {"type": "category", "taxonomy": "job.csv"}}}
    assert Schema.from_data(beside, folder=tmp_path)["job"].taxonomy is not None


def test_a_schema_of_ones_own_names_files_anywhere(tmp_path: Path) -> None:
    """An absolute path is read; inside a release, no path is; what never ends is refused unread."""
    tree = tmp_path / "trees" / "job.csv"
    tree.parent.mkdir()
    tree.write_text("cook,work\nclerk,work\n")
    schema = tmp_path / "own" / "schema.yaml"
    schema.parent.mkdir()

    def naming(path: Path | str) -> Schema:
        schema.write_text(f"attributes: {{job: {{type: category, taxonomy: {str(path)!r}}}}}")
        return Schema.load(schema)

    for path in (tree, "../trees/job.csv"):
        found = naming(path)["job"].taxonomy
        assert found is not None
        assert found.leaves == ("cook", "clerk")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for endless in ("/dev/zero", pipe):
        with pytest.raises(FormatError, match="does not lead to a readable file"):
            naming(endless)
    (schema.parent / "manifest.json").write_text("{}")
    with pytest.raises(SchemaError, match="names a file"):
        naming(tree)
