# ruff: noqa: E741 - l is the field's own name for it
"""Ten releases of one changing table tell nobody more than one does.

The attacker here shares no code with the method: it is handed the released tables only, knows
everybody's quasi-identifiers and who was in the table when, and takes values as constant.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd import datasets
from sherd.budget.ledger import Ledger
from sherd.errors import FormatError, InfeasibleError, PlanError, UsageError
from sherd.methods.slicing.signature_record import SignatureRecord, follow
from sherd.randomness import Randomness
from sherd.release.bundle import MANIFEST, digest
from sherd.release.method import Lineage, Run
from sherd.release.preceding import Keys
from sherd.release.protect import protect_to
from sherd.verifying import verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "who": {"type": "integer", "role": "identifier"},
            "age": {"type": "integer"},
            "ill": {"type": "category", "role": "sensitive"},
        }
    }
)
Tables = dict[str, pa.Table]


METHODS = ("anatomy", "slice", "mondrian")
MORE: dict[str, dict[str, Any]] = {"mondrian": {"k": 3, "boxes": "tight"}}


def plan(l: int, method: str = "anatomy", **more: Any) -> sherd.Plan:
    """A plan of a method that keeps signatures."""
    return sherd.Plan(method=method, l=l, **MORE.get(method, {}), **more)


def candidates(release: Tables, name: str, person: str) -> dict[int, Counter[str]]:
    """What the bucket of every person lists."""
    listed: dict[int, Counter[str]] = {}
    for row in release["sensitive"].to_pylist():
        listed.setdefault(row["bucket"], Counter())[row[name]] += row["count"]
    return {row[person]: listed[row["bucket"]] for row in release["quasi-identifiers"].to_pylist()}


def history(
    rng: np.random.Generator,
    people: dict[int, str],
    releases: int,
    share: float,
    method: Any,
    *,
    change: bool = False,
    first: float = 0.5,
) -> list[Tables]:
    """Releases of a table of which a share is deleted, added and, if asked, changed each time.

    The first is of so large a part of the people; the others come later.
    """
    everybody = list(people.items())
    cut = int(first * len(everybody))
    now, later = dict(everybody[:cut]), everybody[cut:]
    record: SignatureRecord | None = None
    found = []
    for number in range(releases):
        if number:
            many = max(1, int(share * len(now)))
            for who in rng.permutation(list(now))[:many].tolist():
                del now[who]
            for _ in range(min(many, len(later))):
                who, ill = later.pop()
                now[who] = ill
            changed = rng.permutation(list(now))[: many if change else 0].tolist()
            values = list(now.values())
            for who, at in zip(changed, rng.integers(len(values), size=len(changed)), strict=True):
                now[who] = values[at]
        table = pa.table({"person": list(now), "ill": list(now.values())})
        tables, record = method(table, record, number)
        found.append(tables)
    return found


SHOWN = sherd.Schema.from_data(
    {
        "attributes": {
            "person": {"type": "integer"},
            "ill": {"type": "category", "role": "sensitive"},
        }
    }
)


def kept(l: int, seed: int, method: str = "anatomy") -> Any:
    """The method with its record."""

    def made(
        table: pa.Table, record: SignatureRecord | None, number: int
    ) -> tuple[Tables, SignatureRecord]:
        after = {} if record is None else {"after": {"release": record.release}}
        run = Run(randomness=Randomness.seeded(seed + number))
        keys = Keys(attribute="person", values=tuple(map(str, table["person"].to_pylist())))
        chosen = plan(l, method, most_suppressed=1, suppress=True, **after)
        with pytest.MonkeyPatch.context() as patch:
            classes = told_classes(patch, table)
            outcome, new = chosen.spec.run_keeping_record(  # type: ignore[attr-defined]
                table, SHOWN, chosen, run, Lineage(keys=keys, past=record)
            )
        tables = dict(outcome.tables)
        return as_buckets(tables, classes), new.belonging_to(f"{number}")

    return made


def told_classes(patch: pytest.MonkeyPatch, table: pa.Table) -> list[Any]:
    """Where ``mondrian`` puts everybody: the attacker is told, ranges overlap."""
    from sherd.methods.slicing import mondrian

    found: list[Any] = []
    inner = mondrian._around

    def told(coded: Any, classes: Any, group: Any, **more: Any) -> Any:
        people = table["person"].to_pylist()
        cells = inner(coded, classes, group, **more)
        where = {people[row]: at for at, rows in enumerate(classes) for row in rows}
        found.extend([where, coded[0], cells])
        return cells

    patch.setattr(mondrian, "_around", told)
    return found


def as_buckets(tables: Tables, classes: list[Any]) -> Tables:
    """A release as who is in which bucket, and which values a bucket lists."""
    if "data" not in tables:
        return tables
    data = tables["data"]
    if "bucket" in data.column_names:
        here = data.filter(data["person"].is_valid()).select(["bucket", "person"])
        listed = data.group_by(["bucket", "ill"]).aggregate([([], "count_all")])
    else:
        where, coded, cells = classes
        ends = zip(cells.low[:, 0].tolist(), cells.high[:, 0].tolist(), strict=True)
        labels = {coded.label(*both, tight=True): at for at, both in enumerate(ends)}
        assert len(labels) == cells.count
        here = pa.table({"person": list(where), "bucket": list(where.values())})
        shown = [labels[label] for label in data["person"].to_pylist()]
        large = pa.table({"bucket": shown, "ill": data["ill"]})
        listed = large.group_by(["bucket", "ill"]).aggregate([([], "count_all")])
    return {
        "quasi-identifiers": here,
        "sensitive": listed.rename_columns(["bucket", "ill", "count"]),
    }


def apart(l: int, seed: int) -> Any:
    """The same without a record: every release by itself."""

    def made(table: pa.Table, _record: Any, number: int) -> tuple[Tables, None]:
        run = Run(randomness=Randomness.seeded(seed + number))
        chosen = plan(l, most_suppressed=1, suppress=True)
        return dict(chosen.spec.run(table, SHOWN, chosen, run).tables), None

    return made


def posteriors(releases: list[Tables]) -> dict[int, float]:
    """The largest share of one value for every person, over all worlds that fit all releases."""
    lists = [candidates(release, "ill", "person") for release in releases]
    people = sorted({who for release in lists for who in release})
    buckets = [
        {r["person"]: r["bucket"] for r in release["quasi-identifiers"].to_pylist()}
        for release in releases
    ]
    counts: dict[int, Counter[str]] = {who: Counter() for who in people}
    world: dict[int, str] = {}
    used: list[Counter[tuple[int, str]]] = [Counter() for _ in releases]

    def worlds(at: int) -> None:
        if at == len(people):
            for who, value in world.items():
                counts[who][value] += 1
            return
        who = people[at]
        seen = [t for t in range(len(releases)) if who in buckets[t]]
        for value in set.intersection(*(set(lists[t][who]) for t in seen)):
            if all(used[t][buckets[t][who], value] < lists[t][who][value] for t in seen):
                for t in seen:
                    used[t][buckets[t][who], value] += 1
                world[who] = value
                worlds(at + 1)
                for t in seen:
                    used[t][buckets[t][who], value] -= 1

    worlds(0)
    return {who: max(c.values()) / c.total() for who, c in counts.items()}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(12))
def test_over_all_worlds_nobody_is_told_more_than_one_in_l(seed: int, method: str) -> None:
    """Every assignment of values that fits three releases is enumerated."""
    rng = np.random.default_rng(seed)
    people = {who: rng.choice(list("abcd")).item() for who in range(14)}
    try:
        releases = history(rng, people, 3, 0.3, kept(2, seed, method))
    except InfeasibleError:
        pytest.skip("no bucket could be made")
    if not any(release["quasi-identifiers"].num_rows for release in releases):
        pytest.skip("nobody was released")
    assert max(posteriors(releases).values()) <= 0.5 + 1e-9


def test_without_the_record_all_worlds_tell_more() -> None:
    """The same enumeration finds people whose value is known where releases stand apart."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        people = {who: "abcd"[who % 4] for who in range(16)}
        found.append(max(posteriors(history(rng, people, 3, 0.2, apart(2, seed))).values()))
    assert max(found) == 1.0


