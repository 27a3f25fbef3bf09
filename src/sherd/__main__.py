#!/usr/bin/env python3
"""``python -m sherd`` and the command ``sherd``: the command line, interruptible from the start.

This file is installed as the command itself, because the one that installers write imports
regular expressions first, and Ctrl-C meanwhile is a traceback. What Python does before this
file's first line is its own.
"""

# `signal` would import `enum`, and with it much of what this file precedes.
import _signal  # type: ignore[import-not-found]
import os


def _end(*_given: object) -> None:
    """Nothing is begun yet, so there is nothing to undo."""
    os.write(2, b"interrupted: nothing was written\n")
    os._exit(130)


def main() -> None:
    """Run the command line; Ctrl-C ends it with 130 even while it is being imported."""
    # Not where the caller's shell has switched interrupts off.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _end)
    from sherd.cli import main as run

    run()


if __name__ == "__main__":
    main()
