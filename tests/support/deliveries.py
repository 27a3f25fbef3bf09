"""What owners deliver in a test: looked at, or replaced by something else."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sherd.federation.owner import outbox
from sherd.federation.wire.chunks import describe_file
from sherd.release.bundle import digest as file_digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from consortium import Consortium

    from sherd.federation.owner.agent import Agent
    from sherd.federation.protocol.knowledge import RoundData


def round_of(consortium: Consortium, round_id: str = "r1") -> RoundData:
    """A round as the aggregator knows it."""
    data = consortium.store.round(round_id)
    assert data is not None
    return data


def artefacts(agent: Agent) -> dict[str, str]:
    """The hashes of every file in an owner's outbox."""
    return {
        str(path.relative_to(agent.home.outbox)): file_digest(path)
        for path in sorted(agent.home.outbox.rglob("*"))
        if path.is_file()
    }


def written(table: pa.Table) -> bytes:
    """A table as an uncompressed stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def poison(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[pa.Table], pa.Table], owner: str = "south"
) -> None:
    """Have an owner deliver something else than it protected, whole and well announced."""
    describe = outbox._describe

    def forged(home: Any, ledger: Any, machine: Any, **options: bool) -> Any:
        import dataclasses

        delivery, paths = describe(home, ledger, machine, **options)
        if machine.data.owner != owner:
            return delivery, paths
        (name,) = paths
        with pa.ipc.open_stream(paths[name].read_bytes()) as stream:
            table = stream.read_all()
        path: Path = home.folder / "forged.arrows"
        path.write_bytes(written(change(table)))
        files = {name: describe_file(path)}
        return dataclasses.replace(delivery, files=files), {name: path}

    monkeypatch.setattr(outbox, "_describe", forged)
