"""``python -m sherd`` and the command ``sherd``: the command line, interruptible from the start."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it with 130 even while it is being imported."""
    try:
        from sherd.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing was written\n")
        sys.stderr.flush()
        os._exit(130)
    run()


if __name__ == "__main__":
    main()
