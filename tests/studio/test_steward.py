"""The steward's five steps by their forms: what they show, what they make, what they refuse."""

from __future__ import annotations

import hashlib
import html
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from studio_process import StudioProcess, Visitor, data_hashes, run_shown, start_studio

import sherd
from sherd.budget.ledger import Ledger
from sherd.release.method import Describing, find, names
from sherd.release.plan import suggested

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


TABLE = """id,zip,age,sex,income,notes
{rows}"""


@pytest.fixture(scope="module", name="place")
def _place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studio")
    rows = [
        f"{i + 1},{2139 if i % 9 == 0 else 10001 + i % 50},{20 + i % 60},"
        f"{'mf'[i % 2]},{1000 + 37 * (i % 70)},{'unknown' if i == 5 else i * 0.5}"
        for i in range(300)
    ]
    (folder / "people.csv").write_text(TABLE.format(rows="\n".join(rows)) + "\n")
    return folder


@pytest.fixture(scope="module", name="studio")
def _studio(place: Path) -> Iterator[StudioProcess]:
    made = start_studio(place / "w", str(place / "people.csv"), ledger=str(place / "ledger.db"))
    yield made
    made.stop()


@pytest.fixture(scope="module", name="visitor")
def _visitor(studio: StudioProcess) -> Visitor:
    return studio.enter()


def newest(visitor: Visitor) -> str:
    """The path of the project opened last."""
    found = re.search(r'href="/\w+(/p/\w+)/open"', visitor.get("/").text.split("Opened before")[1])
    assert found is not None
    return found[1]


@pytest.fixture(scope="module", name="project")
def _project(visitor: Visitor) -> str:
    path = newest(visitor)
    visitor.until(f"{path}/open", "Attributes as they were read")
    return path


def answer(visitor: Visitor, path: str, attribute: str, **fields: str) -> str:
    """Confirm one attribute; the schema's page."""
    made = visitor.post(f"{path}/schema", {"attribute": attribute, **fields})
    return made.text


def open_decisions(text: str) -> int:
    """The number at the top of the schema's page."""
    found = re.search(r"(\d+) decisions? still open", text)
    return int(found[1]) if found else 0


def test_problems_come_with_a_fix(visitor: Visitor, project: str) -> None:
    """A postcode without its zeros, numbers and a text, a counter: each with a click."""
    text = html.unescape(visitor.get(f"{project}/open").text)
    assert "300</b> rows" in text
    assert re.search(r"<b>zip</b>: This looks like a code .* lost its leading zeros", text)
    assert re.search(r"<b>notes</b>: Mixed types: numbers, but for 1 other texts", text)
    assert re.search(r"<b>id</b>: It counts the rows", text)
    places = re.findall(r'name="place" value="(\d+)"><button class="quiet">([^<]+)', text)
    fixes = {words: place for place, words in places}
    after = visitor.post(
        f"{project}/fix", {"place": fixes["Treat it as a label, not a number"]}
    ).text
    assert "lost its leading zeros" not in after
    schema = visitor.get(f"{project}/schema.yaml").text
    assert re.search(r"zip:\n    type: category", schema)
    assert visitor.post(f"{project}/fix", {"place": "99"}).status_code == 400


def test_schema_keeps_comments_and_counts_what_is_open(visitor: Visitor, project: str) -> None:
    """Every answer lowers the count; the file is the command line's, its comments kept."""
    before = open_decisions(visitor.get(f"{project}/schema").text)
    assert before > 6
    text = answer(visitor, project, "age", type="integer", role="quasi-identifier",
                  low="0", high="120", known="yes")  # fmt: skip
    assert open_decisions(text) == before - 2
    kept = visitor.get(f"{project}/schema.yaml").text
    assert "# A draft of people.csv, guessed from the data." in kept
    assert "domain: [0, 120]" in kept


def test_bounds_from_the_data_are_not_taken(visitor: Visitor, project: str) -> None:
    """Without the answer that they are known without the data, bounds are refused."""
    refused = visitor.post(
        f"{project}/schema", {"attribute": "income", "type": "integer", "low": "0", "high": "9000"}
    )
    assert refused.status_code == 400
    assert "not known without the data" in refused.text
    half = visitor.post(
        f"{project}/schema", {"attribute": "income", "low": "0", "high": "", "known": "yes"}
    )
    assert "only one end" in half.text


