"""Fixtures every test may use: the data folder, PostgreSQL, a browser, and when to skip."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest
from browsing import axe_fixture, browser_fixture, chromium_fixture  # noqa: F401 - fixtures
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator


# Tests that book name a ledger of their own; none may find the user's.
os.environ.setdefault("SHERD_LEDGER", "none")

_UNIT = Path(__file__).parent / "unit"

_R = TypeVar("_R", pytest.TestReport, pytest.CollectReport)


settings.register_profile("search", deadline=None)
settings.register_profile("gate", deadline=None, derandomize=True)
settings.load_profile("gate" if os.environ.get("SHERD_REQUIRE") == "all" else "search")
"""A gate tries the same examples every time; everywhere else new ones are searched for."""


def pytest_configure() -> None:
    """Let the processes of the tests be interrupted.

    A shell that starts something in the background switches interrupts off in it and its children.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A statistical test fails if fresh draws fail as well.

    Its false-alarm rate is squared, and what it is made to find it finds twice. So do tests that
    audit releases: of valid ones the audit refutes the share that it states.
    """
    for item in items:
        audits = any(item.path.is_relative_to(_UNIT / room) for room in ("auditing", "report"))
        if audits or item.get_closest_marker("statistical"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def require_or_skip(reason: str) -> NoReturn:
    """Skip the running test, or fail it where SHERD_REQUIRE=all says nothing may be skipped."""
    if os.environ.get("SHERD_REQUIRE") == "all":
        pytest.fail(f"SHERD_REQUIRE=all, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    """Under SHERD_REQUIRE=all a test that skips in any other way fails as well."""
    report: pytest.TestReport = yield
    return _unskipped(report, item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, Any, pytest.CollectReport]:
    """The same for whole modules, as ``importorskip`` skips them."""
    report: pytest.CollectReport = yield
    return _unskipped(report, collector.nodeid)


def _unskipped(report: _R, name: str) -> _R:
    if (
        os.environ.get("SHERD_REQUIRE") == "all"
        and report.outcome == "skipped"
        and not hasattr(report, "wasxfail")
    ):
        report.outcome = "failed"
        report.longrepr = f"SHERD_REQUIRE=all, but {name} was skipped: {report.longrepr}"
    return report


@pytest.fixture(scope="session", name="require_or_skip")
def _require_or_skip() -> Callable[[str], NoReturn]:
    """The function above, for tests: they ask for it by name and call it with a reason."""
    return require_or_skip


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
    yield from _postgresql_server()


@pytest.fixture
def second_postgresql() -> Iterator[str]:
    """A second server, which knows nothing of the first."""
    yield from _postgresql_server()


def _postgresql_server() -> Iterator[str]:
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
