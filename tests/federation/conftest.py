"""Consortia for the tests of joint releases."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from consortium import Consortium

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: these tests sync to disk all the time."""
    memory = Path("/dev/shm")  # noqa: S108 - a fresh folder of our own in it
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="sherd-test-") as folder:
        yield Path(folder)


@pytest.fixture
def consortium(quick_path: Path) -> Iterator[Consortium]:
    """An aggregator without owners yet."""
    made = Consortium(quick_path)
    yield made
    made.close()
