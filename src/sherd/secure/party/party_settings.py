"""A party's file of settings, and how to begin one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import FormatError, PolicyError, UsageError

if TYPE_CHECKING:
    from sherd.release.plan import Plan
    from sherd.secure.engine.link import Peer
    from sherd.tables.schema import Schema

_KEYS = {"name", "parties", "key", "table", "schema", "plan", "id", "journal", "output",
         "population", "most_epsilon", "timeout", "compute", "compute_address", "engine", "linkage",
         "linkage_key", "longest_wait"}  # fmt: skip
SETTINGS = "party.yaml"
ENGINES = ("auto", "spu", "mpyc")
_NEEDED = ("name", "parties", "key", "table", "schema", "plan", "id", "output")


class RecordLinkage(StrEnum):
    """How the parties find out which of their rows belong to one record.

    ``oprf``: by pseudonyms that take all parties' keys; those whom all have are the records.
    ``hmac``: by pseudonyms of one key that all parties share, so that each can test guesses: of
    low assurance. ``known``: all have the same records and know it, as in the paper.
    """

    OPRF = "oprf"
    HMAC = "hmac"
    KNOWN = "known"


@dataclass(frozen=True, kw_only=True)
class PartySettings:
    """What a party's file says; paths are relative to it.

    ``peers`` are all parties, those that compute first: ``hosts`` of them. The others share their
    cells out to those. ``most_epsilon`` is the party's policy: a plan that asks for more is
    refused.
    """

    name: str
    peers: tuple[Peer, ...]
    hosts: int
    key: Path
    table: Path
    schema: Schema
    plan: Plan
    id: str
    journal: Path
    output: Path
    population: str | None = None
    most_epsilon: float | None = None
    timeout: float = 60.0
    longest_wait: float = 3600.0
    linkage: RecordLinkage = RecordLinkage.OPRF
    linkage_key: Path | None = None
    compute_address: str | None = None
    engine: str = "spu"

    @property
    def names(self) -> list[str]:
        """All parties' names, in the order of their places."""
        return [peer.name for peer in self.peers]

    @property
    def rank(self) -> int:
        """This party's place among the parties."""
        return self.names.index(self.name)

    @property
    def computes(self) -> bool:
        """Whether this party is one of those that compute."""
        return self.rank < self.hosts

    @classmethod
    def load(cls, path: str | Path) -> PartySettings:
        """Read a party's file."""
        from sherd.release.plan import Plan
        from sherd.tables.files import read_yaml
        from sherd.tables.schema import Schema

        path = Path(path)
        data = read_yaml(path)
        if not isinstance(data, dict) or not set(_NEEDED) <= set(data) <= _KEYS:
            raise FormatError(
                "the party's file is not complete",
                must="the settings " + ", ".join(sorted(_NEEDED)),
                do="make one with `sherd party init`",
            )
        folder = path.parent
        listed = _peers(data, folder)
        engine = _engine(data, len(listed))
        computing = _computing(data, [peer.name for peer in listed], engine)
        peers = sorted(listed, key=lambda peer: peer.name not in computing)
        plan = Plan(**{"method": "arbdistdp", **data["plan"]})
        return cls(
            name=str(data["name"]),
            peers=tuple(peers),
            hosts=len(computing),
            key=folder / str(data["key"]),
            table=folder / str(data["table"]),
            schema=Schema.load(folder / str(data["schema"])),
            plan=plan,
            id=str(data["id"]),
            journal=folder / str(data.get("journal", "journal.jsonl")),
            output=folder / str(data["output"]),
            population=data.get("population"),
            most_epsilon=data.get("most_epsilon"),
            timeout=float(data.get("timeout", 60)),
            longest_wait=float(data.get("longest_wait", 3600)),
            linkage=_linkage(data),
            linkage_key=None if data.get("linkage_key") is None else folder / data["linkage_key"],
            compute_address=data.get("compute_address"),
            engine=engine,
        )