def _ten(people: dict[int, str], l: int, method: str = "anatomy") -> list[float]:
    """The shares that one value can have for everybody, after ten releases.

    A bucket lists each of its values equally often, so that none is likelier than another; what
    is in all of a person's lists is left.
    """
    rng = np.random.default_rng(1)
    first = 1 / (1 + 9 * 0.05)  # everybody has come by the end
    releases = history(rng, people, 10, 0.05, kept(l, 1, method), change=True, first=first)
    left: dict[int, set[str]] = {}
    for release in releases:
        for who, listed in candidates(release, "ill", "person").items():
            assert len(set(listed.values())) == 1
            assert method == "mondrian" or set(listed.values()) == {1}
            left[who] = left.get(who, set(listed)) & set(listed)
    # nearly everybody is in the last release
    assert releases[-1]["quasi-identifiers"].num_rows > 0.9 * first * len(people)
    return [1 / len(values) if values else 1.0 for values in left.values()]


def _people(values: list[str]) -> dict[int, str]:
    order = np.random.default_rng(0).permutation(len(values)).tolist()
    return {who: values[at] for who, at in enumerate(order)}


@pytest.mark.parametrize("method", METHODS)
def test_ten_releases_of_adult_leave_l_values_for_everybody(method: str) -> None:
    """Inserting, deleting and changing 5 % each time: for nobody are fewer than l values left."""
    values = datasets.load("adult", complete=True)["occupation"].to_pylist()[:3000]
    assert max(_ten(_people([str(v) for v in values]), 5, method)) <= 1 / 5


