"""Schema drafts: what is guessed, what never is, and that the text reads back."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import yaml

from sherd.errors import TableError
from sherd.tables.files import read_yaml
from sherd.tables.infer import schema as draft
from sherd.tables.read import read
from sherd.tables.schema import Role, Schema, Type

if TYPE_CHECKING:
    from pathlib import Path


def one(values: object, kind: pa.DataType | None = None, name: str = "a") -> pa.Table:
    """A table of one column."""
    return pa.table({name: pa.array(values, kind)})


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (one([1, 2, 2]), Type.INTEGER),
        (one([1.0, 2.0, None]), Type.INTEGER),
        (one([1.5, 2.0]), Type.NUMBER),
        (one([1e300, 2.0]), Type.NUMBER),
        (one([float("inf"), 2.0]), Type.NUMBER),
        (one([Decimal("1.50")]), Type.NUMBER),
        (one([Decimal(1)], pa.decimal128(9, 0)), Type.INTEGER),
        (one([True, False]), Type.BOOLEAN),
        (one([dt.date(2020, 1, 31)]), Type.DATE),
        (one([0], pa.timestamp("s", "UTC")), Type.DATETIME),
        (one(["a", "b"]), Type.CATEGORY),
        (one(["1", "2", "NA"]), Type.INTEGER),
        (one(["1.5", "2e3", "?"]), Type.NUMBER),
        (one(["true", "false"]), Type.BOOLEAN),
        (one(["2020-01-31", "-"]), Type.DATE),
        (one(["2020-01-31 12:00:00"]), Type.DATETIME),
        (one(["2020-01-31T12:00:00+02:00", "2020-01-31T12:00:00Z"]), Type.DATETIME),
        (one(["2020-02-31"]), Type.CATEGORY),
        (one(["007", "008"]), Type.CATEGORY),
        (one(["?", "NA"]), Type.CATEGORY),
        (pa.table({"a": pa.array([1, 2, 1]).dictionary_encode()}), Type.INTEGER),
        (pa.table({"a": pa.array(["x", "y"]).dictionary_encode()}), Type.CATEGORY),
    ],
)
def test_types_are_guessed_from_what_cells_say(table: pa.Table, kind: Type) -> None:
    """Text is read for what it says, codes keep their zeros, and the draft says the same."""
    schema = Schema.infer(table)
    assert schema["a"].type is kind
    assert schema["a"].role is Role.QUASI_IDENTIFIER
    assert schema["a"].domain is None


def test_an_ordered_dictionary_is_ordinal_in_its_order() -> None:
    """An order the data declares is kept."""
    labels = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None], pa.int8()), pa.array(["low", "high"]), ordered=True
    )
    attribute = Schema.infer(pa.table({"a": labels}))["a"]
    assert (attribute.type, attribute.values) == (Type.ORDINAL, ("low", "high"))


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (one([f"person {i}" for i in range(10)]), "no two rows have the same text"),
        (one([f"person {i // 1.5}" for i in range(900)]), "a text of their own"),
        (one(["word " * 20, "word " * 30] * 2), "long texts"),
        (one(range(10)), "no two rows have the same number"),
        (one([i * i for i in range(10)], name="person_id"), "no two rows have the same number"),
        (one([None, None], pa.string()), "every cell is missing"),
        (one([None, None]), "every cell is missing"),
        (one([[1], [2]]), "cannot be treated"),
        (one([b"x"]), "cannot be treated"),
        (one([dt.time(12)]), "cannot be treated"),
        (pa.table({"a": pa.array([b"\xff"]).dictionary_encode()}), "cannot be treated"),
    ],
)
def test_what_tells_people_apart_is_an_identifier_with_a_reason(table: pa.Table, why: str) -> None:
    """Identifiers are never released, so doubt falls on that side, and the draft says why."""
    (name,) = table.column_names
    assert Schema.infer(table)[name].role is Role.IDENTIFIER
    lines = draft(table).yaml().splitlines()
    (line,) = [line for line in lines if "role: identifier  # decide: " in line]
    assert why in line


def test_different_numbers_without_a_name_for_it_are_measured() -> None:
    """A measurement whose values all differ is not an identifier."""
    assert Schema.infer(one([i * i for i in range(10)], name="income"))["income"].role.protected


def test_a_domain_is_never_guessed() -> None:
    """Neither lowest nor highest value stands anywhere in the draft."""
    table = pa.table({"n": [13.25, 77.75], "d": [dt.date(1911, 3, 4), dt.date(1999, 9, 9)]})
    text = draft(table).yaml()
    for value in ("13.25", "77.75", "1911", "1999"):
        assert value not in text
    assert text.count("domain:   # decide") == 2


def test_labels_are_listed_as_found_up_to_a_limit() -> None:
    """Up to 200 labels are listed and marked as from the data; more are not listed."""
    few = Schema.infer(one([f"l{i:03}" for i in range(200)] * 3))["a"]
    assert few.values == tuple(f"l{i:03}" for i in range(200))
    assert few.values_from_data
    table = one([f"l{i:03}" for i in range(201)] * 3)
    many = Schema.infer(table)["a"]
    assert many.values is None
    assert not many.values_from_data
    assert "more than 200 different labels" in draft(table).yaml()


def test_missing_marks_are_proposed_and_are_no_labels() -> None:
    """Texts that often mean 'no value' are proposed once for the table."""
    table = pa.table({"a": ["x", "?", "y"], "b": ["1", "NA", "?"]})
    schema = Schema.infer(table)
    assert schema.missing_values == ("?", "NA")
    assert schema["a"].values == ("x", "y")
    assert "do these texts mean 'no value'" in draft(table).yaml()


NASTY = [
    "no", "yes", "null", "~", "007", "1e3", "0x1F", ": ", "a: b", "a #b", "#", "- x", "'", '"',
    "it's", 'say "x"', "[", "]", "{a}", ",", "a,b", "ü ß 日本 🙂", " lead", "trail ", "&a", "*a",
    "!t", "|", ">", "%", "@", "`", "\ttab", "line\nend", "\u2028", "\x85", "\ufeffbom", "=",
    "2020-01-31", "12:30:45", "on", "TRUE", ".5", "<<", "x" * 300, "many words " * 30, "\\n",
]  # fmt: skip


def test_labels_and_names_of_any_kind_read_back(tmp_path: Path) -> None:
    """Whatever a label or a column is called, the draft reads back as the same schema."""
    columns = {name: pa.array(["x", "y", "x"]) for name in NASTY if name.strip()}
    columns["labels"] = pa.array([NASTY[0], NASTY[1], None])
    table = pa.table(columns)
    path = tmp_path / "draft.yaml"
    path.write_text(draft(table).yaml(), encoding="utf-8")
    assert Schema.load(path) == Schema.infer(table)
    labels = pa.table({"a": NASTY * 2})
    path.write_text(draft(labels).yaml(), encoding="utf-8")
    assert Schema.load(path) == Schema.infer(labels)
    assert set(Schema.infer(labels)["a"].values or ()) == set(NASTY) - {"null"}


@pytest.mark.parametrize("typed", [False, True])
def test_a_draft_is_a_schema_however_it_is_loaded(typed: bool, tmp_path: Path) -> None:
    """Labels such as no and 007 stay text even for a reader that types its scalars."""
    table = pa.table({"a": ["no", "007", "1.0"] * 2, "n": [1, 2] * 3, "d": [0.5] * 6})
    path = tmp_path / "draft.yaml"
    path.write_text(draft(table, name="x\nattributes: {}").yaml(), encoding="utf-8")
    assert Schema.from_data(read_yaml(path, typed=typed)) == Schema.infer(table)
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["attributes"]["n"]["domain"] is None


def test_a_table_without_columns_is_refused() -> None:
    """There is nothing to draft; and names must be names."""
    with pytest.raises(TableError, match="has no columns"):
        Schema.infer(pa.table({}))
    with pytest.raises(TableError, match="used 2 times"):
        Schema.infer(pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"]))


def test_an_extension_type_is_guessed_by_what_it_stores() -> None:
    """A library's own type counts as what lies below it."""
    column = pa.ExtensionArray.from_storage(
        pa.opaque(pa.string(), "numeric", "db"), pa.array(["1.5"])
    )
    assert Schema.infer(pa.table({"a": column}))["a"].type is Type.NUMBER


