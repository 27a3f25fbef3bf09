"""Consortia for the tests of joint releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from consortium import Consortium
from processes import Village, quick_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A folder in memory where there is one: these tests sync to disk all the time."""
    with quick_folder() as folder:
        yield folder


@pytest.fixture
def village(quick_path: Path) -> Iterator[Village]:
    """An aggregator as a process, whose owners are yet to come."""
    made = Village(quick_path)
    yield made
    made.close()


@pytest.fixture
def consortium(quick_path: Path) -> Iterator[Consortium]:
    """An aggregator without owners yet."""
    made = Consortium(quick_path)
    yield made
    made.close()