def test_three_releases_apart_give_people_away() -> None:
    """The same attacker, where no record is kept."""
    values = datasets.load("adult", complete=True)["occupation"].to_pylist()[:8000]
    rng = np.random.default_rng(1)
    releases = history(rng, _people([str(v) for v in values]), 3, 0.05, apart(5, 1))
    left: dict[int, set[str]] = {}
    for release in releases:
        for who, listed in candidates(release, "ill", "person").items():
            left[who] = left.get(who, set(listed)) & set(listed)
    assert sum(len(values) == 1 for values in left.values()) > 50


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("method", METHODS)
def test_ten_releases_of_all_of_adult_and_of_acs(data_dir: Path, method: str) -> None:
    """The same over whole tables."""
    values = datasets.load("adult", complete=True)["occupation"].to_pylist()
    assert max(_ten(_people([str(v) for v in values]), 5, method)) <= 1 / 5
    import pandas as pd

    frame = pd.read_csv(data_dir / "acs2018_gov.csv.gz", usecols=["occupation"])
    counts = frame.occupation.value_counts()
    l = min(5, int(len(frame) // counts.iloc[0]))
    assert l >= 2
    assert max(_ten(_people([str(v) for v in frame.occupation]), l, method)) <= 1 / l


def test_a_changed_value_outside_the_signature_is_not_shown() -> None:
    """The record keeps its bucket's list; inside the list, a change is taken over unseen."""
    run = kept(2, 3)
    table = pa.table({"person": list(range(8)), "ill": list("abcdabcd")})
    first, record = run(table, None, 0)
    lists = candidates(first, "ill", "person")
    other = next(v for v in "abcd" if v not in lists[0])
    changed = [other, *"bcdabcd"]
    second, record = run(pa.table({"person": list(range(8)), "ill": changed}), record, 1)
    again = candidates(second, "ill", "person")
    assert {who: set(c) for who, c in again.items()} == {who: set(c) for who, c in lists.items()}
    assert record.members["0"][1] == "+a"
    gone = pa.table({"person": list(range(1, 8)), "ill": list("bcdabcd")})
    third, record = run(gone, record, 2)
    assert 0 not in candidates(third, "ill", "person")
    back, _ = run(table, record, 3)
    assert set(candidates(back, "ill", "person")[0]) == set(lists[0])


@pytest.mark.parametrize("method", METHODS)
def test_releases_in_a_row_are_written_followed_and_verified(tmp_path: Path, method: str) -> None:
    """By the same door as any release; the promise names what it follows."""
    rows = 60
    table = pa.table(
        {"who": list(range(rows)), "age": [20 + i % 40 for i in range(rows)],
         "ill": [f"i{i % 6}" for i in range(rows)]}
    )  # fmt: skip
    first = sherd.protect(table, SCHEMA, plan(3, method), settings=sherd.Settings(key="who"))
    first.save(tmp_path / "first")
    assert all(c.passed is not False for c in verify(tmp_path / "first").checks)
    assert isinstance(first.record, SignatureRecord)
    record = first.record.belonging_to(digest(tmp_path / "first" / MANIFEST))
    record.save(tmp_path / "first.json")
    again = SignatureRecord.load(tmp_path / "first.json")
    assert again == record
    next_plan = follow(tmp_path / "first", again, SCHEMA)
    second = sherd.protect(
        table.slice(5), SCHEMA, next_plan, settings=sherd.Settings(key="who", past=again)
    )
    second.save(tmp_path / "second")
    assert all(c.passed is not False for c in verify(tmp_path / "second").checks)
    told = second.manifest["guarantee"]
    assert record.release in told["covers"]
    assert "only-earlier-releases" in str(told["assumes"])
    listed = second.tables["sensitive" if method == "anatomy" else "data"]
    assert rows - 5 <= listed.num_rows <= rows
    if method == "anatomy":
        assert second.tables["quasi-identifiers"].num_rows == rows - 5
    else:
        assert second.manifest["facts"]["empty"] == listed.num_rows - (rows - 5)
    if method == "slice":
        assert listed["age"].null_count == second.manifest["facts"]["empty"]
    with pytest.raises(PlanError, match="record"):
        sherd.protect(table, SCHEMA, next_plan)
    other = SignatureRecord.load(tmp_path / "first.json").belonging_to("0" * 64)
    with pytest.raises(UsageError, match="another release"):
        sherd.protect(table, SCHEMA, next_plan, settings=sherd.Settings(key="who", past=other))
    with pytest.raises(UsageError, match="not that of the old release"):
        follow(tmp_path / "first", other, SCHEMA)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(FormatError, match="not the record"):
        SignatureRecord.load(tmp_path / "bad.json")


def test_of_two_runs_at_once_one_sees_the_other(tmp_path: Path) -> None:
    """A run that begins while another reads its table is refused, and holds nothing afterwards."""
    table = pa.table({"who": range(60), "age": range(60), "ill": [f"i{i % 6}" for i in range(60)]})
    ledger = Ledger(tmp_path / "ledger")

    def run(name: str, read: Callable[[], pa.Table]) -> None:
        protect_to(
            tmp_path / name, read, SCHEMA, plan(3, "anatomy"),
            ledger=ledger, population="people", settings=sherd.Settings(),
        )  # fmt: skip

    def reading() -> pa.Table:
        with pytest.raises(UsageError, match="under way"):
            run("second", lambda: table)
        return table

    run("first", reading)
    assert not (tmp_path / "second").exists()
    assert [one.kind for one in ledger.entries("people")] == ["charge"]
    assert ledger.reservations() == []


@pytest.mark.parametrize("method", METHODS)
def test_two_releases_do_not_follow_the_same(tmp_path: Path, method: str) -> None:
    """People new to both would have two signatures: the second is refused, in files or memory."""
    rng = np.random.default_rng(4)
    values = [f"i{i % 6}" for i in rng.permutation(90)]
    whole = pa.table({"who": range(90), "age": rng.integers(20, 22, 90), "ill": values})
    ledger = Ledger(tmp_path / "ledger")
    past: SignatureRecord | None = None

    def made(name: str, table: pa.Table, **more: Any) -> SignatureRecord:
        chosen = plan(3, method) if past is None else follow(tmp_path / "first", past, SCHEMA)
        settings = sherd.Settings(key="who", past=past, **more)
        release = protect_to(
            tmp_path / name, lambda: table, SCHEMA, chosen,
            ledger=ledger, population="people", settings=settings,
        )  # fmt: skip
        assert isinstance(release.record, SignatureRecord)
        return release.record

    past = made("first", whole.slice(0, 60))
    one = made("second", whole)
    with pytest.raises(UsageError, match="not the last"):
        made("third", whole)
    assert not (tmp_path / "third").exists()
    with pytest.raises(UsageError, match="not the last"):
        sherd.protect(
            whole, SCHEMA, follow(tmp_path / "first", past, SCHEMA), ledger=ledger,
            population="people", settings=sherd.Settings(key="who", past=past),
        )  # fmt: skip
    two = made("fourth", whole, again=True)

    def signature(record: SignatureRecord, who: int) -> set[str]:
        return set(record.signatures[record.members[str(who)][0]])

    assert all(signature(one, who) == signature(two, who) for who in range(60))
    # what was refused: people who came since are in two lists that differ; with ages this alike
    # chance decides who is with whom (25 of 30 differ on average, standard deviation 2.5)
    assert any(len(signature(one, who) & signature(two, who)) < 3 for who in range(60, 90))


def test_a_plan_that_was_charged_in_memory_is_not_followed_twice(tmp_path: Path) -> None:
    """The ledger knows no file of such a release; it knows the plan."""
    table = pa.table(
        {
            "who": range(60),
            "age": [20 + i % 40 for i in range(60)],
            "ill": [f"i{i % 6}" for i in range(60)],
        }
    )
    book: dict[str, Any] = {"ledger": Ledger(tmp_path / "ledger"), "population": "people"}
    first = sherd.protect(table, SCHEMA, plan(3), settings=sherd.Settings(key="who"), **book)
    first.save(tmp_path / "first")
    assert isinstance(first.record, SignatureRecord)
    record = first.record.belonging_to(digest(tmp_path / "first" / MANIFEST))
    chosen = follow(tmp_path / "first", record, SCHEMA)
    settings = sherd.Settings(key="who", past=record)
    sherd.protect(table, SCHEMA, chosen, settings=settings, **book)
    with pytest.raises(UsageError, match="not the last"):
        sherd.protect(table, SCHEMA, chosen, settings=settings, **book)


def test_what_a_record_is_not_kept_of() -> None:
    """Several sensitive attributes, or measured ones, are refused."""
    schema = sherd.Schema.from_data(
        {"attributes": {"who": {"type": "integer", "role": "identifier"},
                        "age": {"type": "integer"},
                        "pay": {"type": "integer", "role": "sensitive", "domain": [0, 9]}}}
    )  # fmt: skip
    table = pa.table({"who": range(10), "age": range(10), "pay": range(10)})
    with pytest.raises(PlanError, match="with labels only"):
        sherd.protect(table, schema, plan(2, bins={"pay": 5}), settings=sherd.Settings(key="who"))


def test_signatures_differ_only_by_their_values() -> None:
    """Buckets of one list share a signature, so that they fill each other's empty places."""
    table = pa.table({"person": list(range(8)), "ill": list("abababab")})
    _, record = kept(2, 1)(table, None, 0)
    assert record.signatures == (("+a", "+b"),)
    left = pa.table({"person": [0, 3], "ill": ["a", "b"]})
    tables, _ = kept(2, 1)(left, record, 1)
    assert tables["sensitive"].num_rows == 2
    assert len(list(itertools.chain(tables["quasi-identifiers"]["bucket"]))) == 2


@pytest.mark.parametrize(
    "more", [{"alpha": 2}, {"min_frequency": 3}, {"scope": "records"}, {"conditions": {"size": 4}}]
)
def test_a_record_of_slices_is_kept_of_plain_buckets_only(more: dict[str, Any]) -> None:
    """Nothing beside the sensitive value, no generalised columns, every bucket by itself."""
    table = pa.table({"who": range(40), "age": range(40), "town": ["a", "b"] * 20,
                      "ill": [f"i{i % 5}" for i in range(40)]})  # fmt: skip
    town = {"town": {"type": "category"}}
    schema = sherd.Schema.from_data({"attributes": {**SCHEMA.as_data()["attributes"], **town}})
    with pytest.raises(PlanError, match="a record is kept"):
        sherd.protect(table, schema, plan(2, "slice", **more), settings=sherd.Settings(key="who"))


def test_classes_of_kept_signatures_list_k_values_equally_often() -> None:
    """With fewer different values than k, each is listed several times, in every release."""
    run = kept(2, 5, "mondrian")
    people = list(range(60))
    tables, record = run(pa.table({"person": people, "ill": list("ab") * 30}), None, 0)
    assert set(record.signatures) == {("+a", "+b")}
    fewer = pa.table({"person": people[::3], "ill": list("ab") * 10})
    for release in (tables, run(fewer, record, 1)[0]):
        listed = release["sensitive"].to_pylist()
        assert {row["count"] for row in listed} == {2}
        assert len(listed) == 2 * len({row["bucket"] for row in listed})
