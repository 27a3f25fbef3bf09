"""The picture of an audit in the README is one that Sherd makes today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from walking import MAKING, keep_picture

import sherd
from sherd.auditing.case.case import Limits

if TYPE_CHECKING:
    from pathlib import Path


def test_the_readme_shows_the_page_of_an_audit(browser: Any, tmp_path: Path) -> None:
    """White wine by idp-cbls; all of it for the picture, some rows to see that its words hold."""
    table = sherd.datasets.load("wine")
    table = table.filter(pc.equal(table.column("color"), "white"))
    table = table if MAKING else table.slice(0, 400)
    plan = sherd.Plan(method="idp-cbls", epsilon=1.0, k=5, guarantee="paper")
    made = sherd.protect(table, sherd.datasets.schema("wine"), plan, ledger=None)
    few = Limits(attacked=200, modelled=400, compared=400, queries=20, runs=100, rounds=0)
    audited = sherd.audit(table, made, limits=Limits() if MAKING else few)
    page = tmp_path / "audit.html"
    audited.save(page)
    browser.get(page.as_uri())
    # Not what depends on chance: headline, lights and numbers do.
    keep_picture(browser, "audit", kind="", of=".stamp, dl.lights dt, thead th")
