"""The signature of a release: its maker's Ed25519 key over the manifest, which names all files.

It lies beside the manifest as ``signature.json`` and covers the manifest's bytes, thereby the hash
of every file, the plan, the schema and the promise. Whoever rewrites a release and its hashes
cannot sign it again by that key.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sherd.errors import FormatError, OutputExistsError, StorageError
from sherd.release.bundle import MANIFEST, digest, read_json, read_manifest

SIGNATURE = "signature.json"
_HEX = re.compile(r"[0-9a-f]{64}")


def sign(folder: str | Path, key: Path, *, force: bool = False) -> str:
    """Sign a release by the private key in a file; the key's fingerprint."""
    from sherd.signing_keys import SigningKey, fingerprint

    folder = Path(folder)
    read_manifest(folder)
    path = folder / SIGNATURE
    if path.exists() and not force:
        raise OutputExistsError("the release is signed already", got=str(path), do="add --force")
    private = SigningKey.load(key)
    data = {"format": 1, "key": private.public, "signature": private.sign(_text(folder))}
    beside = folder.parent / f".{folder.name}.{SIGNATURE}"
    try:
        beside.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise StorageError("the signature cannot be written", got=f"{path}: {error}") from None
    return fingerprint(private.public)


def make_key(path: Path) -> str:
    """Make a private key, readable by its owner only, with its public part beside; fingerprint."""
    from sherd.signing_keys import SigningKey, fingerprint

    public = path.with_name(path.name + ".pub")
    for one in (path, public):
        if one.exists():
            raise OutputExistsError("the key is there already", got=str(one), do="choose another")
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
