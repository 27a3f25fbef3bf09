"""Every route of the studio answers every caller as the reference says, which has them all."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from organisations import Organisations
from studio_process import entered

from sherd.studio.steward import Steward

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.applications import Starlette
    from studio_process import Visitor

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "studio-routes.md"
ELSEWHERE = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
HOMES = ("steward", "owner", "aggregator")

Answers = tuple[int, int, int | None, int]
"""The statuses for a stranger, another page, a form without its code, and the visitor."""


@pytest.fixture(scope="module", name="visitors")
def _visitors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Visitor]]:
    """Somebody at each home of the studio, in which nothing has been done yet."""
    folder = tmp_path_factory.mktemp("homes")
    with contextlib.ExitStack() as stack:
        steward = Steward(folder / "steward", ledger=None)
        stack.callback(steward.jobs.close)
        others = Organisations(folder / "joint", stack)
        others.set_up("north", 0)
        others.join("north", others.enrol("north").content)
        yield {
            "steward": stack.enter_context(entered(steward.app(), steward.most)),
            "owner": others.visitors["north"],
            "aggregator": others.operator,
        }


def told() -> dict[tuple[str, str, str], Answers]:
    """What the reference says: home, method and path, and the status of each caller."""
    rows, home = {}, ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            home = line.split("`")[1]
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            method, path = cells[0].strip("`").split(" ")
            first, second, third, fourth = cells[1:5]
            code = None if third == "–" else int(third)
            rows[home, method, path] = (int(first), int(second), code, int(fourth))
    return rows


def routes_of(app: Starlette) -> set[tuple[str, str]]:
    """The routes of an application, by method and path."""
    return {
        (method, route.path)  # type: ignore[attr-defined]
        for route in app.routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    }


def answers(visitor: Visitor, method: str, path: str) -> Answers:
    """The statuses of each caller, names in the path being made up."""
    there = re.sub(r"{\w+}", "0123456789ab", path)
    address = visitor.base + visitor.root + there
    stranger = httpx.Client(transport=visitor.client._transport).request(method, address)
    from_elsewhere = visitor.client.request(method, address, headers=ELSEWHERE)
    if method == "GET":
        return (
            stranger.status_code,
            from_elsewhere.status_code,
            None,
            visitor.get(there).status_code,
        )
    own = {"Origin": visitor.base, "Sec-Fetch-Site": "same-origin"}
    without = visitor.client.post(address, data={"name": "north"}, headers=own)
    answer = visitor.post(there, follow=False)
    return stranger.status_code, from_elsewhere.status_code, without.status_code, answer.status_code


def test_every_route_is_in_the_reference(visitors: dict[str, Visitor]) -> None:
    """No home has a route that the page does not name, and the page names no other."""
    listed = {home: {(m, p) for h, m, p in told() if h in ("any", home)} for home in HOMES}
    for home, visitor in visitors.items():
        app = visitor.client._transport._app._app  # type: ignore[attr-defined]
        assert routes_of(app) == listed[home], home


def test_every_caller_gets_what_the_reference_says(visitors: dict[str, Visitor]) -> None:
    """Strangers and other pages get nothing anywhere; a form needs its code."""
    for (home, method, path), statuses in told().items():
        for each in HOMES if home == "any" else (home,):
            assert answers(visitors[each], method, path) == statuses, (each, method, path)
            assert statuses[:2] == (403, 403)
            assert statuses[2] in (None, 403)
