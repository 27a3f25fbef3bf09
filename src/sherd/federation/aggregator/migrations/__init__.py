"""Alembic's migrations of the aggregator's database."""
