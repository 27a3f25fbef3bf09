"""A newcomer's files: wrong, broken, empty, of one row; every page says what is the matter."""

from __future__ import annotations

import gzip
import html
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from studio_process import Visitor, entered

import sherd
from sherd.studio.steward import Steward

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = ("open", "schema", "schema.yaml", "promise", "promise?method=dp-um", "promise?method=none",
         "explore", "release", "release/0123456789abcdef", "explore/0123456789abcdef/audit.html",
         "release/0123456789abcdef/plan.yaml")  # fmt: skip
FORMS: dict[str, dict[str, str]] = {
    "fix": {"place": "9"},
    "schema": {"attribute": "none"},
    "schema/confirm": {},
    "schema/population": {"population": "people"},
    "promise": {"method": "dp-um", "epsilon": "1", "k": "5"},
    "promise/words": {"method": "none"},
    "explore/map": {"epsilons": "x"},
    "explore/candidate": {},
    "explore/compare": {},
    "explore/take": {"job": "none"},
    "release": {"once": "none"},
}


@pytest.fixture(scope="module", name="steward")
def _steward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steward]:
    made = Steward(tmp_path_factory.mktemp("wrong") / "w", ledger=None)
    yield made
    made.jobs.close()


@pytest.fixture(scope="module", name="visitor")
def _visitor(steward: Steward) -> Iterator[Visitor]:
    with entered(steward.app(), steward.most) as made:
        yield made


def opened(steward: Steward, visitor: Visitor, path: Path) -> str:
    """Open a table and wait until it is read, or could not be; its path in the studio."""
    answer = visitor.post("/open", {"source": str(path)})
    assert answer.status_code == 200, answer.text
    there = str(answer.url).split(visitor.root)[1].removesuffix("/open")
    (job,) = steward.jobs.of(there.removeprefix("/p/"), "profile")
    steward.jobs.wait(job.id, 60)
    return there


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty.csv", b"", "The file is empty"),
        ("noise.csv", b"\x00\x93" * 2000, "must be UTF-8 text"),
        ("latin.csv", "name\nM\u00fcller\n".encode("latin-1"), "not UTF-8 text"),
        (
            "cut.csv.gz",
            gzip.compress(b"a,b\n" + b"1,2\n" * 9999, mtime=0)[:60],
            "damaged or cut short",
        ),
        ("plain.csv.gz", b"a,b\n1,2\n", "damaged or cut short"),
        ("fake.parquet", b"a,b\n1,2\n", "is not Parquet"),
        ("letter.docx", b"PK", "format is unknown"),
    ],
)
def test_refused_when_opened(
    visitor: Visitor, tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    """What is no table is refused at once, in words; nothing is kept of it."""
    (tmp_path / name).write_bytes(data)
    answer = visitor.post("/open", {"source": str(tmp_path / name)})
    assert answer.status_code == 400
    assert words in html.unescape(answer.text)
    assert "bug in sherd" not in answer.text
    assert name not in visitor.get("/").text.split("Opened before")[-1]


def test_nothing_there(visitor: Visitor, tmp_path: Path) -> None:
    """A path that leads nowhere, to a folder, to no bundled table or to no query says so."""
    for source, words in (
        (str(tmp_path / "none.csv"), "The file does not exist"),
        (str(tmp_path), "This is a folder"),
        (":none", "There is no such table"),
        ("postgresql://u:sesame@localhost:1/x", "needs one query"),
    ):
        answer = visitor.post("/open", {"source": source})
        assert answer.status_code == 400
        assert words in html.unescape(answer.text)
        assert "sesame" not in answer.text


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("header.csv", b"a,b,c\n", "The table has no rows"),
        ("ragged.csv", b"a,b\n1,2\n3\n", "Row 2 of the file has 1 cell"),
        ("twice.csv", b"a,a\n1,2\n", "used 2 times"),
        ("nameless.csv", b",b\n1,2\n", "Column 1 has no name"),
    ],
)
def test_found_while_reading(
    steward: Steward, visitor: Visitor, tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    """What only reading shows is told on the first page; no other page breaks or goes on."""
    (tmp_path / name).write_bytes(data)
    there = opened(steward, visitor, tmp_path / name)
    text = html.unescape(visitor.get(f"{there}/open").text)
    assert words in text
    assert "go through the schema" not in text
    unbroken(visitor, there)


def unbroken(visitor: Visitor, there: str) -> None:
    """No page and no form of a project ends in an error of ours."""
    for page in PAGES:
        answer = visitor.get(f"{there}/{page}")
        assert answer.status_code < 500, (page, answer.text)
        assert "bug in sherd" not in answer.text
    for page, form in FORMS.items():
        answer = visitor.post(f"{there}/{page}", form)
        assert answer.status_code < 500, (page, answer.text)
        assert "bug in sherd" not in answer.text


def test_columns_that_nothing_can_be_said_about(
    steward: Steward, visitor: Visitor, tmp_path: Path
) -> None:
    """Empty columns, lists and structures are named as problems with a way out."""
    table = pa.table({"void": pa.nulls(9), "list": [[1]] * 9, "some": list(range(9))})
    pq.write_table(table, tmp_path / "odd.parquet")
    there = opened(steward, visitor, tmp_path / "odd.parquet")
    text = visitor.get(f"{there}/open").text
    assert "Every cell is missing" in text
    assert "lists or structures" in text
    unbroken(visitor, there)


def test_a_table_of_one_row(steward: Steward, visitor: Visitor, tmp_path: Path) -> None:
    """Every page works; the method says why one person cannot be hidden in a crowd."""
    (tmp_path / "one.csv").write_text("age,sex\n30,m\n")
    there = opened(steward, visitor, tmp_path / "one.csv")
    unbroken(visitor, there)
    known = {
        "type": "integer",
        "role": "quasi-identifier",
        "known": "yes",
        "low": "0",
        "high": "99",
    }
    visitor.post(f"{there}/schema", {"attribute": "age", **known})
    text = {"type": "category", "role": "sensitive", "known": "yes", "values": "f\nm"}
    visitor.post(f"{there}/schema", {"attribute": "sex", **text})
    visitor.post(f"{there}/promise", {"method": "dp-um", "epsilon": "1", "k": "5"})
    page = visitor.get(f"{there}/release").text
    once = re.search(r'name="once" value="(\w+)"', page)
    assert once is not None
    form = {"once": once[1], "output": str(tmp_path / "out")}
    visitor.post(f"{there}/release", form)
    job = steward.jobs.wait(once[1], 60)
    assert job.state == "failed"
    assert job.problem is not None
    assert "bug" not in job.problem["what"]
    assert not (tmp_path / "out").exists()


def test_schema_of_another_table_is_refused(
    steward: Steward, visitor: Visitor, tmp_path: Path
) -> None:
    """A schema whose attributes are not in the table is not taken for the table's own."""
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 5)
    there = opened(steward, visitor, tmp_path / "t.csv")
    other = sherd.datasets.path("adult").with_suffix(".yaml")
    answer = visitor.post(f"{there}/schema/file", {"path": str(other), "do": "open"})
    assert answer.status_code == 400
    assert "attributes that the table does not have" in html.unescape(answer.text)
    assert f'href="{visitor.root}{there}/schema"' in answer.text, "and leads back to the step"
    assert "decisions still open" in visitor.get(f"{there}/schema").text


