"""What the contract tests share: a package beside Sherd that ships a method."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sherd.release import method

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTSIDE = Path(__file__).parents[1] / "support" / "outside"


@pytest.fixture
def outside_methods(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package ``coarse-rows`` is installed, for as long as the test lasts."""
    monkeypatch.syspath_prepend(str(OUTSIDE))
    method._outside.cache_clear()
    yield
    method._outside.cache_clear()
    sys.modules.pop("coarse_rows", None)
