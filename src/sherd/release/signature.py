"""The signature of a release: its maker's Ed25519 key over the manifest, which names all files.

It lies beside the manifest as ``signature.json`` and covers the manifest's bytes, thereby the hash
of every file, the plan, the schema and the promise. Somebody who rewrites a release and its
hashes cannot sign it again by that key.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import FormatError, OutputExistsError, StorageError
from sherd.release.bundle import MANIFEST, digest, read_json, read_manifest
from sherd.tables.files import sync_folder, write_whole

if TYPE_CHECKING:
    from sherd.signing_keys import SigningKey

SIGNATURE = "signature.json"
COUNTERSIGNATURES = "countersignatures.json"
"""The owners' signatures of a joint release, each added when its owner has looked at it."""
_HEX = re.compile(r"[0-9a-f]{64}")


def sign(folder: str | Path, key: str | Path, *, force: bool = False) -> str:
    """Sign a release by the private key in a file; the key's fingerprint."""
    from sherd.signing_keys import SigningKey, fingerprint

    folder = Path(folder)
    read_manifest(folder)
    path = folder / SIGNATURE
    if path.exists() and not force:
        raise OutputExistsError("the release is already signed", got=str(path), do="add --force")
    private = SigningKey.load(Path(key))
    write_signature(folder, private)
    return fingerprint(private.public)


def write_signature(folder: Path, private: SigningKey) -> None:
    """Write the signature of a release's manifest beside it."""
    data = {"format": 1, "key": private.public, "signature": private.sign(_text(folder))}
    _write(folder, SIGNATURE, data)


def _write(folder: Path, name: str, data: dict[str, Any]) -> None:
    """Write a file into a release, of which nothing else may ever be seen in its folder."""
    beside = folder.parent / f".{folder.name}.{name}"
    write_whole(beside, (json.dumps(data, indent=2) + "\n").encode())
    try:
        beside.replace(folder / name)
        sync_folder(folder)
    except OSError as error:
        got = f"{folder / name}: {error.strerror}"
        raise StorageError("the signature cannot be written", got=got) from None


def add_countersignature(folder: Path, owner: str, signature: str) -> None:
    """Add an owner's signature to a joint release; an existing one stays."""
    given = countersignatures(folder)
    if given.get(owner) != signature:
        _write(folder, COUNTERSIGNATURES, {"format": 1, "owners": {**given, owner: signature}})


def countersignatures(folder: Path) -> dict[str, str]:
    """The owners' signatures of a joint release that have come so far."""
    path = folder / COUNTERSIGNATURES
    if not path.exists():
        return {}
    data = read_json(path, "the countersignatures")
    owners = data.get("owners")
    if set(data) != {"format", "owners"} or data["format"] != 1 or not isinstance(owners, dict):
        raise FormatError("the countersignatures cannot be read", got=str(path))
    return {name: str(signature) for name, signature in owners.items()}


def make_key(path: str | Path) -> str:
    """Make a private key, readable by its owner only, with its public part beside; fingerprint."""
    from sherd.signing_keys import SigningKey, fingerprint

    path = Path(path)
    public = path.with_name(path.name + ".pub")
    for one in (path, public):
        if one.exists():
            raise OutputExistsError("the key already exists", got=str(one), do="choose another")
    key = SigningKey.generate()
    key.save(path)
    public.write_text(key.public + "\n", encoding="utf-8")
    return fingerprint(key.public)


def signed_by(folder: Path) -> str | None:
    """The public key that signed a release; None where the signature is not one of it."""
    from sherd.signing_keys import verify

    data: dict[str, Any] = read_json(folder / SIGNATURE, "the signature")
    if set(data) != {"format", "key", "signature"} or data["format"] != 1:
        return None
    key, signature = str(data["key"]), str(data["signature"])
    return key if verify(key, _text(folder), signature) else None


def is_key(public: str, wanted: str) -> bool:
    """Whether a public key is the wanted one: a fingerprint, the key itself, or its file."""
    from sherd.signing_keys import same_fingerprint

    path = Path(wanted)
    if path.is_file():
        wanted = path.read_text(encoding="utf-8", errors="replace").strip()
        if not _HEX.fullmatch(wanted):
            raise FormatError(
                "the file holds no public key",
                must="the .pub file that `sherd key` wrote",
                got=str(path),
            )
    return wanted == public or same_fingerprint(wanted, public)


def _text(folder: Path) -> bytes:
    return b"sherd-release-1\0" + digest(folder / MANIFEST).encode()
