"""The attacker's script: everybody who should not get into the studio tries to."""

from __future__ import annotations

import hashlib
import re
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.routing import Route
from studio_process import StudioProcess, Visitor, entered, start_studio

from sherd.errors import UsageError
from sherd.studio import studio_server
from sherd.studio.access_guard import MOST_FORM
from sherd.studio.page_rendering import application
from sherd.studio.steward import Steward

if TYPE_CHECKING:
    from collections.abc import Iterator


EVIL = "http://evil.example"
SECRET_CELL = "the-cell-nobody-may-log"


@pytest.fixture(scope="module", name="table")
def _table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose names and cells are scripts."""
    path = tmp_path_factory.mktemp("data") / "people.csv"
    lines = ['<script>alert(1)</script>,"x"" onload=""alert(2)",age']
    lines += [f"<img src=x onerror=alert({i})>,{SECRET_CELL}{i % 7},{i}" for i in range(50)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module", name="studio")
def _studio(tmp_path_factory: pytest.TempPathFactory, table: Path) -> Iterator[StudioProcess]:
    made = start_studio(tmp_path_factory.mktemp("studio"), str(table))
    yield made
    made.stop()


@pytest.fixture(scope="module", name="visitor")
def _visitor(studio: StudioProcess) -> Visitor:
    return studio.enter()


def raw(visitor: Visitor, text: str) -> str:
    """What the server answers to bytes that no browser would send."""
    host, port = visitor.base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as line:
        line.sendall(text.encode())
        line.settimeout(20)
        return line.recv(65536).decode(errors="replace")


def test_without_the_secret_there_is_nothing(visitor: Visitor) -> None:
    """No page, no file and no error tells a stranger anything."""
    for path in ("/", "/static/style.css", "/p/0123456789ab/open", visitor.root + "/"):
        answer = httpx.get(visitor.base + path)
        assert answer.status_code == 403
        assert "people" not in answer.text
    cookie = dict(visitor.client.cookies)
    assert httpx.get(visitor.base + "/" + "a" * 43 + "/", cookies=cookie).status_code == 403


def test_cookie_and_path_are_both_needed(visitor: Visitor) -> None:
    """The cookie of a session does not open the path of another, nor the path without it."""
    jar = dict(visitor.client.cookies)
    other = visitor.root[:-1] + ("0" if visitor.root[-1] != "0" else "1")
    assert httpx.get(visitor.base + other + "/", cookies=jar).status_code == 403
    assert httpx.get(visitor.base + visitor.root + "/").status_code == 403
    assert httpx.get(visitor.base + visitor.root + "/", cookies=jar).status_code == 200


def test_cookie_is_for_this_page_alone(studio: StudioProcess) -> None:
    """The browser gives the cookie to no script, no other site and no other path."""
    answer = httpx.get(studio.address)
    kept = answer.headers["set-cookie"]
    assert "HttpOnly" in kept
    assert "SameSite=strict" in kept
    path = re.search(r"Path=(/\w{40,})", kept)
    assert path is not None
    assert f'url={path[1]}/"' in answer.text


def test_address_works_once(studio: StudioProcess) -> None:
    """An address from the history of a browser opens nothing a second time; a fresh one does."""
    used = studio.address
    studio.enter()
    again = httpx.get(used)
    assert again.status_code == 403
    assert "works once" in again.text
    assert "set-cookie" not in again.headers
    assert studio.address != used


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost"])
def test_dns_rebinding(visitor: Visitor, host: str) -> None:
    """A name that was pointed at this machine is not ours, secret or not."""
    answer = visitor.get("/", headers={"Host": host})
    assert answer.status_code == 421
    assert "people" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_other_origins_cannot_post(visitor: Visitor, headers: dict[str, str]) -> None:
    """A form of another page is refused even with cookie, path and code."""
    answer = visitor.post("/open", {"source": ":wine"}, headers=headers)
    assert answer.status_code == 403


def test_other_origins_cannot_load(visitor: Visitor) -> None:
    """A page of another site that guesses the whole address gets nothing to show."""
    for site in ("cross-site", "same-site"):
        assert visitor.get("/", headers={"Sec-Fetch-Site": site}).status_code == 403


def test_no_origin_no_post(visitor: Visitor) -> None:
    """A browser always says where a form comes from; whoever does not is none."""
    answer = visitor.client.post(
        f"{visitor.base}{visitor.root}/open", data={"code": visitor.code, "source": ":wine"}
    )
    assert answer.status_code == 403


def test_form_needs_its_code(visitor: Visitor, studio: StudioProcess) -> None:
    """A form without the code of its own session is refused; another session's does not help."""
    other = studio.enter()
    for code in ("", "0" * 43, other.code):
        assert visitor.post("/open", {"source": ":wine", "code": code}).status_code == 403
    assert ">wine<" not in visitor.get("/").text.split("Opened before")[-1]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "HEAD"])
