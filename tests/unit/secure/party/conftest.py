"""A party's file, and parties that meet in one process over real TLS."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml
from processes import free_port

import sherd
from sherd.secure.engine.link import Peer, make_key
from sherd.secure.party.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Callable
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


@pytest.fixture
def fragment() -> pa.Table:
    """One party's cells of three records."""
    return pa.table(
        {
            "id": ["r2", "r0", "r1"],
            "age": [None, 4, 5],
            "job": ["b", None, "a"],
            "income": ["low", "high", "low"],
        }
    )


@pytest.fixture
def schema() -> Callable[..., sherd.Schema]:
    """The parties' schema, or another."""
    return lambda **more: sherd.Schema.from_data({**SCHEMA, **more})


@pytest.fixture
def plan() -> Callable[..., sherd.Plan]:
    """The parties' plan, or another."""
    return lambda **more: sherd.Plan(
        method="arbdistdp", **{"epsilon": 1.0, "h": 2, "class_attribute": "income", **more}
    )


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., Path]:
    """A party's file with all it names; None leaves a setting out."""

    def make(names: str = "ab", **more: Any) -> Path:
        (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
        for name in (*names, "a"):
            (tmp_path / f"{name}.pem").write_text("certificate")
        (tmp_path / "a.key").write_text("key")
        peers = [
            {"name": n, "address": f"127.0.0.1:{free_port()}", "certificate": f"{n}.pem"}
            for n in names
        ]
        data = {
            "name": "a", "parties": peers, "key": "a.key", "table": "t.csv",
            "schema": "schema.yaml", "plan": {"epsilon": 1, "class_attribute": "income"},
            "id": "id", "output": "out", **more,
        }  # fmt: skip
        path = tmp_path / "party.yaml"
        path.write_text(yaml.safe_dump({k: v for k, v in data.items() if v is not None}))
        return path

    return make


class Meeting:
    """Parties with keys, each in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.peers: list[Peer] = []

    def invite(self, names: str) -> None:
        """Make the parties' keys and addresses."""
        for name in names:
            key, certificate = make_key(self.folder, name)
            address = f"127.0.0.1:{free_port()}"
            self.peers.append(Peer(name=name, address=address, certificate=certificate))
            assert key.exists()

    def channel(self, place: int, timeout: float = 10, longest_wait: float = 60) -> Channel:
        """A party's channel, not yet connected."""
        key = self.folder / f"{self.peers[place].name}.key"
        return Channel(self.peers, place, key, timeout=timeout, longest_wait=longest_wait)

    def all(self, act: Callable[[Channel, int], Any], timeout: float = 10) -> list[Any]:
        """What every party gets out of doing this together: a result, or an error."""
        results: list[Any] = [None] * len(self.peers)

        def take_part(place: int) -> None:
            try:
                with self.channel(place, timeout) as channel:
                    channel.connect()
                    results[place] = act(channel, place)
            except Exception as error:
                results[place] = error

        threads = [threading.Thread(target=take_part, args=(p,)) for p in range(len(self.peers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return results


@pytest.fixture
def meeting(tmp_path: Path) -> Meeting:
    """Nobody yet."""
    (tmp_path / "meeting").mkdir()
    return Meeting(tmp_path / "meeting")
