"""Audit: what a release is worth, what it gives away, whether its promise holds."""
