"""The tables the package ships: whole, as published, and covered by their schemas."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sherd import datasets
from sherd.errors import UsageError
from sherd.tables.read import read
from sherd.tables.schema import Role, Type

if TYPE_CHECKING:
    from pathlib import Path


def counts(table: pa.Table, column: str) -> dict[object, int]:
    """How often each value occurs."""
    return dict(Counter(table[column].to_pylist()))


@pytest.mark.parametrize(
    ("name", "shape"), [("adult", (48_842, 15)), ("wine", (6_497, 13)), ("nursery", (12_960, 9))]
)
def test_a_table_is_whole_and_fits_its_schema(name: str, shape: tuple[int, int]) -> None:
    """Rows and columns are as published, and reading it with its schema changes nothing."""
    table = datasets.load(name)
    assert table.shape == shape
    schema = datasets.schema(name)
    assert table.column_names == list(schema.attributes)
    assert read(datasets.path(name), schema=schema).equals(table)


def test_adult_has_the_published_counts() -> None:
    """Counts by income, missing cells and complete rows are those of the literature."""
    adult = datasets.load("adult")
    assert counts(adult, "income") == {"<=50K": 37_155, ">50K": 11_687}
    missing = {c: adult[c].null_count for c in adult.column_names if adult[c].null_count}
    assert missing == {"workclass": 2_799, "occupation": 2_809, "native_country": 857}
    complete = datasets.load("adult", complete=True)
    assert complete.num_rows == 45_222
    assert counts(complete, "income") == {"<=50K": 34_014, ">50K": 11_208}


def test_adults_education_is_in_the_order_of_its_rank() -> None:
    """The ordinal order of education is education_num, and the taxonomy keeps it."""
    adult = datasets.load("adult")
    ranks = dict(
        zip(adult["education_num"].to_pylist(), adult["education"].to_pylist(), strict=True)
    )
    by_rank = tuple(ranks[rank] for rank in sorted(ranks))
    education = datasets.schema("adult")["education"]
    assert education.values == by_rank
    assert education.taxonomy is not None
    assert education.taxonomy.leaves == by_rank


def test_wine_has_the_published_counts() -> None:
    """Quality marks, of all wines and by colour, are those published."""
    wine = datasets.load("wine")
    assert counts(wine, "quality") == {3: 30, 4: 216, 5: 2138, 6: 2836, 7: 1079, 8: 193, 9: 5}
    red = wine.filter(pc.equal(wine["color"].cast(pa.string()), "red"))
    assert counts(red, "quality") == {3: 10, 4: 53, 5: 681, 6: 638, 7: 199, 8: 18}


def test_nursery_has_the_published_counts_and_is_a_full_product() -> None:
    """Class counts are those published; no two records agree on all eight attributes."""
    nursery = datasets.load("nursery")
    assert counts(nursery, "class") == {
        "not_recom": 4_320, "priority": 4_266, "spec_prior": 4_044, "very_recom": 328,
        "recommend": 2,
    }  # fmt: skip
    assert (
        nursery.drop_columns(["class"]).group_by(nursery.column_names[:8]).aggregate([]).num_rows
        == 12_960
    )


@pytest.mark.parametrize("name", datasets.names())
def test_every_value_is_inside_its_domain_or_list(name: str) -> None:
    """No cell of a shipped table is outside what its schema declares, and all is declared."""
    table = datasets.load(name)
    for attribute in datasets.schema(name):
        column = table[attribute.name]
        if attribute.type.measured:
            assert attribute.domain is not None
            low, high = attribute.domain
            bounds = pc.min_max(column).as_py()
            assert low <= bounds["min"], attribute.name
            assert bounds["max"] <= high, attribute.name
        else:
            assert attribute.values is not None
            assert not attribute.values_from_data
            found = set(column.unique().to_pylist()) - {None}
            assert found == set(attribute.values), attribute.name


@pytest.mark.parametrize("name", ["adult", "nursery"])
def test_taxonomies_cover_every_label(name: str) -> None:
    """Every labelled attribute has a taxonomy with exactly its values as leaves."""
    for attribute in datasets.schema(name):
        if attribute.type.labelled:
            assert attribute.taxonomy is not None, attribute.name
            assert set(attribute.taxonomy.leaves) == set(attribute.values or ()), attribute.name
            assert attribute.taxonomy.root == "*"
            if attribute.type is Type.ORDINAL:
                assert attribute.taxonomy.leaves == attribute.values, attribute.name


def test_roles_are_chosen_with_care() -> None:
    """Nothing is released unmasked, and each table has a sensitive attribute."""
    for name in datasets.names():
        schema = datasets.schema(name)
        assert schema.untouched == ()
        assert len(schema.named(Role.SENSITIVE)) == 1


@pytest.mark.parametrize(
    ("name", "file"),
    [("adult", "adult.csv"), ("wine", "winequality.csv"), ("nursery", "nursery.csv")],
)
def test_a_table_equals_the_published_file(name: str, file: str, data_dir: Path) -> None:
    """Cell by cell and in the same order, the numbers exactly those the text says."""
    published = read(data_dir / file, schema=datasets.schema(name))
    table = datasets.load(name)
    for column in table.column_names:
        assert published[column].to_pylist() == table[column].to_pylist(), column


def test_licences_name_every_table() -> None:
    """Each shipped table has its citation and licence beside it."""
    text = (datasets.path("adult").parent / "LICENSES.md").read_text(encoding="utf-8")
    for part in ("CC BY 4.0", "C5XW20", "C56S3T", "C5P88W", *datasets.names()):
        assert part in text


def test_an_unknown_table_is_refused_with_a_hint() -> None:
    """A mistyped name is answered with the nearest one."""
    for call in (datasets.load, datasets.schema, datasets.path):
        with pytest.raises(UsageError, match="did you mean 'adult'"):
            call("adlut")


def test_tables_stay_small() -> None:
    """What every installation carries is below 600 kB."""
    assert sum(datasets.path(name).stat().st_size for name in datasets.names()) < 600_000
