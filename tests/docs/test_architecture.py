"""The page of the architecture tells what runs do: its picture, and its flows hop by hop."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import rooms_picture
from tracing import hops

import sherd
from sherd.cli import run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def flow(root: Path, title: str) -> list[str]:
    """The hops that the page lists under a heading, as ``module:function``."""
    text = (root / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    part = text.split(f"\n### {title}\n", 1)[1].split("\n##", 1)[0]
    return [f"sherd.{hop}" for hop in re.findall(r"^\d+\. `([\w.]+:[\w.]+)`", part, re.MULTILINE)]


def test_the_picture_is_that_of_the_layers(root: Path) -> None:
    """Drawn again from what import-linter checks, it is the same."""
    drawn = (root / "docs" / "pictures" / "rooms.svg").read_text(encoding="utf-8")
    assert drawn == rooms_picture.draw(), "python -m rooms_picture > docs/pictures/rooms.svg"
    for layer in rooms_picture.layers():
        for room in layer:
            assert room.removeprefix("sherd.") in drawn


def test_protect_goes_the_way_of_the_page(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each hop once and in order: reserved before data is read, charged before published."""
    monkeypatch.setenv("SHERD_LEDGER", str(tmp_path / "ledger.db"))
    listed = flow(root, "Protect")
    words = ["protect", ":wine", "-m", "dp-um", "-e", "1", "-k", "50", "--threads", "1"]
    assert hops(lambda: run([*words, "-o", str(tmp_path / "out")]), listed) == listed
    assert len(listed) >= 8


PEOPLE = pa.table(
    {
        "job": [i % 40 for i in range(400)],
        "age": [i % 37 for i in range(400)],
        "ill": [i * 7 % 41 for i in range(400)],
    }
)
SCHEMA = sherd.Schema.from_data(
    {"attributes": {name: {"type": "integer"} for name in PEOPLE.column_names}}
)


def test_fragment_and_query_go_the_way_of_the_page(root: Path, tmp_path: Path) -> None:
    """The solver runs once for check, promise and run; the table is prepared once."""
    from sherd.methods.fragmenting import fragment_layout

    constraints: dict[str, Any] = {"constraints": [["age", "ill"], ["job", "ill"]]}
    fragment_layout._solved.cache_clear()  # another test may have solved the same

    def go() -> None:
        made = sherd.fragment(PEOPLE, SCHEMA, constraints=constraints, looseness=4)
        folder = made.save(tmp_path / "out")
        sherd.query(folder, "SELECT job, AVG(ill) FROM release GROUP BY job")

    listed = flow(root, "Fragment and query")
    assert hops(go, listed) == listed
    assert len(listed) >= 8


def test_audit_goes_the_way_of_the_page(root: Path, tmp_path: Path) -> None:
    """The manifest is read once, the release verified before it is attacked."""
    from sherd.auditing.case.case import Limits

    table, schema = sherd.read(":wine").slice(0, 400), sherd.datasets.schema("wine")
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=20)
    release = sherd.protect(table, schema, plan, settings=sherd.Settings(seed=1, keep_order=True))
    folder = release.save(tmp_path / "out")
    quick = Limits(attacked=40, modelled=100, compared=80, queries=5, triples=2, runs=20)
    listed = flow(root, "Audit")
    seen = hops(
        lambda: sherd.audit(table, folder, limits=quick, alternatives=False, seed=1), listed
    )
    assert seen == listed
    assert len(listed) >= 8


def test_a_round_goes_the_way_of_the_page(root: Path, tmp_path: Path) -> None:
    """Each hop once at each of two owners, and once at the aggregator; each in its order."""
    from consortium import Consortium
    from people import SCHEMA as SHARED
    from people import people

    owners = flow(root, "A round at the owner")
    aggregator = flow(root, "A round at the aggregator")
    consortium = Consortium(tmp_path)
    try:
        for number, name in enumerate(("north", "south")):
            table = people(40, seed=number, first=number * 10_000)
            consortium.add_owner(name, table, SHARED, key_column="id")

        def go() -> None:
            consortium.aggregator.open_round(consortium.terms())
            consortium.settle()

        seen = hops(go, [*owners, *aggregator])
        assert consortium.ended()
    finally:
        consortium.close()
    at_owners = [hop for hop in seen if hop in owners]
    assert list(dict.fromkeys(at_owners)) == owners
    assert {at_owners.count(hop) for hop in owners} == {2}
    assert [hop for hop in seen if hop in aggregator] == aggregator


def test_a_secure_party_goes_the_way_of_the_page(root: Path, tmp_path: Path) -> None:
    """Each party, in a process of its own: charged after all agreed, and before it computes."""
    from parties import PLAIN, consortium, ended

    listed = flow(root, "A secure party")
    (tmp_path / "flow").write_text("\n".join(listed))
    parties = consortium(
        tmp_path, "abc", n=40, h=1, epsilon=20, timeout=60, engine="mpyc", linkage="known"
    )
    traced = str(root / "tests" / "support" / "traced_party.py")
    running = {
        name: parties.start(
            name, PLAIN, traced, str(tmp_path / f"hops-{name}"), str(tmp_path / "flow")
        )
        for name in "abc"
    }
    assert ended(running, 200) == dict.fromkeys("abc", 0), parties.logs()
    for name in "abc":
        seen = (tmp_path / f"hops-{name}").read_text().split()
        assert seen == listed
    assert len(listed) >= 8


def test_the_glossary_is_complete_and_in_order(root: Path) -> None:
    """Every word that names a party, a step or a part has its entry, in alphabetical order."""
    text = (root / "docs" / "explanation" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^(\S[^\n]*)\n: ", text, re.MULTILINE)
    plain = [term.replace("ε, ", "").lower() for term in terms]
    assert plain == sorted(plain)
    needed = {"aggregator", "owner", "party", "round", "fragment", "looseness", "method", "plan"}
    needed |= {"family", "engine", "hierarchy", "row map", "verification", "audit", "ledger"}
    assert needed <= set(plain)
    families = {sherd.methods.describe(name)["family"] for name in sherd.methods.names()}
    entry = text.split("\nfamily\n", 1)[1].split("\n\n", 1)[0]
    assert all(family in entry for family in families), families
