"""Alembic's entry: migrate over the connection that ``sherd`` opened."""

from __future__ import annotations

from alembic import context

from sherd.federation.aggregator.storage.tables import METADATA

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=METADATA)
context.run_migrations()
