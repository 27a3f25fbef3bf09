"""A studio as its user starts it: a process, its printed address, and a client that has entered."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from consortium import AppTransport

from sherd.studio.access_guard import Access, Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.applications import Starlette


@dataclass(kw_only=True)
class Visitor:
    """Somebody who came in by the address; paths are below the session's own."""

    client: httpx.Client
    base: str
    root: str
    code: str = ""

    def get(self, path: str, **more: Any) -> httpx.Response:
        """A page."""
        return self.client.get(self.base + self.root + path, **more)

    def post(
        self, path: str, data: dict[str, Any] | None = None, *, follow: bool = True, **more: Any
    ) -> httpx.Response:
        """A form as one of the studio's own pages sends it."""
        headers = {"Origin": self.base, "Sec-Fetch-Site": "same-origin", **more.pop("headers", {})}
        given = {"code": self.code, **(data or {})}
        return self.client.post(
            self.base + self.root + path,
            data=given,
            headers=headers,
            follow_redirects=follow,
            **more,
        )

    def until(self, path: str, words: str, seconds: float = 60) -> str:
        """A page's text once it says something."""
        end = time.monotonic() + seconds
        while True:
            text = self.get(path).text
            if words in text:
                return text
            assert time.monotonic() < end, f"{path} does not say {words!r}: {text[-1500:]}"
            time.sleep(0.2)


@dataclass(kw_only=True)
class StudioProcess:
    """A running ``sherd studio`` and everything it has printed."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The newest address it has printed."""
        return [line for line in self.lines if "http://" in line][-1].split()[-1]

    def wait_for(self, count: int) -> None:
        """Wait until so many addresses are printed."""
        end = time.monotonic() + 60
        while sum("http://" in line for line in self.lines) < count:
            assert time.monotonic() < end, self.lines
            assert self.process.poll() is None, self.lines
            time.sleep(0.02)

    def enter(self) -> Visitor:
        """Come in by the address that was printed last."""
        address, count = self.address, sum("http://" in line for line in self.lines)
        client = httpx.Client(timeout=60)
        self.clients.append(client)
        answer = client.get(address)
        assert answer.status_code == 200, answer.text
        root = re.search(r'url=(/\w+)/"', answer.text)
        assert root is not None
        self.wait_for(count + 1)
        visitor = Visitor(client=client, base=address[: address.index("/", 8)], root=root[1])
        code = re.search(r'name="code" value="(\w+)"', visitor.get("/").text)
        visitor.code = code[1] if code else ""
        return visitor

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        """End it; its exit code."""
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(30)


def data_hashes(folder: Path) -> dict[str, str]:
    """The hashes of a release's files of data."""
    files = json.loads((folder / "manifest.json").read_text())["files"]
    return {name: each["sha256"] for name, each in files.items() if name.startswith("data.")}


def run_shown(command: str) -> None:
    """Run the command that a page shows for the same again."""
    line = command.replace("sherd protect", f"{sys.executable} -m sherd protect", 1)
    subprocess.run(line, shell=True, check=True, capture_output=True)  # noqa: S602 - our own


def processor_seconds(pid: int) -> float:
    """What a process and its threads have used of the processor so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_bytes(pid: int) -> int:
    """The most memory that a process held so far."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def start_studio(workspace: Path, *arguments: str, ledger: str = "none") -> StudioProcess:
    """Start a studio and wait for its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sherd", "studio", *arguments, "--no-browser",
         "--workspace", str(workspace), "--ledger", ledger],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    made = StudioProcess(process=process)

    def follow() -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                made.lines.append(line.rstrip())

    threading.Thread(target=follow, daemon=True).start()
    made.wait_for(1)
    return made


@contextlib.contextmanager
def entered(app: Starlette, most: Callable[[str], int]) -> Iterator[Visitor]:
    """Somebody who has entered an application of the studio in this process."""
    access = Access(frozenset({"127.0.0.1:9"}), announce=lambda _secret: None)
    session = access.enter(access.secret)
    assert session is not None
    guard = Guard(app, access, most)
    guard.router = app.router  # type: ignore[attr-defined]
    transport = AppTransport(guard)
    with httpx.Client(transport=transport, cookies={access.cookie: session}) as client:
        yield Visitor(
            client=client,
            base="http://127.0.0.1:9",
            root=access.root(session),
            code=access.form_code(session),
        )
    transport.stop()