def test_other_methods(visitor: Visitor, method: str) -> None:
    """Nothing but looking and sending forms."""
    assert visitor.client.request(method, visitor.base + visitor.root + "/").status_code == 405


def test_every_answer_is_guarded(visitor: Visitor) -> None:
    """No inline script, nothing from elsewhere, no framing, nothing kept; errors included."""
    for path in ("/", "/static/htmx.min.js", "/nothing", "/p/0123456789ab/open"):
        headers = visitor.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "same-origin"


def test_oversized_bodies(visitor: Visitor) -> None:
    """Too long is refused by what the header says, and by what is really sent."""
    answer = visitor.post("/open", {"source": "x" * (MOST_FORM + 1)})
    assert answer.status_code == 413
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.client.cookies.items())
    head = (
        f"POST {visitor.root}/open HTTP/1.1\r\nHost: {visitor.base[7:]}\r\n"
        f"Origin: {visitor.base}\r\n"
        f"Cookie: {cookie}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    )
    piece = "x" * 65536
    chunks = "".join(f"{len(piece):x}\r\n{piece}\r\n" for _ in range(MOST_FORM // 65536 + 1))
    assert " 413 " in raw(
        visitor, head + "Transfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n"
    )
    assert " 413 " in raw(visitor, head + "Content-Length: 99999999\r\n\r\n")


def test_oversized_upload(tmp_path: Path) -> None:
    """A file above the bound never reaches the disk."""
    steward = Steward(tmp_path / "w", ledger=None, most_upload=2_000_000)
    with entered(steward.app(), steward.most) as visitor:
        answer = upload(visitor, "big.csv", b"a,b\n" + b"1,2\n" * 900_000)
    assert answer.status_code == 413
    assert not (tmp_path / "w" / "uploads").exists()


def upload(visitor: Visitor, name: str, data: bytes) -> httpx.Response:
    """Send a file as a browser does."""
    return visitor.client.post(
        f"{visitor.base}{visitor.root}/upload",
        data={"code": visitor.code},
        files={"file": (name, data)},
        headers={"Origin": visitor.base},
        follow_redirects=True,
    )


def test_compressed_bomb(visitor: Visitor) -> None:
    """A few hundred kilobytes that unpack to hundreds of megabytes are refused, not unpacked."""
    bomb = pa.compress(b"a,b\n" + b"0,0\n" * (80 << 20), codec="zstd", asbytes=True)
    assert len(bomb) < 1_000_000
    answer = upload(visitor, "bomb.csv.zst", bomb)
    project = re.search(r"/p/(\w+)/open", str(answer.url))
    assert project is not None
    text = visitor.until(f"/p/{project[1]}/open", "far too large")
    assert "unpack it yourself" in text


def test_parquet_bomb(visitor: Visitor, tmp_path: Path) -> None:
    """Runs of one value hide a table of a billion cells in a small file."""
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({f"c{i}": pa.nulls(1_000_000) for i in range(300)}), path)
    assert path.stat().st_size < 2_000_000
    answer = upload(visitor, "bomb.parquet", path.read_bytes())
    assert answer.status_code == 400
    assert "far too large" in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/static/../studio_server.py",
        "/static/..%2f..%2fstudio_server.py",
        "/static/VENDORED.md",
        "/p/..%2f..%2f..%2fetc/open",
        "/p/../../etc/passwd",
        "/j/..%2f..%2f",
        "/p/0123456789ab/release/../../../../etc/passwd",
    ],
)
def test_path_traversal_by_address(visitor: Visitor, path: str) -> None:
    """No address leads out of the studio's own files."""
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.client.cookies.items())
    text = raw(
        visitor,
        f"GET {visitor.root}{path} HTTP/1.1\r\nHost: {visitor.base[7:]}\r\nCookie: {cookie}\r\n"
        "Connection: close\r\n\r\n",
    )
    assert re.match(r"HTTP/1.1 4\d\d ", text)
    assert "root:" not in text
    assert "StudioServer" not in text


@pytest.mark.parametrize("name", ["../../escaped.csv", "..\\escaped.csv", "/tmp/escaped.csv"])  # noqa: S108
def test_path_traversal_by_upload(visitor: Visitor, name: str, tmp_path: Path) -> None:
    """The name that a browser gives says nothing about where a file is kept."""
    answer = upload(visitor, name, b"a,b\n1,2\n3,4\n")
    assert answer.status_code == 200
    assert "escaped.csv" in answer.text
    assert not any(Path("/tmp").glob("escaped.csv"))  # noqa: S108


