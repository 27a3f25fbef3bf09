"""``python -m sherd`` is the command line."""

from sherd.cli import main

if __name__ == "__main__":
    main()