def test_any_earlier_candidate_comes_back(
    steward: Steward, visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every candidate that was tried can be taken again, whatever was chosen since."""
    rows = np.random.default_rng(0).integers(0, 100, 50)
    (tmp_path / "t.csv").write_text("a\n" + "\n".join(map(str, rows)) + "\n")
    there = opened(steward, visitor, tmp_path / "t.csv")
    bounds = {
        "type": "integer",
        "role": "quasi-identifier",
        "known": "yes",
        "low": "0",
        "high": "99",
    }
    visitor.post(f"{there}/schema", {"attribute": "a", **bounds})
    started: list[str] = []
    start = steward.jobs.start

    def noting(**given: Any) -> Any:
        started.append(given["id"])
        return start(**given)

    monkeypatch.setattr(steward.jobs, "start", noting)
    plans = [{"method": "dp-um", "epsilon": "1", "k": "5"}, {"method": "dp", "epsilon": "2"},
             {"method": "idp", "epsilon": "3"}]  # fmt: skip
    for plan in plans:
        visitor.post(f"{there}/promise", plan)
        visitor.post(f"{there}/explore/candidate", {"table": "made-up"})
    for plan, job in list(zip(plans, started, strict=True))[::-1]:
        visitor.post(f"{there}/explore/take", {"job": job})
        kept = visitor.get(f"{there}/explore").text
        shown = re.search(r'<p class="code big">([^<]+)</p>', kept)
        assert shown is not None
        assert shown[1].startswith(f"{plan['method']}, ")
        assert f"epsilon {float(plan['epsilon'])}" in shown[1]
