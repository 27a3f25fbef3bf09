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
def test_the_examples_of_a_page_run(page: Path, run_page: Callable[[Path], dict[str, Any]]) -> None:
    """Doctests hold, scripts run, commands succeed and print what is shown."""
    run_page(page)


def test_there_are_examples() -> None:
    """The method pages carry numeric checks, so that an empty collection is noticed."""
    named = {str(page.relative_to(DOCS)) for page in PAGES}
    for method in ("dp", "idp", "dp-um", "idp-ls", "idp-cbls"):
        assert f"methods/{method}.md" in named
