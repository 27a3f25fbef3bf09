"""Sherd makes one protected table out of data that lies in fragments."""

__version__ = "0.1.0"
