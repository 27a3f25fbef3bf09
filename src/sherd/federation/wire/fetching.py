"""Fetching a joint release from the aggregator: whole and as its manifest says, or not at all."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.errors import StorageError, UsageError, VerificationError
from sherd.federation.wire.failpoints import reach
from sherd.release.bundle import MANIFEST, is_plain_name
from sherd.release.bundle import digest as file_digest
from sherd.release.signature import COUNTERSIGNATURES, SIGNATURE
from sherd.tables.files import sync_file, sync_folder, write_whole
from sherd.values import read_json

if TYPE_CHECKING:
    from sherd.federation.wire.client import Client
    from sherd.verifying.verification import Verification


def fetch(
    round_id: str,
    output: str | Path,
    *,
    url: str,
    token_file: str | Path,
    authority: str | Path | None = None,
) -> Verification:
    """Fetch the release of a joint round into a new folder, as an analyst, and verify it.

    ``url`` is the aggregator's address, ``token_file`` holds the analyst's token, ``authority`` is
    the aggregator's own authority where the system does not know it. Whether every check passed is
    in the result; the folder is there either way.
    """
    from sherd.federation.protocol.joint_plan import check_name
    from sherd.release.bundle import check_target
    from sherd.verifying import verify

    check_name(round_id, "round")
    check_target(Path(output), force=None)
    with closing(token_client(url, token_file, authority)) as client:
        fetch_release(client, round_id, Path(output))
    return verify(Path(output))


def token_client(url: str, token_file: str | Path, authority: str | Path | None) -> Client:
    """A client of an aggregator for somebody who has a token in a file."""
    from sherd.extras import OWNER, require

    require(OWNER)
    from sherd.federation.wire.client import Client, tls_context

    try:
        token = Path(token_file).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        raise UsageError(
            "the token cannot be read", got=str(token_file), do="log in with `sherd login`"
        ) from None
    own = None if authority is None else Path(authority)
    context = None if url.startswith("http://") else tls_context(own, None)
    return Client(url=url, name="", aggregator="", token=token, context=context)


def fetch_release(
    client: Client,
    round_id: str,
    target: Path,
    *,
    manifest_sha256: str | None = None,
    data: bool = True,
) -> Path:
    """The joint release, fetched into a new folder and checked file by file.

    With ``manifest_sha256``, only the release with that manifest is taken. Without ``data``
    the manifest alone is, which proves what was released; the data can be fetched later.
    """
    raw = client.release_manifest(round_id)
    if manifest_sha256 not in (None, hashlib.sha256(raw).hexdigest()):
        raise VerificationError("the release's manifest does not match its announcement")
    target.parent.mkdir(parents=True, exist_ok=True)
    files = _listed_files(raw) if data else {}
    if sum(size for size, _ in files.values()) > shutil.disk_usage(target.parent).free // 2:
        raise StorageError("the release is larger than half of what is free on the disk")
    staged = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{round_id}."))
    try:
        write_whole(staged / MANIFEST, raw)
        for name, (size, sha256) in files.items():
            client.download(round_id, name, staged / name, size=size)
            if file_digest(staged / name) != sha256:
                raise VerificationError("a file of the release does not match its manifest")
            sync_file(staged / name)
        for name in (SIGNATURE, COUNTERSIGNATURES):
            signed = client.release_signature(round_id, name)
            if signed is not None:
                write_whole(staged / name, signed)
        reach("owner.fetched")
        sync_folder(staged)
        staged.rename(target)
        sync_folder(target.parent)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return target


def _listed_files(raw: bytes) -> dict[str, tuple[int, str]]:
    """The files that a manifest lists, with their sizes and hashes; VerificationError if it lies.

    The manifest is as the aggregator sent it.
    """
    try:
        files = read_json(raw)["files"]
        listed = {name: (entry["bytes"], entry["sha256"]) for name, entry in files.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise VerificationError("the release's manifest does not list its files") from None
    for name, (size, sha256) in listed.items():
        plain = isinstance(name, str) and is_plain_name(name) and name.isprintable()
        if not plain or name.startswith(".") or type(size) is not int or size < 0:
            raise VerificationError("the release's manifest lists a file that cannot be")
        if not isinstance(sha256, str):
            raise VerificationError("the release's manifest lists a file without a hash")
    return listed
