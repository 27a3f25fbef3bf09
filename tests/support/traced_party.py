"""``sherd party run`` with its hops written to a file: ``traced_party.py HOPS FLOW party run …``.

``FLOW`` holds the functions to watch, a line each; ``HOPS`` gets those that were called, in order.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tracing import hops

from sherd.cli import run


def main(seen: Path, flow: Path, words: list[str]) -> int:
    """Run the command in this very process, and write down where it went."""
    codes: list[int] = []
    watched = flow.read_text(encoding="utf-8").split()
    told = hops(lambda: codes.append(run([*words, "--unwatched"])), watched)
    seen.write_text("\n".join(told), encoding="utf-8")
    return codes[0]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
