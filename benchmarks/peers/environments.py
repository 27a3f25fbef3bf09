"""Environments of the peers' own, since they pin other versions of the libraries than Sherd.

A peer named in ``<name>.in`` is locked in ``<name>.txt`` and installed on demand into
``.venv-<name>`` at the head of the checkout.
"""

from __future__ import annotations

import hashlib
import os
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
        [python, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", lock],
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise PeerMissingError(f"{name} cannot be installed: {installed.stderr.strip()[-200:]}")
    ready.write_text(wanted)
    return python


def _packaged(name: str) -> bool:
    """Whether the system's own packages have one of that name."""
    asked = shutil.which("apt-cache")
    if asked is None:
        return False
    told = subprocess.run([asked, "policy", name], capture_output=True, text=True, check=False)
    return "Candidate:" in told.stdout and "Candidate: (none)" not in told.stdout


NO_SDCMICRO = (
    ", and this system has no r-cran-sdcmicro (Debian 12 has none, nor have PyPI and npm: asked by "
    "name on 2026-11-18)"
)


def rscript() -> str:
    """An Rscript that has sdcMicro.

    Debian 12 has R (r-base-core) and no package of sdcMicro, which is then CRAN's only; where the
    system has a package of it, it is installed here.
    """
    if shutil.which("Rscript") is None and os.geteuid() == 0 and _packaged("r-cran-sdcmicro"):
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "r-cran-sdcmicro"]
        subprocess.run(install, check=False, capture_output=True)
    found = shutil.which("Rscript")
    if found is None:
        where = "" if _packaged("r-cran-sdcmicro") else NO_SDCMICRO
        raise PeerMissingError(f"there is no Rscript on the path{where}")
    told = subprocess.run(
        [found, "-e", "library(sdcMicro)"], capture_output=True, text=True, check=False
    )
    if told.returncode:
        raise PeerMissingError("the Rscript on the path has no sdcMicro")
    return found