def test_existing_schema_is_kept_with_its_comments(
    visitor: Visitor, project: str, place: Path
) -> None:
    """A schema that is there replaces the draft, words and all."""
    own = place / "own.yaml"
    own.write_text(
        "# agreed with the registry\nattributes:\n  id: {role: identifier}\n"
        "  zip: {role: identifier}\n"
        "  age: {type: integer, domain: [0, 120]}  # years\n"
        "  sex: {type: category, values: [f, m]}\n"
        "  income: {type: integer, domain: [0, 9000], role: sensitive}\n"
        "  notes: {role: identifier}\npopulation: test people\n"
    )
    text = visitor.post(f"{project}/schema/file", {"path": str(own), "do": "open"}).text
    assert "Everything is decided" in text
    answer(visitor, project, "sex", type="category", role="quasi-identifier",
           values="m\nf", known="yes")  # fmt: skip
    kept = visitor.get(f"{project}/schema.yaml").text
    assert kept.startswith("# agreed with the registry\n")
    assert "# years" in kept
    assert "values: [m, f]" in kept
    taken = visitor.post(f"{project}/schema/file", {"path": str(own), "do": "save"})
    assert taken.status_code == 400
    assert own.read_text().count("[f, m]") == 1


def test_cards_say_what_methods_declare(visitor: Visitor, project: str) -> None:
    """One card a method: its own words for what it does not protect, and why it does not fit."""
    text = html.unescape(visitor.get(f"{project}/promise").text)
    for name in names():
        method = find(name)
        assert method.title in text
        assert method.summary.replace("`", "") in text
        if isinstance(method, Describing):
            for described in method.describe():
                assert all(words in text for words in described.not_covered)
    assert text.count("<b>Does not protect:</b>") == len(names()), "every card says what not"
    assert "Needs your choice: the method 'fragment' needs the parameter" in text
    asked = "Needs your choice: the sensitive attribute 'income' is measured and has no bins"
    assert asked in text, "what a parameter can settle is no reason that the method does not fit"
    assert "Does not fit: several parties compute it together" in text
    kinds = ("Differential privacy", "Individual differential privacy", "Promises about groups")
    order = [text.index(f"<b>{kind}</b>") for kind in kinds]
    assert order == sorted(order)


def test_the_page_says_what_to_begin_with(visitor: Visitor, project: str, place: Path) -> None:
    """The same advice as the command's, and its settings filled in."""
    schema = sherd.Schema.load(place / "own.yaml")
    (method, advice), *others = suggested(schema, 300)
    text = html.unescape(visitor.get(f"{project}/promise").text)
    link = rf'href="{visitor.root}({project}/promise\?method={method.name}&suggested=yes)"'
    there = re.search(link, text)
    assert there is not None
    assert f"{method.name}</a>: {advice.gives}." in text
    assert others[0][1].gives in text
    form = visitor.get(there[1]).text
    assert advice.settings == {"epsilon": 1.0, "delta": 1e-9}
    assert re.search(r'name="delta"[^>]*value="1e-09"', form)


def test_words_follow_the_parameters(visitor: Visitor, project: str, place: Path) -> None:
    """The promise and the budget are renewed at every change; what is wrong is said in place."""
    Ledger(place / "ledger.db").set_limit("test people", sherd.Amount("3"))
    form = {"method": "dp-um", "epsilon": "0.5", "k": "10"}
    hx = {"HX-Request": "true"}
    text = html.unescape(visitor.post(f"{project}/promise/words", form, headers=hx).text)
    schema = sherd.Schema.load(place / "own.yaml")
    plan = sherd.Plan(method="dp-um", epsilon=0.5, k=10)
    for line in plan.guarantee(schema).words().splitlines():
        assert line.partition(": ")[2][1:] in text
    assert "at most 30 groups among 300 rows" in text
    assert "ε 0.5" in text
    assert "<dd>2.5</dd>" in text, "what is left afterwards"
    other = visitor.post(f"{project}/promise/words", {**form, "epsilon": "2"}, headers=hx).text
    assert "ε = 2" in other
    assert "ε = 0.5" not in other
    wrong = visitor.post(f"{project}/promise/words", {**form, "k": "-1"}, headers=hx)
    assert wrong.status_code == 200
    assert "a whole number from 1" in wrong.text
    dear = visitor.post(f"{project}/promise/words", {**form, "epsilon": "4"}, headers=hx).text
    assert "not enough: 3 left" in dear


