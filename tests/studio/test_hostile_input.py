"""More of the attacker's script: files, forms and bytes that are made to do harm."""

from __future__ import annotations

import ast
import re
import shlex
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from studio_process import Visitor, entered

from sherd.studio import steward_release
from sherd.studio.access_guard import Access
from sherd.studio.steward import Steward
from sherd.studio.studio_server import StudioServer
from sherd.studio.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


SCRIPT = "<svg onload=alert(1)>"
LAUGHS = "a0: &a0 [l, l, l, l, l, l, l, l, l, l]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)
)
"""A few hundred bytes of YAML that stand for a thousand million texts."""


@pytest.fixture(scope="module", name="steward")
def _steward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steward]:
    made = Steward(tmp_path_factory.mktemp("hostile") / "w", ledger=None)
    yield made
    made.jobs.close()


@pytest.fixture(scope="module", name="visitor")
def _visitor(steward: Steward) -> Iterator[Visitor]:
    with entered(steward.app(), steward.most) as made:
        yield made


@pytest.fixture(scope="module", name="project")
def _project(steward: Steward, visitor: Visitor, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small table that is opened and described."""
    path = tmp_path_factory.mktemp("table") / "t.csv"
    path.write_text("age,sex\n" + "".join(f"{20 + i},{'mf'[i % 2]}\n" for i in range(40)))
    answer = visitor.post("/open", {"source": str(path)})
    there = str(answer.url).split(visitor.root)[1].removesuffix("/open")
    (job,) = steward.jobs.of(there.removeprefix("/p/"), "profile")
    steward.jobs.wait(job.id, 60)
    return there


@pytest.fixture(scope="module", name="place")
def _place(steward: Steward) -> Iterator[tuple[str, int]]:
    """The same studio on a real socket: its host and port."""
    server = StudioServer(steward.app(), most=steward.most, announce=lambda _address: None)
    thread = threading.Thread(target=server.run)
    thread.start()
    host, port = server.address.removeprefix("http://").split("/")[0].split(":")
    yield host, int(port)
    server.stop()
    thread.join()


def sent(place: tuple[str, int], text: str) -> str:
    """What the server answers to these bytes, if anything."""
    with socket.create_connection(place, timeout=20) as line:
        line.sendall(text.replace("HOST", f"{place[0]}:{place[1]}").encode())
        line.settimeout(20)
        return line.recv(65536).decode(errors="replace")


@pytest.mark.parametrize(
    "text",
    [
        "GET / HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n",
        "GET http://evil.example/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
        "GET //evil.example/%2e%2e HTTP/1.1\r\nHost: HOST\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0",
        "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: -5\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1e9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: HOST\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        "CONNECT evil.example:443 HTTP/1.1\r\nHost: HOST\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: HOST\r\nCookie: " + "a" * 200_000 + "\r\n\r\n",
        "\x00\x01\x02 nonsense\r\n\r\n",
    ],
    ids=["two-hosts", "whole-address", "slashes", "two-lengths", "negative", "not-a-length",
         "websocket", "connect", "no-host", "long-header", "noise"],
)  # fmt: skip
def test_bytes_that_no_browser_sends(place: tuple[str, int], text: str) -> None:
    """Nothing but a refusal comes back, whatever is smuggled in; the studio goes on."""
    answer = sent(place, text)
    assert not answer or re.match(r"HTTP/1\.1 4\d\d ", answer), answer[:200]
    assert "set-cookie" not in answer.lower()
    assert re.match(r"HTTP/1\.1 403 ", sent(place, "GET /x HTTP/1.1\r\nHost: HOST\r\n\r\n"))


def test_a_body_that_drips_holds_up_nobody(place: tuple[str, int]) -> None:
    """Connections that never end their request do not keep others from being answered."""
    head = f"POST /x HTTP/1.1\r\nHost: {place[0]}:{place[1]}\r\nContent-Length: 9\r\n"
    waiting = [socket.create_connection(place) for _ in range(60)]
    try:
        for line in waiting:
            line.sendall(head.encode())
        start = time.monotonic()
        assert " 403 " in sent(place, "GET /x HTTP/1.1\r\nHost: HOST\r\n\r\n")
        assert time.monotonic() - start < 10
    finally:
        for line in waiting:
            line.close()


def test_session_of_an_earlier_studio() -> None:
    """A cookie and a path that were good before the studio was started again open nothing."""
    hosts = frozenset({"127.0.0.1:9"})
    before, after = (Access(hosts, announce=lambda _secret: None) for _ in range(2))
    session = before.enter(before.secret)
    assert session is not None
    from starlette.datastructures import Headers

    jar = Headers({"cookie": f"{before.cookie}={session}"})
    assert before.session(jar, before.root(session) + "/") == session
    assert after.session(jar, before.root(session) + "/") is None
    assert after.session(jar, after.root(session) + "/") is None, "nor with a path made for it"


def test_two_cookies_of_one_name(steward: Steward, visitor: Visitor) -> None:
    """A cookie that another server on this machine planted does not become a session."""
    (name, value), *_ = visitor.client.cookies.items()
    url = f"{visitor.base}{visitor.root}/"
    del steward
    forged = visitor.client.get(url, headers={"Cookie": f"{name}=planted"})
    assert forged.status_code == 403
    with_path = visitor.client.get(url, headers={"Cookie": f"{name}={value[:-1]}x"})
    assert with_path.status_code == 403


def test_forms_lead_nowhere_else(steward: Steward, visitor: Visitor, project: str) -> None:
    """Where a form asks to be sent on to, it stays below the session's own path."""
    (job,) = steward.jobs.of(project.removeprefix("/p/"), "profile")
    for back in (
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
    ):
        answer = visitor.post(f"/j/{job.id}/stop", {"back": back}, follow=False)
        there = answer.headers.get("location", visitor.root)
        assert there.startswith(visitor.root)
    answer = visitor.post(f"{project}/promise", {"method": "dp", "epsilon": "1", "next": "//evil"},
                          follow=False)  # fmt: skip
    assert not answer.headers.get("location", "").startswith("//")


def test_too_many_fields(visitor: Visitor, project: str) -> None:
    """A form of very many fields is refused or read, in seconds, and never an error of ours."""
    start = time.monotonic()
    many = {f"f{i}": "" for i in range(50_000)}
    assert visitor.post(f"{project}/promise/words", many).status_code < 500
    parts = {f"g{i}": (None, "") for i in range(300)}
    answer = visitor.client.post(
        f"{visitor.base}{visitor.root}/upload", files=parts, headers={"Origin": visitor.base}
    )
    assert answer.status_code in (400, 403)
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch /tmp/sherd-was-here']",
        "!!python/name:os.system",
        "[" * 5000,
        "{a: &a [*a]}",
        LAUGHS,
    ],
    ids=["call", "name", "deep", "of-itself", "laughs"],
)
@pytest.mark.timeout(60)
def test_parameters_that_are_programs(visitor: Visitor, project: str, text: str) -> None:
    """A parameter's text is data: nothing is run, nothing is unfolded, what is wrong is said."""
    for name in ("constraints", "looseness", "epsilon", "bins"):
        answer = visitor.post(f"{project}/promise/words", {"method": "fragment", name: text})
        assert answer.status_code < 500, name
        assert "bug in sherd" not in answer.text
    from pathlib import Path

    assert not Path("/tmp/sherd-was-here").exists()  # noqa: S108


