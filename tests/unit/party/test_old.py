"""A party's file, its fragment, and what the parties compare before they start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

import sherd
from sherd.cli import run as command
from sherd.errors import (
    ConnectionFailedError,
    FormatError,
    MissingPartError,
    PlanError,
    PolicyError,
    SchemaError,
    TableError,
    UsageError,
)
from sherd.joint.link import connect, exchange, make_key
from sherd.party import PartySettings, compare, init, read_input, run, statement

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA: dict[str, Any] = {
    "missing": "refuse",
    "attributes": {
        "id": {"role": "identifier"},
        "age": {"type": "integer", "domain": ["0", "9"]},
        "job": {"type": "category", "values": ["a", "b"]},
        "income": {"type": "category", "role": "sensitive", "values": ["low", "high"]},
    },
}
TABLE = pa.table(
    {
        "id": ["r2", "r0", "r1"],
        "age": [None, 4, 5],
        "job": ["b", None, "a"],
        "income": ["low", "high", "low"],
    }
)


def schema(**more: Any) -> sherd.Schema:
    """The parties' schema."""
    return sherd.Schema.from_data({**SCHEMA, **more})


def plan(**more: Any) -> sherd.Plan:
    """The parties' plan."""
    given = {"epsilon": 1.0, "h": 2, "class_attribute": "income", **more}
    return sherd.Plan(method="arbdistdp", **given)


def test_plan_promises_epsilon_and_delta() -> None:
    """Finite bits make a δ; a person with several rows has it grow."""
    promised = plan().guarantee(schema()).as_data()
    assert promised["epsilon"] == 1
    assert 0 < float(str(promised["delta"])) < 1e-12
    rows = plan().guarantee(schema(unit="id", rows_per_unit=2)).as_data()
    assert rows["epsilon"] == 2
    assert float(str(rows["delta"])) > 2 * float(str(promised["delta"]))


def test_one_owner_alone_is_refused() -> None:
    """The plan is for parties; protect says what to use instead."""
    whole = pa.table({"id": ["r"], "age": [1], "job": ["a"], "income": ["low"]})
    with pytest.raises(PlanError, match="takes several parties"):
        sherd.protect(whole, schema(), plan())


@pytest.mark.parametrize("more", [{"missing": "drop"}, {"outside": "drop"}])
def test_dropping_is_refused(more: dict[str, Any]) -> None:
    """Nobody sees a whole record, so nobody can drop it."""
    with pytest.raises(SchemaError, match="would be dropped"):
        plan().check(schema(**more))


def test_fragments_are_put_in_the_order_of_ids() -> None:
    """Empty cells are the others'; classes are known; another order of rows changes nothing."""
    given = read_input(TABLE, schema(), plan(), "id")
    assert [codes.tolist() for codes in given.fragment.codes] == [[4, 5, -1], [-1, 0, 1]]
    assert given.classes.tolist() == [1, 0, 0]
    other = read_input(TABLE.take([2, 0, 1]), schema(), plan(), "id")
    assert other.ids_hash == given.ids_hash
    assert other.classes_hash == given.classes_hash


def test_kept_missing_cells_are_told_from_cells_of_others() -> None:
    """The schema's mark is a value that this party holds; an empty cell is not."""
    given = schema(missing="keep", missing_values=["?"])
    marked = TABLE.set_column(2, "job", pa.array(["?", None, "a"]))
    found = read_input(marked, given, plan(), "id")
    assert found.fragment.codes[1].tolist() == [-1, 0, 2]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (TABLE.drop_columns(["age"]), "columns are missing: age"),
        (TABLE.set_column(0, "id", pa.array(["r", "r", "s"])), "not unique"),
        (TABLE.set_column(3, "income", pa.array(["low", None, "low"])), "empty cells"),
    ],
)
def test_unfit_fragments_are_refused(table: pa.Table, problem: str) -> None:
    """Missing columns, ids that repeat, classes that are not known."""
    with pytest.raises(TableError, match=problem):
        read_input(table, schema(), plan(), "id")


def test_parties_that_differ_do_not_start() -> None:
    """The message names what differs, and no value."""
    mine = statement(read_input(TABLE, schema(), plan(), "id"), schema(), plan())
    assert compare([mine, dict(mine)], ["a", "b"]) == compare([mine, mine, mine], ["a", "b", "c"])
    theirs = statement(
        read_input(TABLE, schema(), plan(), "id"), schema(missing="keep"), plan(epsilon=2.0)
    )
    with pytest.raises(SchemaError, match="'a' and 'b' differ in schema, plan"):
        compare([mine, theirs], ["a", "b"])
    with pytest.raises(SchemaError, match="differ in their messages"):
        compare([mine, {**mine, "more": 1}], ["a", "b"])


