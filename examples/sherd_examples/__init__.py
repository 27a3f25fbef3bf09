"""The demonstrations that `sherd demo` runs: joint releases by processes on this machine."""