@pytest.mark.timeout(60)
def test_schemas_that_are_traps(visitor: Visitor, project: str, tmp_path: Path) -> None:
    """A schema from somebody else can neither run, nor unfold, nor show another file."""
    (tmp_path / "secret").write_text("root:x:0:0:the-secret-of-another-file\n")
    traps = {
        "laughs.yaml": LAUGHS + "attributes: {age: {values: *a8}}\n",
        "call.yaml": "attributes: !!python/object/apply:os.system [id]\n",
        "deep.yaml": "attributes: " + "[" * 3000 + "\n",
        "none.yaml": "",
        "list.yaml": "- attributes\n",
        "null.yaml": "attributes: {age: null, sex: 3}\n",
        "noise.yaml": "\x00\x01",
    }
    for name, text in traps.items():
        (tmp_path / name).write_text(text)
    for name in (*traps, "secret"):
        form = {"path": str(tmp_path / name), "do": "open"}
        answer = visitor.post(f"{project}/schema/file", form)
        assert answer.status_code == 400, (name, answer.text[:500])
        assert "bug in sherd" not in answer.text
        assert "the-secret-of-another-file" not in answer.text
    assert "decisions still open" in visitor.get(f"{project}/schema").text, "the own one is kept"


def test_a_table_that_is_wide_or_has_long_cells(visitor: Visitor, tmp_path: Path) -> None:
    """A page shows what a person reads: a hundred columns, the beginning of a cell."""
    wide = {f"c{i}": ["x" * 5000, "y"] for i in range(3000)}
    pq.write_table(pa.table(wide), tmp_path / "wide.parquet")
    (tmp_path / "wide.csv").write_text(
        ",".join(f"c{i}" for i in range(3000)) + "\n" + ",".join(["z" * 900] * 3000) + "\n"
    )
    for name in ("wide.parquet", "wide.csv"):
        answer = visitor.post("/open", {"source": str(tmp_path / name)})
        assert answer.status_code == 200
        assert "100 of 3,000 attributes" in answer.text
        assert len(answer.text) < 200_000
        assert "x" * 201 not in answer.text
        assert "z" * 201 not in answer.text


