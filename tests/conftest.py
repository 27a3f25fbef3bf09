"""Fixtures every test may use: the data folder, a PostgreSQL server, and when to skip."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


def require_or_skip(reason: str) -> NoReturn:
    """Skip the running test, or fail it where SHERD_REQUIRE=all says nothing may be skipped."""
    if os.environ.get("SHERD_REQUIRE") == "all":
        pytest.fail(f"SHERD_REQUIRE=all, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public test tables, named by SHERD_DATA."""
    given = os.environ.get("SHERD_DATA")
    if not given:
        require_or_skip("SHERD_DATA does not name the folder of test tables")
    folder = Path(given)
    if not folder.is_dir():
        require_or_skip("SHERD_DATA names a folder that does not exist")
    return folder


def _postgresql_bin() -> Path | None:
    """Where PostgreSQL's server programs are; Debian keeps them off the path."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((p for p in places if (p / "initdb").exists() and (p / "pg_ctl").exists()), None)


def _postgresql_user() -> str | None:
    """Whom the server runs as: PostgreSQL refuses root. None means the running user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    require_or_skip("PostgreSQL does not run as root and there is no user to run it as")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of an empty PostgreSQL database: a server of our own, with a password."""
    programs = _postgresql_bin()
    if programs is None:
        require_or_skip("PostgreSQL's server programs are not installed")
    user = _postgresql_user()
    folder = Path(tempfile.mkdtemp(prefix="sherd-pg-"))
    password, port = secrets.token_hex(16), _free_port()
    (folder / "password").write_text(password)
    if user is not None:
        for path in (folder, folder / "password"):
            shutil.chown(path, user)

    def run(*command: str) -> None:
        subprocess.run(
            command,
            check=True,
            user=user,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )

    data = str(folder / "data")
    control = str(programs / "pg_ctl")
    try:
        run(
            str(programs / "initdb"), "--pgdata", data, "--username", "steward", "--auth",
            "scram-sha-256", "--pwfile", str(folder / "password"), "--no-sync", "--encoding",
            "UTF8", "--locale", "C",
        )  # fmt: skip
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c fsync=off -k {folder}"
        run(control, "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
        yield f"postgresql://steward:{password}@127.0.0.1:{port}/postgres"
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            run(control, "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)
