"""The documentation builds without a warning, and needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def built(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of HTML pages that Sphinx makes, with warnings as errors."""
    pytest.importorskip("furo")
    folder = tmp_path_factory.mktemp("html")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", str(folder)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_becomes_html(root: Path, built: Path) -> None:
    """Each Markdown page has its HTML page."""
    docs = root / "docs"
    for page in docs.rglob("*.md"):
        if "_build" not in page.parts:
            assert (built / page.relative_to(docs)).with_suffix(".html").is_file()


def test_the_reference_is_filled(built: Path) -> None:
    """What is taken from the code stands in the HTML, and no place was left open."""
    for name, wanted in (
        ("command-line", "sherd ledger set-limit"),
        ("methods", "k_of"),
        ("errors", "output-exists"),
        ("assumptions", "row-structure-released"),
        ("python", "sherd.protect"),
    ):
        html = (built / "reference" / f"{name}.html").read_text(encoding="utf-8")
        assert wanted in re.sub(r"<[^>]+>", "", html) or wanted in html, name
        assert "from the code:" not in html


def test_no_page_loads_anything_from_another_host(built: Path) -> None:
    """Scripts, styles, pictures and fonts are all beside the pages."""
    loads = re.compile(
        r"<(?:script|img|iframe)[^>]+src=\"(?:https?:)?//|<link[^>]+stylesheet[^>]+//"
    )
    for page in built.rglob("*.html"):
        assert not loads.search(page.read_text(encoding="utf-8")), page.name
