"""Joint releases are signed by the aggregator and countersigned by every owner for its part."""

from __future__ import annotations

import dataclasses
import errno
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from people import KINDS, PARTS, SCHEMA, part, people

import sherd
from sherd.errors import PeerError
from sherd.federation.owner.release_taking import is_part
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.release.bundle import Release
from sherd.release.signature import (
    COUNTERSIGNATURES,
    SIGNATURE,
    countersignatures,
    write_signature,
)
from sherd.signing_keys import SigningKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from consortium import Consortium


def released(consortium: Consortium, kind: Kind = Kind.HORIZONTAL, **terms: Any) -> Path:
    """The folder of a release by two owners, after everybody has heard of it."""
    for number, name in enumerate(("north", "south")):
        if kind is Kind.VERTICAL:
            consortium.add_owner(name, part(name, 12), PARTS[name], key_column="id")
        else:
            table = people(12, seed=number, first=number * 100)
            consortium.add_owner(name, table, "missing: refuse\n" + SCHEMA, key_column="id")
    consortium.aggregator.open_round(consortium.terms(kind=kind, **terms))
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.RELEASED, data.details
    return consortium.aggregator.folder("r1")


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest; nothing else in a bundle holds its hash."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def change_rows(folder: Path) -> None:
    """Release other ages by a bundle whose every hash fits, beside the old signatures."""
    release = Release.load(folder)
    table = release.tables["data"]
    ages = pc.subtract(99, table.column("age")).cast(table.schema.field("age").type)
    place = table.column_names.index("age")
    changed = table.set_column(place, table.schema.field("age"), ages)
    signatures = {name: (folder / name).read_bytes() for name in (SIGNATURE, COUNTERSIGNATURES)}
    Release(tables={"data": changed}, manifest=release.manifest).save(folder, force=True)
    for name, data in signatures.items():
        (folder / name).write_bytes(data)


def failed(folder: Path, key: str | None = None) -> set[str]:
    """The names of the checks that a release fails."""
    return {check.name for check in sherd.verify(folder, key=key).failed}


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_is_signed_by_all(consortium: Consortium, kind: Kind) -> None:
    """By the aggregator when it is published, by every owner that found its part in it."""
    folder = released(consortium, kind)
    checks = {check.name: check.passed for check in sherd.verify(folder).checks}
    assert checks["signature"] is True
    assert checks["owners' parts"] is True
    assert checks["countersignatures"] is True
    assert set(countersignatures(folder)) == {"north", "south"}
    for home in consortium.homes.values():
        assert not failed(home.releases / "r1")
    from sherd.signing_keys import fingerprint

    assert not failed(folder, key=fingerprint(consortium.key.public))
    assert failed(folder, key=fingerprint(SigningKey.generate().public)) == {"signature"}


def test_own_tables_are_found_in_a_release_of_several(consortium: Consortium) -> None:
    """Owners whose tables stand for themselves look for those."""
    folder = released(consortium, parameters={"k": 3, "guarantee": "strict"})
    assert not (folder / "data.parquet").exists()
    assert set(countersignatures(folder)) == {"north", "south"}


