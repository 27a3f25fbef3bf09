"""A party's file, and the command line around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from cryptography import x509

from sherd.cli import run as command
from sherd.errors import FormatError, MissingPartError, PolicyError, StorageError, UsageError
from sherd.secure.engine.link import connect, make_key
from sherd.secure.party import PartySettings, RecordLinkage, init, take_part
from sherd.secure.party.run_journal import RunJournal, SignedResult
from sherd.signing_keys import SigningKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_settings_are_read(files: Callable[..., Path], tmp_path: Path) -> None:
    """Paths are relative to the file; records are matched by pseudonyms unless said."""
    settings = PartySettings.load(files())
    assert (settings.rank, settings.hosts, settings.computes) == (0, 2, True)
    assert settings.key == tmp_path / "a.key"
    assert settings.plan["epsilon"] == 1
    assert settings.linkage is RecordLinkage.OPRF


@pytest.mark.parametrize("more", [{"key": None}, {"speed": 3}])
def test_incomplete_settings_are_refused(files: Callable[..., Path], more: dict[str, Any]) -> None:
    """Something is missing, or is not a setting."""
    with pytest.raises(FormatError, match="not complete"):
        PartySettings.load(files(**more))


@pytest.mark.parametrize("parties", [["a"], "ab", [{"name": "a"}], 3])
def test_lists_of_parties_that_are_none_are_refused(
    files: Callable[..., Path], parties: Any
) -> None:
    """Each has a name, an address and a certificate."""
    with pytest.raises(FormatError, match="list of parties"):
        PartySettings.load(files(parties=parties))


@pytest.mark.parametrize("names", ["a", "aa", "bc"])
def test_too_few_or_odd_parties_are_refused(files: Callable[..., Path], names: str) -> None:
    """Never fewer than two; no two of one name; this one among them."""
    with pytest.raises(PolicyError, match="at least two parties"):
        PartySettings.load(files(names))


def test_those_that_compute_come_first(files: Callable[..., Path]) -> None:
    """The others follow, in the order of the file."""
    settings = PartySettings.load(files("abcde", compute=["e", "c"]))
    assert settings.names == ["c", "e", "a", "b", "d"]
    assert (settings.rank, settings.hosts, settings.computes) == (2, 2, False)


@pytest.mark.parametrize(
    "compute", [None, [], ["a"], ["a", "a"], ["a", "z"], list("abcd"), "ab", 2]
)
def test_fewer_than_two_that_compute_are_refused(files: Callable[..., Path], compute: Any) -> None:
    """Two or three, by name; with more parties somebody must say which."""
    with pytest.raises(PolicyError, match="two or three of the parties"):
        PartySettings.load(files("abcd", compute=compute, engine="spu"))


def test_the_engine_is_as_said_or_what_is_installed(
    files: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless said, SPU; MPyC where it alone is there and three or more parties all compute."""
    import importlib.util

    there: set[str] = set()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in there else None)

    def engine(names: str, **more: Any) -> tuple[str, int]:
        loaded = PartySettings.load(files(names, **more))
        return loaded.engine, loaded.hosts

    assert engine("abc") == ("spu", 3)
    there.add("mpyc")
    assert engine("abc") == ("mpyc", 3)
    assert engine("abcde") == ("mpyc", 5)
    assert engine("ab") == ("spu", 2)
    assert engine("abcd", compute=["a", "b"]) == ("spu", 2)
    there.add("spu")
    assert engine("abc") == ("spu", 3)
    assert engine("abc", engine="mpyc") == ("mpyc", 3)
    for names, more in (("ab", {}), ("abcd", {"compute": ["a", "b", "c"]})):
        with pytest.raises(PolicyError, match="the engine mpyc cannot run with these parties"):
            engine(names, engine="mpyc", **more)


def test_mpyc_does_not_settle_overlaps(files: Callable[..., Path]) -> None:
    """The plan is refused before anything is reserved or read."""
    pytest.importorskip("mpyc")
    plan = {"epsilon": 1, "class_attribute": "income", "overlaps": "first"}
    with pytest.raises(PolicyError, match="does not settle overlaps"):
        take_part(PartySettings.load(files("abc", engine="mpyc", plan=plan)), ledger=None)


def test_an_engine_that_is_not_there_is_refused(files: Callable[..., Path]) -> None:
    """Nothing else computes in its place."""
    assert PartySettings.load(files(engine="spu")).hosts == 2
    with pytest.raises(
        UsageError, match="no such engine; must be one of auto, spu, mpyc; got motion"
    ):
        PartySettings.load(files(engine="motion"))


def test_linkages_are_checked(files: Callable[..., Path]) -> None:
    """By name; the one of low assurance needs its key."""
    assert PartySettings.load(files(linkage="known")).linkage is RecordLinkage.KNOWN
    with pytest.raises(UsageError, match="must be one of oprf, hmac, known; got magic"):
        PartySettings.load(files(linkage="magic"))
    with pytest.raises(UsageError, match="linkage_key"):
        PartySettings.load(files(linkage="hmac"))


def test_init_makes_a_key_for_its_owner_only(tmp_path: Path) -> None:
    """Key, certificate and settings; a second party in the folder is refused."""
    path = init(tmp_path / "p", "clinic")
    assert (tmp_path / "p" / "clinic.key").stat().st_mode & 0o077 == 0
    assert "BEGIN CERTIFICATE" in (tmp_path / "p" / "clinic.pem").read_text()
    assert yaml.safe_load(path.read_text())["name"] == "clinic"
    with pytest.raises(UsageError, match="already belongs to a party"):
        init(tmp_path / "p", "clinic")


def test_a_key_has_its_certificate_and_is_never_written_over(tmp_path: Path) -> None:
    """Peers know a party by the key in its certificate, signed by itself."""
    key, certificate = make_key(tmp_path, "clinic")
    shown = x509.load_pem_x509_certificate(certificate.read_bytes())
    shown.verify_directly_issued_by(shown)
    assert shown.public_key().public_bytes_raw().hex() == SigningKey.load(key).public  # type: ignore[union-attr]
    assert shown.subject.rfc4514_string() == "CN=clinic"
    before = key.read_bytes()
    with pytest.raises(StorageError):
        make_key(tmp_path, "clinic")
    assert key.read_bytes() == before


def test_command_line(
    files: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Init and status, in words and as JSON."""
    assert command(["party", "init", str(tmp_path / "p"), "--name", "clinic"]) == 0
    assert "clinic.pem" in capsys.readouterr().out
    assert command(["party", "init", str(tmp_path / "q"), "--name", "bank", "--json"]) == 0
    path = files()
    assert command(["party", "status", str(path)]) == 0
    assert "not begun" in capsys.readouterr().out
    one = SignedResult(what="x", values=(1,))
    journal = RunJournal(path=tmp_path / "journal.jsonl", run="r", statement={}, entries=[one])
    journal.begin()
    assert command(["party", "status", str(path), "--json"]) == 0
    out = capsys.readouterr().out
    assert '"state": "begun"' in out
    assert '"numbers": 1' in out
    journal.finish()
    (tmp_path / "out").mkdir()
    assert command(["party", "status", str(path)]) == 0
    assert "finished, 1 results" in capsys.readouterr().out


def test_without_spu_a_party_says_what_to_install(files: Callable[..., Path]) -> None:
    """In an environment without the extra."""
    pytest.importorskip("numpy", minversion="2")  # with SPU there is numpy 1.26
    settings = PartySettings.load(files())
    with pytest.raises(MissingPartError, match=r"sherd\[joint\]|not installed"):
        connect(settings.peers, 0, settings.key, timeout=1)
