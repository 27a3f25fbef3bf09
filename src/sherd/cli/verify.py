"""``sherd verify``, ``sherd key`` and ``sherd sign``: what a release is, and who vouches for it."""

from __future__ import annotations

from pathlib import Path

import click

from sherd.cli.options import PATH, emit, emit_json, json_option

SIGNS = {True: "ok  ", False: "FAIL", None: "?   "}


@click.command()
@click.argument("release", type=PATH)
@click.option(
    "--beside",
    type=PATH,
    metavar="OLD",
    help="Check what somebody who also holds this earlier release of the same fragments could "
    "infer.",
)
@click.option(
    "--key",
    metavar="KEY",
    help="Require a signature by this key: a fingerprint, or a file written by `sherd key`.",
)
@click.option(
    "--require-signatures",
    is_flag=True,
    help="Fail an unsigned release, and a joint one that an owner in it has not countersigned.",
)
@json_option
def verify(
    release: Path, beside: Path | None, key: str | None, require_signatures: bool, as_json: bool
) -> int:
    """Check the RELEASE folder: files, schema, bounds, cluster sizes and the promise.

    Also lists what it could not check. Exits with 4 if a check fails or the folder has no readable
    manifest.
    """
    import sherd

    result = sherd.verify(release, key=key, beside=beside, require_signatures=require_signatures)
    if as_json:
        emit_json(result.as_data())
        return 0 if result.passed else 4
    for check in result.checks:
        click.echo(f"{SIGNS[check.passed]}  {check.name}: {check.detail}")
    unknown = len(result.unknown)
    decided = len(result.checks) - unknown
    if not result.passed:
        click.echo(f"error: {len(result.failed)} of {decided} checks failed", err=True)
        return 4
    click.echo(f"{decided} checks passed; {unknown} could not be made from the release alone")
    return 0


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def key(file: Path, as_json: bool) -> None:
    """Write a new Ed25519 signing key to FILE and its public part to FILE.pub.

    Send the fingerprint to the recipients of your releases over a separate channel.
    """
    import sherd

    fingerprint = sherd.make_key(file)
    emit(
        {"private_key": str(file), "public_key": f"{file}.pub", "fingerprint": fingerprint},
        f"private key: {file} (keep it to yourself)",
        f"public key: {file}.pub",
        f"fingerprint: {fingerprint}",
        as_json=as_json,
    )


@click.command()
@click.argument("release", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--key",
    "key_file",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Sign with this private key, made by `sherd key`.",
)
@click.option("--force", is_flag=True, help="Replace an existing signature.")
@json_option
def sign(release: Path, key_file: Path, force: bool, as_json: bool) -> None:
    """Sign the RELEASE folder: signature.json covers the manifest and, through it, every file."""
    import sherd

    fingerprint = sherd.sign(release, key_file, force=force)
    emit(
        {"release": str(release), "fingerprint": fingerprint},
        f"signed by {fingerprint}",
        as_json=as_json,
    )
