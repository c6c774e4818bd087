"""What Alembic runs for each upgrade: always on the connection that `quire.catalog.database.migrating` hands over."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None)
with context.begin_transaction():
    context.run_migrations()
