"""The methods: one module each, all behind the contract of ``sherd.release.method``."""
