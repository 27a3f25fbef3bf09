"""``sherd key`` and ``sherd sign``: a key of one's own, and releases signed by it."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def key(file: Path) -> None:
    """Make an Ed25519 key in FILE, to sign releases with, and its public part in FILE.pub.

    Give the fingerprint to those who receive your releases over another channel.
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
    help="Sign with the private key that `sherd key` made.",
)
@click.option("--force", is_flag=True, help="Sign a release again that is signed already.")
def sign(release: Path, key_file: Path, force: bool) -> None:
    """Sign the RELEASE folder: writes signature.json over its manifest and so over every file."""
    import sherd

    click.echo(f"signed by {sherd.sign(release, key_file, force=force)}")
