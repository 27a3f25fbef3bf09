"""Who says what to whom in a joint release, without sockets, files or clocks."""