NASTY = ("a; touch x", "$(id)", "`id`", "o'clock", 'say "x"', "new\nline", SCRIPT, "--help", "{0}")


@pytest.mark.parametrize("name", NASTY)
def test_the_same_again_of_a_nasty_name(tmp_path: Path, name: str) -> None:
    """Whatever a file is called, the command has it as one word and Python as one text."""
    project = Workspace(tmp_path / "w").make(name=name, source=f"/data/{name}.csv", query=name)
    given: dict[str, Any] = {
        "format": "csv",
        "spreadsheet_safe": False,
        "row_map": None,
        "seed": None,
        "ledger": f"/l/{name}",
        "output": f"/o/{name}",
    }
    words = shlex.split(steward_release.command_line(project, tmp_path, given))
    assert words[2] == f"/data/{name}.csv"
    assert words[-1] == f"/o/{name}-again"
    tree = ast.parse("\n".join(steward_release.python_code(project, tmp_path, given)))
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    assert {f"/data/{name}.csv", f"/l/{name}", name} <= texts
    calls = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    assert calls == {"sherd.Schema.load", "sherd.Plan.load", "print", "plan.explain", "sherd.read",
                     "sherd.protect", "sherd.Ledger", "sherd.Settings", "release.save",
                     "sherd.audit"}  # fmt: skip


def test_scripts_in_names_of_everything(steward: Steward, visitor: Visitor, tmp_path: Path) -> None:
    """A script as a file's name, a column's, a label or a population is text on every page."""
    path = tmp_path / f"{SCRIPT.replace('/', '')}.csv"
    rows = "".join(f"{i},{SCRIPT}{i % 3}\n" for i in range(60))
    path.write_text(f"{SCRIPT},b{SCRIPT}\n{rows}")
    answer = visitor.post("/open", {"source": str(path)})
    there = str(answer.url).split(visitor.root)[1].removesuffix("/open")
    (job,) = steward.jobs.of(there.removeprefix("/p/"), "profile")
    steward.jobs.wait(job.id, 60)
    known = {"role": "quasi-identifier", "known": "yes"}
    bounds = {"type": "integer", "low": "0", "high": "99"}
    visitor.post(f"{there}/schema", {"attribute": SCRIPT, **known, **bounds})
    labels = {"type": "category", "values": "\n".join(f"{SCRIPT}{i}" for i in range(3))}
    visitor.post(f"{there}/schema", {"attribute": f"b{SCRIPT}", **known, **labels})
    visitor.post(f"{there}/schema/population", {"population": SCRIPT})
    visitor.post(f"{there}/promise", {"method": "dp", "epsilon": "1"})
    for page in (
        "open",
        "schema",
        "promise?method=dp",
        "explore",
        "release",
        "promise?method=" + SCRIPT,
    ):
        text = visitor.get(f"{there}/{page}").text
        assert SCRIPT not in text, page
        assert "bug in sherd" not in text, page
    assert SCRIPT not in visitor.get("/").text