def test_upload_of_another_kind(visitor: Visitor) -> None:
    """What is no table is not kept."""
    for name in ("x.html", "x.py", "x.csv.exe", "x"):
        assert upload(visitor, name, b"a,b\n1,2\n").status_code == 400


def test_names_and_cells_are_text(visitor: Visitor, table: Path) -> None:
    """A script in a column's name or in a cell is shown, never part of the page."""
    project = re.search(r'/p/(\w+)/open">people.csv', visitor.get("/").text)
    assert project is not None
    visitor.until(f"/p/{project[1]}/open", "Attributes as they were read")
    for step in ("open", "schema", "promise"):
        text = visitor.get(f"/p/{project[1]}/{step}").text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert 'onload="alert' not in text
        if step != "promise":
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', text)


def test_nothing_is_logged(studio: StudioProcess, visitor: Visitor) -> None:
    """What the studio prints is its addresses; errors on pages and in jobs name no cell."""
    bad = b"a,b\n1,2\n3," + SECRET_CELL.encode() + b",extra\n"
    upload(visitor, "bad.csv", bad)
    visitor.get("/p/ffffffffffff/open")
    visitor.post("/open", {"source": f"/nowhere/{SECRET_CELL}"})
    assert all("http://" in line or "Ctrl-C" in line for line in studio.lines), studio.lines
    assert SECRET_CELL not in "\n".join(studio.lines)


def test_errors_of_ours_show_kind_and_place_only() -> None:
    """An unforeseen error could quote a cell in its text; only its type and line are told."""

    async def broken(_request: object) -> None:
        raise ValueError(SECRET_CELL)

    with entered(application([Route("/", broken)]), lambda _path: 0) as visitor:
        answer = visitor.get("/")
    assert answer.status_code == 500
    assert "ValueError" in answer.text
    assert SECRET_CELL not in answer.text


def test_other_users_cannot_read_the_workspace(tmp_path: Path) -> None:
    """Folders and files of the studio are its user's alone."""
    from sherd.studio.workspace import Workspace

    made = Workspace(tmp_path / "w").make(name="x", source=":wine")
    for path in (tmp_path / "w", made.folder):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(made.file("project.json").stat().st_mode) == 0o600


def test_secret_is_not_on_a_command_line() -> None:
    """The browser is started with a private file; other users can read command lines."""
    asked: list[str] = []
    path = studio_server.show("http://127.0.0.1:1/secret", launch=asked.append)
    try:
        assert "secret" not in asked[0]
        assert asked[0].startswith("file://")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "http://127.0.0.1:1/secret" in path.read_text()
    finally:
        path.unlink()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "example.org", "::"])  # noqa: S104
def test_only_this_machine(host: str) -> None:
    """The studio does not listen where others could reach it."""
    with pytest.raises(UsageError, match="only listens on this machine"):
        studio_server.listen(host, 0)


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    """Exit code 0, and the address is free again."""
    made = start_studio(tmp_path)
    port = int(made.address.split(":")[2].split("/")[0])
    assert made.stop() == 0
    assert made.lines[-1] == "the studio is closed"
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))


def test_vendored_files_are_the_published_ones() -> None:
    """Their hashes are those written beside them, and every script that is not ours is listed."""
    folder = Path(studio_server.__file__).parent / "static"
    told = dict(
        re.findall(
            r"^\| (\S+) \|.*\| ([0-9a-f]{64}) \|$",
            (folder / "VENDORED.md").read_text(),
            re.MULTILINE,
        )
    )
    for name, digest in told.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert {p.name for p in folder.iterdir()} - set(told) == {
        "VENDORED.md",
        "studio.js",
        "style.css",
    }
    assert set(told) == {"htmx.min.js", "sse.min.js"}


def test_the_studio_stays_small() -> None:
    """Fewer than 5,000 lines of code, pages and style; a line of more than 100 letters is more."""
    folder = Path(studio_server.__file__).parent
    own = [p for p in folder.rglob("*") if p.suffix in (".py", ".html", ".css", ".js")]
    texts = [p.read_text(encoding="utf-8") for p in own if ".min." not in p.name]
    texts.append((folder.parent / "cli" / "studio.py").read_text(encoding="utf-8"))
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    assert len(lines) > 2000, "the count found the studio"
    assert sum(-(-len(line) // 100) for line in lines) < 5000