def _peers(data: dict[str, Any], folder: Path) -> list[Peer]:
    """The parties of a file, in its order."""
    from sherd.secure.engine.link import Peer

    try:
        peers = [
            Peer(
                name=str(one["name"]),
                address=str(one["address"]),
                certificate=folder / str(one["certificate"]),
            )
            for one in data["parties"]
        ]
    except (TypeError, KeyError):
        raise FormatError(
            "the list of parties is not complete", must="name, address and certificate of each"
        ) from None
    names = [peer.name for peer in peers]
    if len(peers) < 2 or len(set(names)) != len(names) or data["name"] not in names:
        raise PolicyError(
            "the list of parties is not valid",
            must="at least two parties of different names, this one among them",
            got=f"{len(peers)} parties",
            do="with one party alone use diffgen",
        )
    return peers


def _engine(data: dict[str, Any], parties: int) -> str:
    """The engine of a file: ``auto`` is SPU where it is installed or there is no other choice."""
    from importlib.util import find_spec

    given = data.get("engine", "auto")
    if given not in ENGINES:
        raise UsageError(
            "there is no such engine", must="one of " + ", ".join(ENGINES), got=str(given)
        )
    others = parties >= 3 and "compute" not in data and find_spec("mpyc") is not None
    if given == "auto":
        return "mpyc" if others and find_spec("spu") is None else "spu"
    return str(given)


def _computing(data: dict[str, Any], names: list[str], engine: str) -> list[str]:
    """Who computes: as the file says, all where there are two or three, or with MPyC."""
    if engine == "mpyc":
        if len(names) < 3 or "compute" in data:
            raise PolicyError(
                "the engine mpyc cannot run with these parties",
                must="three parties or more, all of which compute",
                got=f"{len(names)} parties" + (" and `compute`" if "compute" in data else ""),
                do="use the engine spu",
            )
        return names
    chosen = data.get("compute", names if len(names) <= 3 else [])
    fits = isinstance(chosen, list) and set(chosen) <= set(names)
    if not fits or len(chosen) not in (2, 3) or len(set(chosen)) != len(chosen):
        raise PolicyError(
            "the list of computing parties is not valid",
            must="two or three of the parties, by name",
            got=f"{len(chosen)} of {len(names)}" if fits else "others",
            do="name them under `compute`, the same at all parties; together they see everything",
        )
    return [str(name) for name in chosen]


def _linkage(data: dict[str, Any]) -> RecordLinkage:
    given = data.get("linkage", "oprf")
    if given not in list(RecordLinkage):
        raise UsageError(
            "there is no such linkage", must="one of " + ", ".join(RecordLinkage), got=str(given)
        )
    if given == RecordLinkage.HMAC and data.get("linkage_key") is None:
        raise UsageError(
            "the linkage by HMAC needs the key all parties share",
            must="a file of at least 32 bytes, named under `linkage_key`",
        )
    return RecordLinkage(given)


def init(folder: str | Path, name: str) -> Path:
    """A key, its certificate and a file of settings to edit."""
    from sherd.federation.wire.settings_file import make_folder
    from sherd.secure.engine.link import make_key
    from sherd.tables.files import write_whole

    folder = Path(folder)
    path = folder / SETTINGS
    make_folder(folder, SETTINGS, "a party")
    key, certificate = make_key(folder, name)
    text = f"""# One party of a joint release.
# Give {certificate.name} to the others, and {key.name} to nobody.
name: {json.dumps(name)}
key: {key.name}
parties:            # all of them, the same list everywhere; the others' certificates beside
  - {{name: {json.dumps(name)}, address: "127.0.0.1:9530", certificate: {certificate.name}}}
  # - {{name: other, address: "127.0.0.1:9531", certificate: other.pem}}
# compute: [one, two]  # with more than three parties: those that compute, for all
# engine: auto      # spu (two or three parties compute) or mpyc (three or more, all compute)
# compute_address: "127.0.0.1:9630"  # where this one computes; else any free port
table: fragment.csv # this party's cells; a cell that another party holds is left empty
id: id              # the column that says whom a row belongs to
linkage: oprf       # records are those whom all parties have; `known`: all have the same
schema: schema.yaml # the same at all parties
plan: {{epsilon: 1, h: 10, class_attribute: income}}  # the same at all parties
output: release
timeout: 60         # seconds to wait for another party that is not heard
# longest_wait: 3600  # seconds to wait for a party that is alive but makes no progress
# most_epsilon: 1   # refuse plans that ask for more
"""
    write_whole(path, text.encode())
    return path