def files(folder: Path, **more: Any) -> Path:
    """A party's file with all it names."""
    (folder / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    for name in ("a", "b"):
        (folder / f"{name}.pem").write_text("certificate")
    (folder / "a.key").write_text("key")
    peers = [{"name": n, "address": "127.0.0.1:1", "certificate": f"{n}.pem"} for n in ("a", "b")]
    data = {
        "name": "a", "parties": peers, "key": "a.key", "table": "t.csv", "schema": "schema.yaml",
        "plan": {"epsilon": 1, "class_attribute": "income"}, "id": "id", "output": "out", **more,
    }  # fmt: skip
    path = folder / "party.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in data.items() if v is not None}))
    return path


def test_settings_are_read(tmp_path: Path) -> None:
    """Paths are relative to the file."""
    settings = PartySettings.load(files(tmp_path))
    assert settings.rank == 0
    assert settings.key == tmp_path / "a.key"
    assert settings.plan["epsilon"] == 1


@pytest.mark.parametrize("more", [{"key": None}, {"speed": 3}])
def test_incomplete_settings_are_refused(tmp_path: Path, more: dict[str, Any]) -> None:
    """Something is missing, or is not a setting."""
    with pytest.raises(FormatError, match="not complete"):
        PartySettings.load(files(tmp_path, **more))


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["b", "c"], ["a", "b", "c", "d"]])
def test_too_few_or_odd_parties_are_refused(tmp_path: Path, names: list[str]) -> None:
    """Never fewer than two; no two of one name; this one among them."""
    peers = [{"name": n, "address": "127.0.0.1:1", "certificate": f"{n}.pem"} for n in names]
    with pytest.raises(PolicyError, match="two or three parties"):
        PartySettings.load(files(tmp_path, parties=peers))


def test_policy_is_checked_before_anything_else(tmp_path: Path) -> None:
    """A plan above the party's own limit is refused; no data is read."""
    with pytest.raises(PolicyError, match="more than this party's policy"):
        run(PartySettings.load(files(tmp_path, most_epsilon=0.5)), ledger=None)


def test_a_failed_start_frees_the_reservation(tmp_path: Path) -> None:
    """The fragment is not there: nothing stays reserved, nothing is charged."""
    ledger = sherd.Ledger(tmp_path / "ledger.db")
    with pytest.raises(UsageError):
        run(PartySettings.load(files(tmp_path)), ledger=ledger)
    assert ledger.reservations() == []
    assert ledger.entries() == []


def test_init_makes_a_key_for_its_owner_only(tmp_path: Path) -> None:
    """Key, certificate and settings; a second party in the folder is refused."""
    path = init(tmp_path / "p", "clinic")
    assert (tmp_path / "p" / "clinic.key").stat().st_mode & 0o077 == 0
    assert "BEGIN CERTIFICATE" in (tmp_path / "p" / "clinic.pem").read_text()
    assert yaml.safe_load(path.read_text())["name"] == "clinic"
    with pytest.raises(UsageError, match="has a party already"):
        init(tmp_path / "p", "clinic")


def test_init_needs_openssl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which program is missing."""
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(MissingPartError, match="openssl"):
        make_key(tmp_path, "x")


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Init and status, in words and as JSON."""
    assert command(["party", "init", str(tmp_path / "p"), "--name", "clinic"]) == 0
    assert "clinic.pem" in capsys.readouterr().out
    assert command(["party", "init", str(tmp_path / "q"), "--name", "bank", "--json"]) == 0
    path = files(tmp_path)
    assert command(["party", "status", str(path)]) == 0
    assert "not begun" in capsys.readouterr().out
    assert command(["party", "status", str(path), "--json"]) == 0
    assert '"state": "not begun"' in capsys.readouterr().out


def test_without_spu_a_party_says_what_to_install(tmp_path: Path) -> None:
    """In an environment without the extra."""
    pytest.importorskip("numpy", minversion="2")  # with SPU there is numpy 1.26
    settings = PartySettings.load(files(tmp_path))
    with pytest.raises(MissingPartError, match=r"sherd\[joint\]|not installed"):
        connect(settings.peers, 0, settings.key, timeout=1)


class Wire:
    """A link to one other party that says what it is told to."""

    world_size, rank = 2, 0

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.sent: list[bytes] = []

    def send_async(self, party: int, message: bytes) -> None:
        """Note what is sent."""
        assert party == 1
        self.sent.append(message)

    def recv(self, party: int) -> bytes:
        """The answer, or SPU's way to say that there is none."""
        assert party == 1
        if self.answer is None:
            raise RuntimeError("timeout")
        return self.answer


def test_messages_are_exchanged() -> None:
    """One's own and the other's, in the order of the parties."""
    wire = Wire(b'{"a": 2}')
    assert exchange(wire, {"a": 1}) == [{"a": 1}, {"a": 2}]
    assert wire.sent == [b'{"a": 1}']


@pytest.mark.parametrize(
    ("answer", "problem"), [(None, "went silent"), (b"\xff{", "cannot be read")]
)
def test_silent_and_garbled_parties_end_in_a_clear_message(
    answer: bytes | None, problem: str
) -> None:
    """A stalled link, and bytes that are no message."""
    with pytest.raises(ConnectionFailedError, match=problem):
        exchange(Wire(answer), {})


@pytest.mark.parametrize("frame", [b"", b"\x00" * 7, b"\x00" * 7 + b"\x09abc", b"\x00" * 8])
def test_malformed_shares_are_refused(frame: bytes) -> None:
    """Frames cut short, lengths that lie."""
    from sherd.joint.spu import _framed, _unframed

    assert _unframed(_framed([b"meta", b"", b"chunk"])) == [b"meta", b"", b"chunk"]
    with pytest.raises(ConnectionFailedError, match="cannot be read"):
        _unframed(frame)


def test_arrays_of_parties_make_the_whole() -> None:
    """Two parties' fragments add up to the codes of the whole table."""
    parts = [
        read_input(TABLE, schema(), plan(), "id"),
        read_input(
            TABLE.set_column(1, "age", pa.array([6, None, None], pa.int64())).set_column(
                2, "job", pa.array([None, "a", None], pa.string())
            ),
            schema(), plan(), "id",
        ),
    ]  # fmt: skip
    ages = np.array([one.fragment.codes[0] for one in parts])
    assert (np.sum(ages >= 0, axis=0) == 1).all()
    assert ages.max(axis=0).tolist() == [4, 5, 6]
