"""`sherd aggregator check` and `sherd owner check`: mistakes of operators, each said clearly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from sherd.cli import cli
from sherd.federation.wire.enrolment import read_answer
from sherd.signing_keys import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = """
attributes:
  ssn: {type: text, role: identifier}
  age: {type: integer, domain: [0, 120]}
  colour: {type: category, values: [red, blue]}
"""
POLICY = """
aggregators: {{registry: {key}}}
kinds: [horizontal]
methods: [dp-um]
attributes: [age, colour]
largest_epsilon: 1
"""


def told(role: str, home: Path) -> tuple[int, dict[str, str]]:
    """The exit code of `check`, and what it finds wrong."""
    done = CliRunner().invoke(cli, [role, "check", "--home", str(home), "--json"])
    wrong = {each["what"]: each["detail"] for each in json.loads(done.output) if not each["ok"]}
    code = CliRunner().invoke(cli, [role, "check", "--home", str(home)], standalone_mode=False)
    return code.return_value, wrong


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    """An aggregator's and an enrolled owner's folder, in which nothing is wrong."""
    run, agg, own = CliRunner(), tmp_path / "agg", tmp_path / "own"
    (tmp_path / "t.csv").write_text("ssn,age,colour\na,30,red\nb,40,blue\n")
    (tmp_path / "s.yaml").write_text(SCHEMA)

    def do(*words: object) -> str:
        done = run.invoke(cli, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        return done.output

    url = "https://localhost:8470"
    made = do("aggregator", "init", "--home", agg, "--name", "registry", "--url", url, "--json")
    made = json.loads(made)["fingerprint"]
    given = ["--source", tmp_path / "t.csv", "--schema", tmp_path / "s.yaml", "--key", "ssn"]
    said = do("owner", "init", "--home", own, "--name", "north", *given, "--json")
    said = json.loads(said)["fingerprint"]
    do("aggregator", "enrol", own / "request.json", "--home", agg, "--fingerprint", said)
    answer = own / "north.enrolment.json"
    do("owner", "init", "--home", own, "--enrolment", answer, "--fingerprint", made)
    (own / "policy.yaml").write_text(POLICY.format(key=fingerprint(read_answer(answer).key)))
    assert told("aggregator", agg) == (0, {})
    assert told("owner", own) == (0, {})
    return agg, own


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    """A mistake: one text for another in a file."""

    def change(home: Path) -> None:
        path = home / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return change


AGGREGATORS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "settings that are no JSON": (
        edited("aggregator.json", "{", ""),
        "settings",
        "must be a JSON object",
    ),
    "a misspelt setting": (
        edited("aggregator.json", '"name"', '"nmae"'),
        "settings",
        "did you mean 'name'?",
    ),
    "an address without TLS": (
        edited("aggregator.json", "https://localhost", "http://registry.example"),
        "address",
        "must be https://HOST:PORT",
    ),
    "an address that the certificate does not name": (
        edited("aggregator.json", "localhost", "registry.example"),
        "channel",
        "must be issued by authority.pem for 'registry.example'",
    ),
    "no key of the certificate": (
        lambda home: (home / "server-key.pem").unlink(),
        "channel",
        "no such file",
    ),
    "another key than the certificate's": (
        lambda home: (home / "server-key.pem").write_bytes(
            (home.parent / "own/channel-key.pem").read_bytes()
        ),
        "channel",
        "key values mismatch",
    ),
    "no certificate in the file": (
        lambda home: (home / "server.pem").write_text("x"),
        "certificate",
        "must be PEM",
    ),
    "a key that others can read": (
        lambda home: (home / "key.pem").chmod(0o644),
        "secrets",
        "must be mode 600",
    ),
    "an empty database": (
        lambda home: (home / "aggregator.db").write_bytes(b""),
        "database",
        "the database is empty",
    ),
}

OWNERS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "a method that does not exist": (
        edited("policy.yaml", "dp-um", "dp-mu"),
        "policy",
        "did you mean 'dp-um'?",
    ),
    "an attribute that does not exist": (
        edited("policy.yaml", "colour", "color"),
        "policy",
        "did you mean 'colour'?",
    ),
    "another aggregator's fingerprint": (
        lambda home: (home / "policy.yaml").write_text(POLICY.format(key="0000-" * 7 + "0000")),
        "enrolment",
        "compare the fingerprint",
    ),
    "a witness on a disk that is not there": (
        edited("owner.json", '"witness": null', '"witness": "/nowhere/head"'),
        "ledger",
        "mount that disk",
    ),
    "a table that is not there": (
        edited("owner.json", "t.csv", "u.csv"),
        "table",
        "the file does not exist",
    ),
    "another key than the certificate's": (
        lambda home: (home / "channel-key.pem").write_bytes(
            (home.parent / "agg/server-key.pem").read_bytes()
        ),
        "certificate",
        "certificate and key that belong together",
    ),
    "another's certificate": (
        lambda home: (home / "certificate.pem").write_bytes(
            (home.parent / "agg/server.pem").read_bytes()
        ),
        "certificate",
        "must be issued to 'north'",
    ),
    "half a seed": (
        lambda home: (home / "seed").write_bytes(b"x" * 16),
        "seed",
        "must be 32 bytes",
    ),
    "a seed that others can read": (
        lambda home: (home / "seed").chmod(0o644),
        "secrets",
        "chmod 600",
    ),
}


@pytest.mark.parametrize("mistake", AGGREGATORS)
def test_mistakes_of_an_aggregators_operator(homes: tuple[Path, Path], mistake: str) -> None:
    """Each is found before the service starts, and said with what to do."""
    change, where, words = AGGREGATORS[mistake]
    change(homes[0])
    code, wrong = told("aggregator", homes[0])
    assert code == 2
    assert words in wrong[where]


@pytest.mark.parametrize("mistake", OWNERS)
def test_mistakes_of_an_owner(homes: tuple[Path, Path], mistake: str) -> None:
    """Each is found before the agent runs, and said with what to do."""
    change, where, words = OWNERS[mistake]
    change(homes[1])
    code, wrong = told("owner", homes[1])
    assert code == 2
    assert words in wrong[where]


@pytest.mark.parametrize("role", ["owner", "aggregator"])
def test_a_look_makes_no_folder(tmp_path: Path, role: str) -> None:
    """A mistyped folder is said to be none, and stays none."""
    code, wrong = told(role, tmp_path / "typo")
    assert code == 2
    assert "set it up" in wrong["settings"]
    assert not (tmp_path / "typo").exists()
