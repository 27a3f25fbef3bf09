"""What a fresh machine installs is the lock's to say, whatever has been published since."""

from __future__ import annotations

import re
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
INSTALLERS = ("Makefile", "benchmarks/peers/environments.py")


def test_locks_are_installed_as_they_stand() -> None:
    """Nothing is resolved again: a newer version of a package asked for with an extra breaks that.

    A lock names `coverage==7.1`, another package asks for `coverage[toml]>=7`: as soon as there
    is a 7.2, resolving under `--require-hashes` takes it and then refuses it for lack of a hash.
    """
    installed = [
        line
        for name in INSTALLERS
        for line in (CHECKOUT / name).read_text().splitlines()
        if "--require-hashes" in line
    ]
    assert len(installed) >= 5
    assert all("--no-deps" in line for line in installed)


def test_every_version_of_a_lock_is_pinned_with_its_hashes() -> None:
    """Without resolving, what a lock leaves out would be missing: each line pins one package."""
    locks = [*(CHECKOUT / "requirements").glob("*.lock")]
    assert locks
    for lock in locks:
        entries = re.findall(r"^[a-z0-9].*$", lock.read_text(), flags=re.MULTILINE)
        assert len(entries) > 20
        assert all(re.match(r"[a-z0-9._-]+==\S+.*\\$", entry) for entry in entries), lock.name