def north(manifest: dict[str, Any]) -> dict[str, Any]:
    """What a manifest says of north."""
    entry: dict[str, Any] = manifest["joint"]["owners"]["north"]
    return entry


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "time": (lambda m: m.update(created="2020-01-01T00:00:00+00:00"), "signature"),
    "artefact": (
        lambda m: m["joint"]["owners"]["north"].update(artefact="0" * 64),
        "owners' parts",
    ),
    "head": (lambda m: m["joint"]["owners"]["north"].update(ledger_head="0" * 64), "owners' parts"),
    "version": (
        lambda m: m["joint"]["owners"]["north"]["versions"].update(sherd="9.9"),
        "owners' parts",
    ),
    "part taken off": (lambda m: m["joint"]["owners"]["north"].pop("part_signature"), "owners"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_changed_fails(consortium: Consortium, what: str) -> None:
    """An outsider's change fails by the aggregator's signature, the aggregator's by the owner's."""
    folder = released(consortium)
    change, found_by = CHANGES[what]
    rewrite(folder, change)
    assert {"signature", "countersignatures"} <= failed(folder)
    write_signature(folder, consortium.key)  # the aggregator itself made the change
    assert "signature" not in failed(folder)
    assert "countersignatures" in failed(folder)
    (folder / "countersignatures.json").unlink()
    assert found_by in {*failed(folder), "signature"}


def test_changed_rows_fail_although_every_hash_fits(consortium: Consortium) -> None:
    """By an outsider: no signature fits. By the aggregator: no owner's does."""
    folder = released(consortium)
    change_rows(folder)
    assert failed(folder) == {"signature", "countersignatures"}
    write_signature(folder, consortium.key)
    assert failed(folder) == {"countersignatures"}
    write_signature(folder, SigningKey.generate())
    assert failed(folder) == {"signature", "countersignatures"}


def test_signatures_cannot_be_taken_off(consortium: Consortium) -> None:
    """The plan, signed by owners, says that there is one; older terms would need their keys."""
    folder = released(consortium)
    (folder / "signature.json").unlink()
    assert failed(folder) == {"signature"}

    def downgrade(manifest: dict[str, Any]) -> None:
        del manifest["joint"]["plan"]["terms"]["signed_release"]
        from sherd.federation.protocol.joint_plan import JointPlan
        from sherd.values import from_data

        manifest["joint"]["plan_hash"] = from_data(JointPlan, manifest["joint"]["plan"]).hash
        for entry in manifest["joint"]["owners"].values():
            del entry["part_signature"]

    (folder / "countersignatures.json").unlink()
    rewrite(folder, downgrade)
    assert failed(folder) == {"signatures"}


def test_signatures_can_be_required(consortium: Consortium) -> None:
    """An owner that has not countersigned is named and passes, unless signatures are required."""
    from sherd.cli import run

    folder = released(consortium)
    required = ["verify", str(folder), "--require-signatures"]
    assert sherd.verify(folder, require_signatures=True).passed
    assert run(required) == 0
    path = folder / COUNTERSIGNATURES
    given = json.loads(path.read_text())
    del given["owners"]["north"]
    path.write_text(json.dumps(given, indent=2) + "\n")
    assert not failed(folder)
    assert [each.name for each in sherd.verify(folder, require_signatures=True).failed] == [
        "countersignatures"
    ]
    assert run(required) == 4
    path.unlink()
    assert run(required) == 4
    assert run(required[:2]) == 0


def test_a_release_of_one_owner_can_have_to_be_signed(tmp_path: Path) -> None:
    """Any signature will do, of which people compare the key; none fails."""
    from sherd.cli import run
    from sherd.errors import UsageError

    table, schema = (
        people(12).drop_columns(["id"]),
        SCHEMA.replace("  id: {role: identifier}\n", ""),
    )
    path = tmp_path / "schema.yaml"
    path.write_text(schema)
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=3)
    release = sherd.protect(table, sherd.Schema.load(path), plan, ledger=None)
    with pytest.raises(UsageError):
        sherd.verify(release, require_signatures=True)
    release.save(tmp_path / "out")
    required = ["verify", str(tmp_path / "out"), "--require-signatures"]
    assert run(required) == 4
    sherd.make_key(tmp_path / "k")
    sherd.sign(tmp_path / "out", tmp_path / "k")
    assert run(required) == 0