def release(visitor: Visitor, path: str, output: Path, **fields: str) -> str:
    """Release by the form and wait; the path of its page."""
    page = visitor.get(f"{path}/release").text
    assert "This plan has not been tried out on this table." in page
    once = re.search(r'name="once" value="(\w+)"', page)
    assert once is not None
    data = {"once": once[1], "output": str(output), "format": "parquet", **fields}
    made = visitor.post(f"{path}/release", data)
    assert made.status_code == 200, made.text
    again = visitor.post(f"{path}/release", data)
    assert again.url == made.url, "a form that is sent twice is one release"
    there = str(made.url).split(visitor.root)[1]
    visitor.until(there, "Verified: ")
    return there


def test_release_is_what_the_command_line_makes(
    visitor: Visitor, project: str, place: Path
) -> None:
    """Same plan and seed, same bytes: by the studio, by its command, and by its notebook."""
    visitor.post(f"{project}/promise", {"method": "dp-um", "epsilon": "0.5", "k": "10"})
    there = release(visitor, project, place / "out", seed="7")
    text = html.unescape(visitor.get(there).text)
    made = data_hashes(place / "out")
    data = (place / "out" / "data.parquet").read_bytes()
    assert made == {"data.parquet": hashlib.sha256(data).hexdigest()}
    assert re.search(r"Verified: \d+ checks passed</h2>", text)
    assert "reproducible: carries no guarantee" in text
    assert Ledger(place / "ledger.db").account("test people").spent == sherd.Amount("0.5")
    command = re.search(r'<pre id="command"[^>]*>([^<]+)</pre>', text)
    assert command is not None
    run_shown(command[1])
    assert data_hashes(place / "out-again") == made
    notebook = json.loads(visitor.get(f"{there}/release.ipynb").text)
    assert notebook["nbformat"] == 4
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    code = "\n".join(cells).replace("out-again", "out-notebook")
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=place
    )
    assert "Promise:" in ran.stdout
    assert data_hashes(place / "out-notebook") == made
    (place / "again.yaml").write_text(visitor.get(f"{there}/plan.yaml").text)
    assert sherd.Plan.load(place / "again.yaml")["k"] == 10


def test_row_map_is_private_and_outside(visitor: Visitor, project: str, place: Path) -> None:
    """A row map inside the release is refused; outside it is its owner's alone."""
    page = visitor.get(f"{project}/release").text
    once = re.search(r'name="once" value="(\w+)"', page)
    assert once is not None
    inside = visitor.post(
        f"{project}/release",
        {"once": once[1], "output": str(place / "o2"), "row_map": str(place / "o2" / "map.csv")},
    )
    assert inside.status_code == 400
    assert "inside the release" in inside.text
    release(visitor, project, place / "o3", row_map=str(place / "map.csv"))
    assert (place / "map.csv").stat().st_mode & 0o777 == 0o600
    assert len((place / "map.csv").read_text().splitlines()) == 301


def test_budget_that_is_gone_refuses(visitor: Visitor, project: str, place: Path) -> None:
    """Where the budget does not allow it nothing is released, nothing charged, nothing held."""
    ledger = Ledger(place / "ledger.db")
    spent = ledger.account("test people").spent
    ledger.set_limit("test people", spent)
    page = visitor.get(f"{project}/release").text
    assert re.search(r"<button disabled>Release and charge", page)
    once = re.search(r'name="once" value="(\w+)"', page)
    assert once is not None
    made = visitor.post(f"{project}/release", {"once": once[1], "output": str(place / "o4")})
    there = str(made.url).split(visitor.root)[1]
    visitor.until(there, "does not allow this")
    assert not (place / "o4").exists()
    assert ledger.account("test people").spent == spent
    assert ledger.reservations() == []


def test_another_projects_jobs_are_not_shown(visitor: Visitor, project: str) -> None:
    """A job's page belongs to its project."""
    visitor.post("/open", {"source": ":nursery"})
    other = newest(visitor)
    assert other != project
    job = re.search(r"/release/(\w{16})", visitor.get(f"{project}/release").text)
    assert job is not None
    assert visitor.get(f"{other}/release/{job[1]}").status_code == 400
    assert visitor.get(f"{project}/release/{job[1]}").status_code == 200
