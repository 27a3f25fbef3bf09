"""Audit: what a release is worth, what it gives away, whether its promise holds.

The room is called ``auditing`` because ``sherd.audit`` is the verb: the function of ``run``.
"""
