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
    ", and this system has no r-cran-sdcmicro (no suite of Debian has one, nor have PyPI and npm: "
    "asked by name on 2026-11-18)"
)

SDCMICRO_SOURCES = "SDCMICRO_SOURCES"
"""A folder with sdcMicro's R sources (``R/microaggregation.R``), for machines whose registries have
no package of it. A file COMMIT beside them says which version they are."""


def rscript() -> tuple[str, str]:
    """An Rscript that runs sdcMicro's code, and what of sdcMicro it runs.

    The package comes first: one that is installed, or that the system has. Debian has R
    (r-base-core) and no package of sdcMicro; then its own source is run, where it is named.
    """
    if shutil.which("Rscript") is None and os.geteuid() == 0 and _packaged("r-cran-sdcmicro"):
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "r-cran-sdcmicro"]
        subprocess.run(install, check=False, capture_output=True)
    found = shutil.which("Rscript")
    if found is None:
        where = "" if _packaged("r-cran-sdcmicro") else NO_SDCMICRO
        raise PeerMissingError(f"there is no Rscript on the path{where}")
    version = "cat(as.character(packageVersion('sdcMicro')))"
    told = subprocess.run([found, "-e", version], capture_output=True, text=True, check=False)
    if not told.returncode:
        return found, f"the package, version {told.stdout.strip()}"
    if not os.environ.get(SDCMICRO_SOURCES):
        raise PeerMissingError(
            f"R has no sdcMicro here, and {SDCMICRO_SOURCES} names no sources of it"
        )
    return found, _source_of_sdcmicro(Path(os.environ[SDCMICRO_SOURCES]))


def _source_of_sdcmicro(folder: Path) -> str:
    """Which file is run in the place of the package."""
    source, commit = folder / "R" / "microaggregation.R", folder / "COMMIT"
    if not source.is_file():
        raise PeerMissingError(f"{SDCMICRO_SOURCES} names a folder without R/microaggregation.R")
    known = f" of {commit.read_text(encoding='utf-8').strip()}" if commit.is_file() else ""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    return f"no package: its own R/microaggregation.R{known}, sha256 {digest[:16]}, byte-compiled"
