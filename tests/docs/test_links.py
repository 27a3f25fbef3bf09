"""Links between the texts lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXTS = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if "_build" not in path.parts
)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^(```+).*?^\1[ ]*$", re.MULTILINE | re.DOTALL)


def _anchors(text: str) -> set[str]:
    """The names a heading can be linked by, as code hosts and MyST make them."""
    found = set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower().strip())
        found.add(plain.replace(" ", "-"))
    return found


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_files_and_headings_lead_somewhere(path: Path) -> None:
    """Every relative link names a file that is there, and a heading that is in it."""
    text = _FENCED.sub("", path.read_text(encoding="utf-8"))
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path if not name else (path.parent / name).resolve()
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target.read_text(encoding="utf-8")), link


def test_broken_links_would_be_noticed() -> None:
    """The anchors of a text are those of its headings and marks, and no others."""
    assert _anchors("# What is promised\n(mark)=\n## idp: noise, at x") == {
        "what-is-promised",
        "mark",
        "idp-noise-at-x",
    }


def test_every_page_is_reached_from_the_index() -> None:
    """No page is left out of the tables of contents: each folder's index takes all by a glob."""
    docs = ROOT / "docs"
    for folder in sorted(path for path in docs.iterdir() if (path / "index.md").is_file()):
        assert ":glob:" in (folder / "index.md").read_text(encoding="utf-8"), folder.name
        assert f"{folder.name}/index" in (docs / "index.md").read_text(encoding="utf-8")
    alone = {path.stem for path in docs.glob("*.md")} - {"index"}
    index = (docs / "index.md").read_text(encoding="utf-8")
    for name in alone:
        assert re.search(rf"^{name}$", index, re.MULTILINE), name