@pytest.mark.parametrize("file", ["adult.csv", "winequality.csv", "nursery.csv"])
def test_a_draft_of_a_public_table_reads_that_table(
    file: str, data_dir: Path, tmp_path: Path
) -> None:
    """The draft of a file is a schema the same file can be read with."""
    path = tmp_path / "draft.yaml"
    path.write_text(draft(read(data_dir / file), name=file).yaml(), encoding="utf-8")
    schema = Schema.load(path)
    table = read(data_dir / file, schema=schema)
    assert table.column_names == list(schema.attributes)
    if file == "adult.csv":
        assert schema.missing_values == ("?",)
        assert table["workclass"].null_count == 2_799
        assert schema["age"].type is Type.INTEGER
        assert len(schema["native_country"].values or ()) == 41


def test_times_some_of_which_have_a_zone_are_times() -> None:
    """They are read, those without a zone as UTC; a text that is no day is still none."""
    times = ["2020-01-01T00:00:00+01:00", "2020-01-01 00:00", "2020-06-01T12:00:00Z"]
    assert draft(pa.table({"seen": times})).schema["seen"].type is Type.DATETIME
    broken = [*times, "2020-02-31 00:00"]
    assert draft(pa.table({"seen": broken})).schema["seen"].type is Type.CATEGORY