def test_an_owner_signs_only_what_holds_its_part(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An aggregator that publishes other rows under its own good signature gets no other one."""
    from sherd.federation.aggregator import round_tasks

    good = round_tasks.assemble  # type: ignore[attr-defined]

    def other_rows(data: Any, deliveries: Any, people: Any, **options: Any) -> Any:
        deliveries["north"]["data"] = deliveries["south"]["data"]
        return good(data, deliveries, people, **options)

    monkeypatch.setattr(round_tasks, "assemble", other_rows)
    folder = released(consortium)
    assert set(countersignatures(folder)) == {"south"}
    lines = [line[2:] for line in consortium.agents["north"].journal.audit()]
    assert (
        "did not countersign the release",
        "the release does not hold the rows that were delivered",
    ) in lines
    checks = {check.name: check for check in sherd.verify(folder).checks}
    assert checks["countersignatures"].passed is None
    assert checks["countersignatures"].detail.endswith(": north")


def test_a_release_that_found_no_room_is_fetched_again(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same agent, once there is room, and not at every turn until then."""
    from sherd.federation.owner import release_taking

    good, tried = release_taking.fetch_release, []  # type: ignore[attr-defined]

    def no_room(client: Any, round_id: str, folder: Path, **options: Any) -> Any:
        if folder.is_relative_to(consortium.homes["north"].folder):
            tried.append(round_id)
            if len(tried) < 3:
                raise OSError(errno.ENOSPC, "No space left on device")
        return good(client, round_id, folder, **options)

    monkeypatch.setattr(release_taking, "fetch_release", no_room)
    folder = released(consortium)
    assert len(tried) == 1
    assert set(countersignatures(folder)) == {"south"}
    for times in (2, 3):
        consortium.time += release_taking.ROOM_PATIENCE
        consortium.settle()
        assert len(tried) == times
    assert set(countersignatures(folder)) == {"north", "south"}
    lines = [line[2:] for line in consortium.agents["north"].journal.audit()]
    assert lines.count(("could not keep the release", "OSError")) == 1


def test_a_signature_is_taken_once_and_from_its_owner(consortium: Consortium) -> None:
    """Another's, an earlier release's or none at all is refused; the same again changes nothing."""
    folder = released(consortium)
    given = countersignatures(folder)
    before = (folder / "countersignatures.json").stat().st_mtime_ns
    north = consortium.agents["north"].client
    north.countersign("r1", given["north"])
    assert (folder / "countersignatures.json").stat().st_mtime_ns == before
    for wrong in (given["south"], "0" * 128, ""):
        with pytest.raises(PeerError) as error:
            north.countersign("r1", wrong)
        assert error.value.reason is Reason.SIGNATURE
    with pytest.raises(PeerError):
        north.countersign("r9", given["north"])
    assert countersignatures(folder) == given


def test_a_lost_answer_is_made_up_for(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that could not send its signature sends it after a restart."""
    from sherd.errors import ConnectionFailedError
    from sherd.federation.wire.client import Client

    def lost(self: Client, round_id: str, signature: str) -> None:
        raise ConnectionFailedError("lost")

    with monkeypatch.context() as patch:
        patch.setattr(Client, "countersign", lost)
        with pytest.raises(ConnectionFailedError):
            released(consortium)
    for name in ("north", "south"):
        consortium.start(name)
    consortium.settle()
    assert set(countersignatures(consortium.aggregator.folder("r1"))) == {"north", "south"}


def test_a_round_without_signatures_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An aggregator cannot have owners agree to a release that nobody signs."""
    from sherd.federation.aggregator import round_work

    def unsigned(terms: Any, **changes: Any) -> Any:
        changes.pop("signed_release", None)
        return dataclasses.replace(terms, **changes)

    monkeypatch.setattr(round_work, "replace", unsigned)
    consortium.add_owner("north", people(12), SCHEMA)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    data = consortium.agents["north"].journal.round("r1")
    assert data is not None
    assert (data.state, data.reason) == (OwnerState.REFUSED, Reason.RELEASE_UNSIGNED)


def test_an_unsigned_delivery_ends_the_round(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that signs another part than it delivers spoils nothing unseen."""
    from sherd.federation.owner import outbox

    monkeypatch.setattr(outbox, "part_text", lambda **_given: b"something else")
    consortium.add_owner("north", people(12), SCHEMA)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.VERIFICATION)
    assert data.details == ("the delivery is not signed by north for its part",)


def test_a_long_text_is_never_written_out() -> None:
    """A released column of one long text many times is compared by its codes."""
    own = pa.table({"a": pa.array(["x", None])})
    codes = pa.array([0] * 1_000_000 + [None], pa.int32())
    bomb = pa.DictionaryArray.from_arrays(codes, pa.array(["y" * 1_000_000]))
    before = pa.total_allocated_bytes()
    assert not is_part(own, pa.table({"a": bomb}), whole=False)
    assert pa.total_allocated_bytes() - before < 1 << 28
    with_x = pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array(["x", "y"]))
    assert is_part(own, pa.table({"a": with_x}), whole=False)
