from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sherd.budget import Amount, Ledger, Pending, Reservation, publishing, storage
from sherd.budget.sealed_folder import BLOCK, CHACHA20, SealedFile, opened, unseal
from sherd.errors import OutputExistsError, StorageError, VerificationError

Reserve = Callable[..., Reservation]


def sha256(path: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _die() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    """A staged artefact."""
    path = tmp_path / ".staged"
    path.write_bytes(b"artefact")
    return path


@pytest.fixture
def final(tmp_path: Path) -> Path:
    """Where it belongs."""
    return tmp_path / "out"


@pytest.fixture
def left(ledger: Ledger, reserve: Reserve, artefact: str, staged: Path, final: Path) -> Ledger:
    """A ledger with one charge whose artefact was not published."""
    with pytest.raises(KeyboardInterrupt):
        ledger.charge(
            reserve("1"), artefact_sha256=artefact, staged=staged, final=final, finish=_die
        )
    return ledger


def test_publishes_after_the_charge(
    ledger: Ledger, reserve: Reserve, artefact: str, staged: Path, final: Path
) -> None:
    """Given both places, the ledger renames after the commit and has nothing pending."""
    ledger.charge(reserve("1"), artefact_sha256=artefact, staged=staged, final=final)
    assert final.read_bytes() == b"artefact"
    assert not staged.exists()
    assert ledger.pending() == []
    assert ledger.recover(sha256) == []


def test_finish_runs_once_after_the_commit(
    ledger: Ledger, reserve: Reserve, artefact: str, staged: Path, final: Path
) -> None:
    """The caller's own publishing sees the charge committed, and pending until it is done."""
    seen: list[tuple[Amount, int]] = []

    def finish() -> None:
        seen.append((ledger.account("people").spent, len(ledger.pending())))
        assert ledger.recover(sha256) == []  # it is in our hands
        staged.rename(final)

    ledger.charge(reserve("1"), artefact_sha256=artefact, staged=staged, final=final, finish=finish)
    ledger.charge(reserve("1"), artefact_sha256=artefact, finish=lambda: None)
    assert seen == [(Amount(1), 1)]
    assert ledger.pending() == []


def test_no_finish_without_a_commit(
    ledger: Ledger, reserve: Reserve, artefact: str, staged: Path, final: Path
) -> None:
    """Where the charge is refused, nothing is published and nothing is marked as in work."""
    reservation = reserve("1")
    ledger.free(reservation)
    with pytest.raises(PermissionError):
        ledger.charge(
            reservation, artefact_sha256=artefact, staged=staged, final=final, finish=_die
        )
    assert staged.exists()
    assert not publishing._finishing


def test_recovers_what_was_left(left: Ledger, staged: Path, final: Path) -> None:
    """A paid artefact left staged is listed, then published once and at no cost."""
    (pending,) = left.pending()
    assert pending.as_data() == {
        "index": 1,
        "artefact": pending.artefact,
        "staged": str(staged),
        "final": str(final),
    }
    assert left.recover(sha256) == [final]
    assert final.read_bytes() == b"artefact"
    assert left.recover(sha256) == []
    assert left.pending() == []
    assert left.account("people").spent == Amount(1)


def test_recovers_a_folder(ledger: Ledger, reserve: Reserve, artefact: str, tmp_path: Path) -> None:
    """A release of several files is published as one folder."""
    staged, final = tmp_path / ".release", tmp_path / "release"
    staged.mkdir()
    (staged / "data").write_bytes(b"artefact")
    with pytest.raises(KeyboardInterrupt):
        ledger.charge(
            reserve("1"), artefact_sha256=artefact, staged=staged, final=final, finish=_die
        )
    assert ledger.recover(lambda folder: sha256(folder / "data")) == [final]
    assert (final / "data").read_bytes() == b"artefact"


@pytest.mark.parametrize("key", [CHACHA20 + "5a" * 32, "5a" * 32])
def test_sealed_files_open_with_their_key_alone(tmp_path: Path, key: str) -> None:
    """What is written in pieces of any size is noise on disk, and opens in pieces of any other."""
    sealed = tmp_path / ".release.staged-1"
    sealed.mkdir()
    pieces = [b"artefact", b"", b"x" * (BLOCK - 3), b"y" * (2 * BLOCK + 1)]
    for name in ("data", "other"):
        with SealedFile(sealed / name, key) as file:
            for piece in pieces:
                file.write(piece)
    whole = b"".join(pieces)
    noise = (sealed / "data").read_bytes()
    assert len(noise) == len(whole)
    assert b"xxxx" not in noise
    assert noise != (sealed / "other").read_bytes()
    assert opened(sealed / "data", key) == whole
    assert (unseal(sealed, key) / "data").read_bytes() == whole
    wrong = key[:-1] + "b"
    assert opened(sealed / "data", wrong)[:8] != b"artefact"


def test_a_sealed_folder_below_the_working_directory_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder named by a relative path opens beside itself, not in a folder of that name twice."""
    monkeypatch.chdir(tmp_path)
    sealed, key = Path("outbox/.release.staged-1"), CHACHA20 + "5a" * 32
    sealed.mkdir(parents=True)
    with SealedFile(sealed / "data", key) as file:
        file.write(b"artefact")
    made = unseal(sealed, key)
    assert made.parent.resolve() == tmp_path / "outbox"
    assert (made / "data").read_bytes() == b"artefact"


def test_an_earlier_versions_key_opens(tmp_path: Path) -> None:
    """The stream of a key without a name is what it always was."""
    (tmp_path / "data").write_bytes(bytes.fromhex("cc5487272cc40710"))
    assert opened(tmp_path / "data", "5a" * 32) == b"artefact"


@pytest.mark.parametrize("key", [CHACHA20 + "5a" * 32, "5a" * 32])
def test_recovering_clears_what_was_half_opened(
    ledger: Ledger, reserve: Reserve, artefact: str, tmp_path: Path, key: str
) -> None:
    """A process that dies while it opens a sealed folder leaves readable files beside it."""
    staged, final = tmp_path / ".release.staged-1", tmp_path / "release"
    staged.mkdir()
    with SealedFile(staged / "data", key) as file:
        file.write(b"artefact")

    def die_when_opened() -> None:
        unseal(staged, key)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.charge(
            reserve("1"),
            artefact_sha256=artefact,
            staged=staged,
            final=final,
            finish=die_when_opened,
            key=key,
        )
    assert ledger.recover(lambda folder: sha256(folder / "data")) == [final]
    assert (final / "data").read_bytes() == b"artefact"
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".release")]


def test_refuses_to_publish_what_was_changed(left: Ledger, staged: Path, final: Path) -> None:
    """A staged artefact that is not the one paid for is not published."""
    staged.write_bytes(b"another")
    with pytest.raises(VerificationError, match=r"row 1: .*not the one that was paid for"):
        left.recover(sha256)
    assert not final.exists()
    assert len(left.pending()) == 1


def test_sees_what_is_in_place_already(left: Ledger, staged: Path, final: Path) -> None:
    """A process that died after the rename left only the note to be made."""
    staged.rename(final)
    assert left.recover(sha256) == []
    assert left.pending() == []


@pytest.mark.parametrize("other", [None, b"other"])
def test_says_what_is_lost(left: Ledger, staged: Path, final: Path, other: bytes | None) -> None:
    """An artefact that is in neither place is said to be so, until it is settled by hand."""
    staged.unlink()
    if other is not None:
        final.write_bytes(other)
    with pytest.raises(VerificationError, match="neither staged nor in its place"):
        left.recover(sha256)
    left.mark_published(left.pending()[0])
    assert left.recover(sha256) == []


def test_does_not_overwrite(left: Ledger, staged: Path, final: Path) -> None:
    """An output that appeared meanwhile stays; others are recovered before the error."""
    final.write_bytes(b"somebody else's")
    with pytest.raises(VerificationError, match="already exists"):
        left.recover(sha256)
    assert final.read_bytes() == b"somebody else's"
    final.unlink()
    assert left.recover(sha256) == [final]


def test_one_trouble_does_not_stop_the_others(
    left: Ledger, reserve: Reserve, staged: Path, tmp_path: Path
) -> None:
    """Every artefact is tried; an unreadable one is named with the number of the rest."""
    second = tmp_path / ".second"
    second.write_bytes(b"second")
    with pytest.raises(KeyboardInterrupt):
        left.charge(
            reserve("1"),
            artefact_sha256=sha256(second),
            staged=second,
            final=tmp_path / "two",
            finish=_die,
        )
    staged.unlink()
    staged.mkdir()  # cannot be read as a file
    with pytest.raises(VerificationError, match=r"1 paid artefact\(s\) could not.*1 were.*row 1"):
        left.recover(sha256)
    assert (tmp_path / "two").read_bytes() == b"second"


def test_publish_says_what_failed(staged: Path, final: Path, tmp_path: Path) -> None:
    """A place that is taken and a folder that is not there are told apart."""
    final.write_bytes(b"")
    with pytest.raises(OutputExistsError):
        publishing.publish(staged, final)
    with pytest.raises(StorageError, match="cannot be moved"):
        publishing.publish(staged, tmp_path / "no" / "folder")
    assert staged.exists()


def test_leaves_a_running_process_alone(
    left: Ledger, final: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another living process charged is its own to publish."""
    ours = left.pending()[0].process
    monkeypatch.setattr(publishing, "current", lambda: replace(ours, pid=ours.pid + 1))
    assert left.recover(sha256) == []
    assert len(left.pending()) == 1
    monkeypatch.undo()
    assert left.recover(sha256) == [final]


def test_two_that_recover_publish_once(left: Ledger, final: Path) -> None:
    """Threads that recover at the same time publish once, and none of them fails."""
    meet = threading.Barrier(4)
    found: list[Path] = []

    def slowly(path: Path) -> str:
        answer = sha256(path)
        meet.wait()
        return answer

    threads = [
        threading.Thread(target=lambda: found.extend(left.recover(slowly))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [final]


def test_a_lost_note_is_no_error(
    ledger: Ledger,
    reserve: Reserve,
    artefact: str,
    staged: Path,
    final: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where only the note fails, the release is out; recovering makes the note."""

    def full(_entry: Pending) -> None:
        raise StorageError("disk full")

    monkeypatch.setattr(ledger, "mark_published", full)
    ledger.charge(reserve("1"), artefact_sha256=artefact, staged=staged, final=final)
    monkeypatch.undo()
    assert final.exists()
    assert len(ledger.pending()) == 1
    assert ledger.recover(sha256) == []
    assert ledger.pending() == []


def test_a_changed_path_is_not_followed(left: Ledger) -> None:
    """A place edited in the file is found by its seal before anything is moved."""
    with storage.writing(left.path) as db:
        db.execute("UPDATE artefacts SET final = '/elsewhere'")
    with pytest.raises(VerificationError, match="seal"):
        left.recover(sha256)


def test_relative_places_are_kept_whole(
    ledger: Ledger,
    reserve: Reserve,
    artefact: str,
    staged: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A place given relative to a folder is found from another one."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        ledger.charge(
            reserve("1"),
            artefact_sha256=artefact,
            staged=Path(".staged"),
            final=Path("out"),
            finish=_die,
        )
    monkeypatch.chdir("/")
    assert ledger.recover(sha256) == [tmp_path / "out"]


def test_a_full_disk_while_recovering_is_tried_again(
    left: Ledger, final: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said to be the disk, not a changed artefact: the same call succeeds with room."""

    def full(*_given: object) -> None:
        raise StorageError("the paid artefact cannot be moved to its place")

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "publish", full)
        with pytest.raises(StorageError, match="could not be published"):
            left.recover(sha256)
    assert left.recover(sha256) == [final]
