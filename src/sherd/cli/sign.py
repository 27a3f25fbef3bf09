"""``sherd key`` and ``sherd sign``: a key of one's own, and releases signed by it."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def key(file: Path) -> None:
    """Write a new Ed25519 signing key to FILE and its public part to FILE.pub.

    Send the fingerprint to the recipients of your releases over a separate channel.
    """
    import sherd

    fingerprint = sherd.make_key(file)
    click.echo(f"private key: {file} (keep it to yourself)")
    click.echo(f"public key: {file}.pub")
    click.echo(f"fingerprint: {fingerprint}")


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
def sign(release: Path, key_file: Path, force: bool) -> None:
    """Sign the RELEASE folder: signature.json covers the manifest and, through it, every file."""
    import sherd

    click.echo(f"signed by {sherd.sign(release, key_file, force=force)}")
