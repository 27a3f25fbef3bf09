"""One contract for every masking method and every type of attribute."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.errors import PlanError, SchemaError, SherdError, TableError
from sherd.release.method import find
from sherd.release.protect import Settings
from sherd.tables.frames import to_arrow

RANKING = ("dp", "idp", "dp-um", "idp-ls", "idp-cbls")
CLUSTERED = ("dp-um", "idp-ls", "idp-cbls")
VARIANTS = [(name, promise) for name in RANKING for promise in find(name).promises]  # type: ignore[attr-defined]
IN_ROWS = [(name, promise) for name, promise in VARIANTS if promise != "strict"]

N = 60
RNG = np.random.default_rng(7)

COLUMNS: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    "number": (
        pa.array(RNG.normal(50, 10, N).round(2)),
        {"type": "number", "domain": ["0", "100"]},
    ),
    "float32": (
        pa.array(RNG.normal(50, 10, N).astype(np.float32)),
        {"type": "number", "domain": ["0", "100"]},
    ),
    "integer": (
        pa.array(RNG.integers(17, 91, N)),
        {"type": "integer", "domain": ["17", "90"]},
    ),
    "int8": (
        pa.array(RNG.integers(0, 100, N).astype(np.int8)),
        {"type": "integer", "domain": ["0", "99"]},
    ),
    "decimal": (
        pa.array([Decimal(int(c)) / 100 for c in RNG.integers(0, 10_000, N)], pa.decimal128(10, 2)),
        {"type": "number", "domain": ["0", "100"]},
    ),
    "date": (
        pa.array([dt.date(2000, 1, 1) + dt.timedelta(int(d)) for d in RNG.integers(0, 9000, N)]),
        {"type": "date", "domain": ["1990-01-01", "2030-12-31"]},
    ),
    "datetime": (
        pa.array(
            [
                dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=int(s))
                for s in RNG.integers(0, 10**7, N)
            ],
            pa.timestamp("ms", tz="Europe/Madrid"),
        ),
        {"type": "datetime", "domain": ["2019-01-01", "2022-01-01"]},
    ),
    "boolean": (pa.array(RNG.integers(0, 2, N).astype(bool)), {"type": "boolean"}),
    "ordinal": (
        pa.array(RNG.choice(["low", "mid", "high"], N)),
        {"type": "ordinal", "values": ["low", "mid", "high"]},
    ),
    "category": (
        pa.array(RNG.choice(["a", "b", "c", "no"], N)).dictionary_encode(),
        {"type": "category", "values": ["a", "b", "c", "no"]},
    ),
}


TYPES = {
    "number": pa.float64(),
    "integer": pa.int64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
    "boolean": pa.bool_(),
    "ordinal": pa.string(),
    "category": pa.string(),
}


def plan(method: str, promise: str, **more: Any) -> sherd.Plan:
    """A plan of a method with a small k where it takes one."""
    if method in CLUSTERED:
        more.setdefault("k", 3)
    return sherd.Plan(method=method, epsilon=more.pop("epsilon", 1.0), guarantee=promise, **more)


def schema(attributes: dict[str, Any], **more: Any) -> sherd.Schema:
    """A schema of the given attributes."""
    return sherd.Schema.from_data({"attributes": attributes, **more})


def protect(table: Any, given: sherd.Schema, chosen: sherd.Plan) -> sherd.Release:
    """A reproducible release on one thread."""
    return sherd.protect(table, given, chosen, settings=Settings(seed=3, threads=1))


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize(("method", "promise"), IN_ROWS)
def test_type_and_bounds_survive(method: str, promise: str, kind: str) -> None:
    """What comes out has the type the schema says, its number of rows, and stays in the domain."""
    column, attribute = COLUMNS[kind]
    table = pa.table({"x": column})
    released = protect(table, schema({"x": attribute}), plan(method, promise)).table
    assert released.schema.field("x").type == TYPES[attribute["type"]]
    assert released.num_rows == N
    assert released.column("x").null_count == 0
    if "values" in attribute:
        assert set(released.column("x").to_pylist()) <= set(attribute["values"])
    elif "domain" in attribute and kind not in ("date", "datetime"):
        low, high = (float(b) for b in attribute["domain"])
        found = [float(v) for v in released.column("x").to_pylist()]
        assert low <= min(found)
        assert max(found) <= high


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize(("method", "promise"), IN_ROWS)
def test_missing_cells_stay_missing(method: str, promise: str, kind: str) -> None:
    """Kept apart: as many missing cells come out as went in, and the rest are masked."""
    column, attribute = COLUMNS[kind]
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    values = plain.to_pylist()
    values[::7] = [None] * len(values[::7])
    holed = pa.array(values, plain.type)
    gaps = holed.null_count
    release = protect(pa.table({"x": holed}), schema({"x": attribute}), plan(method, promise))
    assert release.table.column("x").null_count == gaps
    assert "missingness-public" in release.manifest["guarantee"]["assumes"]


@pytest.mark.parametrize("policy", ["drop", "recode", "refuse"])
@pytest.mark.parametrize("method", RANKING)
def test_other_policies_for_missing_cells(method: str, policy: str) -> None:
    """Dropped, recoded or refused, as the schema says."""
    table = pa.table({"x": [1.0, None, 3.0, float("nan"), 5.0, 6.0]})
    given = schema({"x": {"type": "number", "domain": ["0", "10"], "recode": "0"}}, missing=policy)
    chosen = plan(method, "paper")
    if policy == "refuse":
        with pytest.raises(TableError, match="'x' has missing cells"):
            protect(table, given, chosen)
        return
    release = protect(table, given, chosen)
    assert release.table.num_rows == (4 if policy == "drop" else 6)
    assert release.table.column("x").null_count == 0
    dropped = "records-dropped" in release.manifest["guarantee"]["assumes"]
    assert dropped == (policy == "drop")


@pytest.mark.parametrize(("method", "promise"), VARIANTS)
def test_one_row_one_column(method: str, promise: str) -> None:
    """The smallest table each method can take; with too small a one it says so."""
    given = schema({"x": {"type": "integer", "domain": ["0", "9"]}}, missing="refuse")
    table = pa.table({"x": [4]})
    chosen = plan(method, promise)
    if method in CLUSTERED:
        with pytest.raises(TableError, match="fewer values than one cluster needs"):
            protect(table, given, chosen)
    else:
        assert protect(table, given, chosen).table.num_rows == 1


@pytest.mark.parametrize("n", [3, 4, 5])
@pytest.mark.parametrize(("method", "promise"), [v for v in IN_ROWS if v[0] in CLUSTERED])
def test_less_than_two_clusters_is_one(method: str, promise: str, n: int) -> None:
    """K ≤ n < 2k: every row gets the same value."""
    given = schema({"x": {"type": "number", "domain": ["0", "10"]}})
    table = pa.table({"x": [float(v) for v in range(n)]})
    released = protect(table, given, plan(method, promise)).table.column("x").to_pylist()
    assert len(set(released)) == 1


@pytest.mark.parametrize(("method", "promise"), VARIANTS)
def test_a_constant_column_is_released(method: str, promise: str) -> None:
    """A constant column works; trimmed means publish it as it is, and say so."""
    given = schema({"x": {"type": "number", "domain": ["0", "10"]}}, missing="refuse")
    release = protect(pa.table({"x": [5.0] * 30}), given, plan(method, promise))
    if (method, promise) == ("idp-cbls", "paper"):
        assert set(release.table.column("x").to_pylist()) == {5.0}
        shares = [f.value for f in release.findings if f.name == "share without noise"]
        assert shares == [1.0, 1.0]
        assert "without any noise" in release.manifest["guarantee"]["words"]
    else:
        assert release.tables["data"].num_rows > 0


@pytest.mark.parametrize(("method", "promise"), IN_ROWS)
def test_what_is_not_finite_is_missing(method: str, promise: str) -> None:
    """±∞ and NaN are missing cells, like null."""
    values = [float("inf"), float("-inf"), float("nan"), *range(10)]
    given = schema({"x": {"type": "number", "domain": ["0", "10"]}})
    released = protect(pa.table({"x": values}), given, plan(method, promise)).table
    column = released.column("x")
    assert column.null_count == 3
    assert all(0 <= v <= 10 for v in column.drop_null().to_pylist())


def test_a_hundred_thousand_categories() -> None:
    """Cardinality does not matter: labels are looked up once each."""
    labels = [f"c{i}" for i in range(100_000)]
    given = schema({"x": {"type": "category", "values": labels}})
    table = pa.table({"x": labels})
    for method in RANKING:
        released = protect(table, given, plan(method, "paper")).table
        assert set(released.column("x").to_pylist()) <= set(labels)


@pytest.mark.parametrize("method", CLUSTERED)
def test_every_cluster_has_at_least_k(method: str) -> None:
    """Each released value occurs at least k times, per attribute where k differs."""
    table = pa.table({"x": RNG.normal(size=500), "y": RNG.normal(size=500)})
    domain = {"type": "number", "domain": ["-10", "10"]}
    chosen = plan(method, "paper", k=7, k_of={"y": 20}, epsilon=1000.0)
    released = protect(table, schema({"x": domain, "y": domain}), chosen).table
    for name, k in (("x", 7), ("y", 20)):
        counts = released.column(name).value_counts().field("counts").to_pylist()
        assert min(counts) >= k
        assert len(counts) <= 500 // k


@pytest.mark.parametrize(("method", "promise"), IN_ROWS)
def test_roles_decide_what_is_released(method: str, promise: str) -> None:
    """Identifiers go, insensitive attributes and weights stay with their rows, in column order."""
    n = 30
    table = pa.table(
        {
            "id": [f"p{i}" for i in range(n)],
            "x": [float(i) for i in range(n)],
            "w": [float(i) * 2 for i in range(n)],
            "note": [str(i) for i in range(n)],
        }
    )
    given = schema(
        {
            "id": {"role": "identifier"},
            "x": {"type": "number", "domain": ["0", "30"], "role": "sensitive"},
            "w": {"type": "number", "role": "weight"},
            "note": {"type": "text", "role": "insensitive"},
        }
    )
    release = protect(table, given, plan(method, promise))
    assert release.table.column_names == ["x", "w", "note"]
    assert release.table.column("w").to_pylist() == [2.0 * i for i in release.order.tolist()]
    assert release.table.column("note").to_pylist() == [str(i) for i in release.order.tolist()]
    assert sorted(release.order.tolist()) == list(range(n))
    assert release.order.tolist() != list(range(n))
    assert "insensitive-released" in release.manifest["guarantee"]["assumes"]


def test_a_column_called_k_is_like_any_other() -> None:
    """Names of columns and of parameters do not meet."""
    columns = {name: [float(i) for i in range(10)] for name in ("k", "epsilon", "data", "method")}
    given = schema({name: {"type": "number", "domain": ["0", "9"]} for name in columns})
    released = protect(pa.table(columns), given, plan("dp-um", "paper", k_of={"k": 4})).table
    assert released.column_names == list(columns)
    assert len(set(released.column("k").to_pylist())) <= 2


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_the_same_kind_comes_back(kind: str) -> None:
    """pandas, polars or pyarrow in, the same kind out, with the types of the schema."""
    table = pa.table({name: column for name, (column, _) in COLUMNS.items() if name != "decimal"})
    frame: Any = table
    if kind == "pandas":
        frame = table.to_pandas()
    elif kind == "polars":
        pl = pytest.importorskip("polars")
        frame = pl.from_arrow(table)
    given = schema({name: a for name, (_, a) in COLUMNS.items() if name != "decimal"})
    released = protect(frame, given, plan("idp-ls", "centroids")).table
    assert type(released) is type(frame)
    found = released if kind == "pyarrow" else to_arrow(released)
    assert found.column_names == table.column_names
    for name, (_, attribute) in ((n, COLUMNS[n]) for n in table.column_names):
        assert str(found.schema.field(name).type).removeprefix("large_") == str(
            TYPES[attribute["type"]]
        )


@pytest.mark.parametrize(("method", "promise"), VARIANTS)
def test_the_guarantee_is_known_before_the_data(method: str, promise: str) -> None:
    """From plan and schema alone, in words and as data; weaker notions never claim DP."""
    given = schema({"x": {"type": "number", "domain": ["0", "1"]}}, missing="refuse")
    guarantee = plan(method, promise).guarantee(given)
    assert guarantee.notion.is_differential_privacy == (method in ("dp", "dp-um"))
    assert "Promise: " in guarantee.words()
    data = guarantee.as_data()
    assert data["source"]
    if promise == "paper" and method in ("idp-ls", "idp-cbls"):
        assert "fixed-clustering" in data["assumes"]  # type: ignore[operator]
    if promise == "centroids":
        assert "fixed-clustering" not in data["assumes"]  # type: ignore[operator]


def test_a_seed_takes_the_guarantee_away() -> None:
    """Reproducible releases are stamped and promise nothing."""
    given = schema({"x": {"type": "boolean"}})
    table = pa.table({"x": [True, False] * 10})
    first, second = (protect(table, given, plan("dp", "paper")) for _ in range(2))
    assert first.table.equals(second.table)
    assert first.manifest["guarantee"]["notion"] == "no-guarantee"
    assert first.manifest["stamps"] == ["reproducible: carries no guarantee"]


def test_threads_do_not_change_a_seeded_result() -> None:
    """Each attribute has a random stream of its own."""
    domain = {"type": "number", "domain": ["-10", "10"]}
    table = pa.table({f"c{i}": RNG.normal(size=200) for i in range(6)})
    given = schema({f"c{i}": domain for i in range(6)})
    chosen = plan("idp-ls", "paper")
    one, four = (
        sherd.protect(table, given, chosen, settings=Settings(seed=1, threads=n)).table
        for n in (1, 4)
    )
    assert one.equals(four)


def test_kept_order_is_stamped() -> None:
    """With keep_order rows stay where they were, and the release says it is unfit."""
    given = schema({"x": {"type": "number", "domain": ["0", "30"]}})
    table = pa.table({"x": [float(i) for i in range(30)]})
    chosen = plan("idp-cbls", "paper", epsilon=10**6)
    release = sherd.protect(table, given, chosen, settings=Settings(keep_order=True))
    assert release.order.tolist() == list(range(30))
    found = release.table.column("x").to_pylist()
    assert found == sorted(found)
    assert release.manifest["stamps"] == ["order of rows kept: not for publication"]


def test_no_promise_is_chosen_for_the_weaker_methods() -> None:
    """idp-ls and idp-cbls have no default: the message says why."""
    given = schema({"x": {"type": "number", "domain": ["0", "30"]}})
    for method in ("idp-ls", "idp-cbls"):
        with pytest.raises(PlanError, match="does not choose a promise for you"):
            sherd.Plan(method=method, epsilon=1, k=3).check(given)


@pytest.mark.parametrize("method", ["idp-ls", "idp-cbls"])
def test_centroids_never_cost_more_than_epsilon(method: str) -> None:
    """Enlarged scales bring the exact loss of every attribute down to its share."""
    table = pa.table({"x": RNG.integers(0, 50, 300), "y": [7] * 150 + [8] * 150})
    domain = {"type": "integer", "domain": ["0", "100"]}
    given = schema({"x": domain, "y": domain})
    release = protect(table, given, plan(method, "centroids"))
    for finding in release.findings:
        if finding.name == "loss factor":
            assert float(finding.value) <= 1 + 1e-9
        if finding.name == "share without noise":
            assert finding.value == 0
    total = release.findings[0]
    assert total.name == "epsilon with clusters recomputed"
    assert float(total.value) <= 1 + 1e-9


def test_internal_findings_stay_out_of_the_manifest() -> None:
    """Loss factors and shares without noise are computed from raw data: never published."""
    given = schema({"x": {"type": "number", "domain": ["0", "10"]}})
    release = protect(pa.table({"x": [1.0] * 12}), given, plan("idp-cbls", "paper"))
    assert {f.name for f in release.findings} >= {"loss factor", "share without noise"}
    text = repr(release.manifest)
    assert "loss factor" not in text
    assert "share without noise" not in text


BAD: list[tuple[str, dict[str, Any], type[SherdError], str]] = [
    ("epsilon 0", {"epsilon": 0}, PlanError, "epsilon"),
    ("epsilon negative", {"epsilon": -1}, PlanError, "epsilon"),
    ("epsilon nan", {"epsilon": float("nan")}, PlanError, "epsilon"),
    ("epsilon infinite", {"epsilon": float("inf")}, PlanError, "epsilon"),
    ("epsilon text", {"epsilon": "much"}, PlanError, "epsilon"),
    ("k not whole", {"k": 3.5}, PlanError, "'k'"),
    ("k too small", {"k": 2, "method": "idp-cbls"}, PlanError, "'k'"),
    ("unknown method", {"method": "idp-sl"}, PlanError, "did you mean 'idp-ls'"),
    ("unknown parameter", {"epsilonn": 1}, PlanError, "did you mean 'epsilon'"),
    ("no k", {"k": None}, PlanError, "needs the parameter 'k'"),
    ("unknown promise", {"guarantee": "papr"}, PlanError, "did you mean 'paper'"),
    ("weights of nobody", {"weights": {"z": 2}}, PlanError, "not a protected one"),
    ("weight not positive", {"weights": {"x": 0}}, PlanError, "above 0"),
    ("weight not a number", {"weights": {"x": "2"}}, PlanError, "above 0"),
    ("k of nobody", {"k_of": {"z": 2}}, PlanError, "not a protected one"),
    ("k of an attribute too small", {"k_of": {"x": 0.5}}, PlanError, "whole number"),
    ("share of epsilon too small", {"epsilon": 1e-9}, PlanError, "too small a share"),
    ("min_scale negative", {"min_scale": -1}, PlanError, "min_scale"),
    ("factor below 1", {"domain_from_data": 0.5}, PlanError, "domain_from_data"),
    ("weights not a mapping", {"weights": [1]}, PlanError, "a mapping"),
]


@pytest.mark.parametrize(("what", "change", "error", "text"), BAD, ids=[b[0] for b in BAD])
def test_bad_parameters_are_refused(
    what: str, change: dict[str, Any], error: type[SherdError], text: str
) -> None:
    """Every bad parameter gets a message that says what it must be."""
    given = schema({"x": {"type": "number", "domain": ["0", "10"]}})
    parameters = {"method": "idp-ls", "epsilon": 1, "k": 3, "guarantee": "paper", **change}
    with pytest.raises(error, match=text):
        sherd.Plan(**parameters).check(given)


@pytest.mark.parametrize("method", RANKING)
def test_an_undeclared_domain_is_refused_unless_allowed(method: str) -> None:
    """Bounds are never taken from the data silently; allowed, the guarantee names it."""
    given = schema({"x": {"type": "number"}, "c": {"type": "category"}})
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "c": ["a", "b", "a", "a"]})
    with pytest.raises(SchemaError, match="--domain-from-data"):
        plan(method, "paper", category_order="frequency").check(given)
    with pytest.raises(SchemaError, match="--category-order frequency"):
        plan(method, "paper", domain_from_data=2.0).check(given)
    chosen = plan(method, "paper", domain_from_data=2.0, category_order="frequency")
    release = protect(table, given, chosen)
    assumed = release.manifest["guarantee"]["assumes"]
    assert {"bounds-from-data", "order-from-data"} <= set(assumed)
    assert all(0 <= v <= 8 for v in release.table.column("x").to_pylist())


def test_nothing_to_protect_is_refused() -> None:
    """A schema of identifiers and insensitive attributes leaves a method nothing to do."""
    given = schema({"id": {"role": "identifier"}, "y": {"type": "number", "role": "insensitive"}})
    with pytest.raises(SchemaError, match="nothing to protect"):
        plan("dp", "paper").check(given)


def test_text_cannot_be_masked() -> None:
    """Free text is an identifier or a category, never masked as such."""
    with pytest.raises(SchemaError, match="text, which cannot be masked"):
        plan("dp", "paper").check(schema({"x": {"type": "text"}}))


def test_a_column_of_another_type_is_refused_without_its_values() -> None:
    """A type that does not fit is named, its cells are not."""
    given = schema({"x": {"type": "number", "domain": ["0", "9"]}})
    with pytest.raises(TableError, match="cannot be read as number") as caught:
        protect(pa.table({"x": ["marker-1", "marker-2", "3"]}), given, plan("dp", "paper"))
    assert "marker" not in str(caught.value)
