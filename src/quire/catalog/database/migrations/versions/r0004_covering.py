"""On PostgreSQL the indexes behind the filters also hold the keys, so that listing what passes reads no rows.

SQLite's indexes always do.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_FILTERS = {
    "documents_by_status": ("status", ""),
    "documents_by_kind": ("kind", ""),
    "documents_by_language": ("language", ""),
    "documents_by_date": ("date", ""),
    "documents_untitled": ("status", " WHERE status = 'completed' AND title IS NULL"),
}


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    for name, (column, where) in _FILTERS.items():
        op.execute(f"DROP INDEX {name}")
        op.execute(f"CREATE INDEX {name} ON documents (team, {column}, seq) INCLUDE (pk){where}")
