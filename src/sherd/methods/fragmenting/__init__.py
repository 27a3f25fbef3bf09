"""Confidentiality constraints, fragments, loose associations and queries over them.

Published fragments keep true values; what is hidden is which part of a record in one
fragment belongs with which part in another.
"""
