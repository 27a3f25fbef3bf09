"""Every page's examples run and print what the page shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if "_build" not in page.parts
    and any(mark in page.read_text(encoding="utf-8") for mark in ("```python", "```console"))
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_examples_of_a_page_run(
    page: Path, run_page: Callable[[Path], dict[str, Any]], request: pytest.FixtureRequest
) -> None:
    """Doctests hold, scripts run, commands succeed and print what is shown."""
    if "SHERD_DATA" in page.read_text(encoding="utf-8"):
        request.getfixturevalue("data_dir")
    run_page(page)


@pytest.mark.parametrize("name", ["acs", "kdd", "atus"])
def test_public_tables_go_from_text_to_a_report_on_one_page(name: str) -> None:
    """Each page drafts a schema, protects, verifies and audits, by commands that are run."""
    page = DOCS / "how-to" / f"protect-{name}.md"
    assert page in PAGES
    text = page.read_text(encoding="utf-8")
    for command in ("schema", "protect", "verify", "audit"):
        assert f"$ sherd {command} {name}" in text
    assert f"report: {name}-report.html" in text


def test_there_are_examples() -> None:
    """The method pages carry numeric checks, so that an empty collection is noticed."""
    named = {str(page.relative_to(DOCS)) for page in PAGES}
    ranking = ("dp", "idp", "dp-um", "idp-ls", "idp-cbls")
    for method in (*ranking, "slice", "mondrian", "anatomy"):
        assert f"methods/{method}.md" in named


@pytest.mark.parametrize(
    "wrong",
    [
        "```python\n>>> 1 + 1\n3\n```\n",
        "```python\nassert False\n```\n",
        "```console\n$ echo one\ntwo\n```\n",
        "```console\n$ sherd verify nowhere\n```\n",
        "```console\n$ sherd verify nowhere\n...\n$ echo $?\n0\n```\n",
    ],
    ids=["doctest", "script", "output", "failing command", "exit code"],
)
def test_a_page_that_says_something_wrong_fails(
    wrong: str, tmp_path: Path, run_page: Callable[[Path], dict[str, Any]]
) -> None:
    """The runner notices wrong results, wrong output, commands that fail, wrong exit codes."""
    page = tmp_path / "wrong.md"
    page.write_text(wrong, encoding="utf-8")
    with pytest.raises(AssertionError):
        run_page(page)


def test_blocks_of_a_page_share_folder_and_names(
    tmp_path: Path, run_page: Callable[[Path], dict[str, Any]]
) -> None:
    """A captioned block is a file, which commands and Python sessions of the page can read."""
    page = tmp_path / "page.md"
    page.write_text(
        "```{code-block} text\n:caption: a.txt\n\nhello\n```\n"
        "```console\n$ cat a.txt\nhello\n$ cat \\\n    a.txt\nhello\n$ false\n$ echo $?\n1\n```\n"
        "```python\n>>> text = open('a.txt').read\n```\n",
        encoding="utf-8",
    )
    names = run_page(page)
    assert "text" in names
    names["text"].__self__.close()
