"""Environments of the peers' own, since they pin other versions of the libraries than Sherd.

A peer named in ``<name>.in`` is locked in ``<name>.txt`` and installed on demand into
``.venv-<name>`` at the head of the checkout.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import venv
from pathlib import Path

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]


class PeerMissingError(RuntimeError):
    """A peer cannot be had here; the text says why."""


def python_of(name: str) -> Path:
    """The Python of a peer's environment, made where it is missing or out of date."""
    lock = HERE / f"{name}.txt"
    folder = CHECKOUT / f".venv-{name}"
    python = folder / "bin" / "python"
    ready, wanted = folder / ".ready", hashlib.sha256(lock.read_bytes()).hexdigest()
    if ready.exists() and ready.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", lock],
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise PeerMissingError(f"{name} cannot be installed: {installed.stderr.strip()[-200:]}")
    ready.write_text(wanted)
    return python


def rscript() -> str:
    """An Rscript that has sdcMicro."""
    found = shutil.which("Rscript")
    if found is None:
        raise PeerMissingError("there is no Rscript on the path")
    told = subprocess.run(
        [found, "-e", "library(sdcMicro)"], capture_output=True, text=True, check=False
    )
    if told.returncode:
        raise PeerMissingError("the Rscript on the path has no sdcMicro")
    return found
