"""``sherd`` in a process that kills itself at a step: before or after the n-th call of a function.

python dying_party.py MODULE:NAME[.NAME] before|after N party run …
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any


def dies_at(place: str, when: str, calls: int) -> None:
    """Replace a function by one that ends this process as a power cut would."""
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for one in owners:
        owner = getattr(owner, one)
    real = getattr(owner, name)
    made = 0

    def dying(*given: Any, **named: Any) -> Any:
        nonlocal made
        made += 1
        if made == calls and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*given, **named)
        if made == calls and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, dying)


if __name__ == "__main__":
    dies_at(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.argv[1:] = [*sys.argv[4:], "--unwatched"]
    from sherd.__main__ import main

    main()
