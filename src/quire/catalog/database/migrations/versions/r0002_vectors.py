"""Vectors of documents and tags, and the counters by which caches of them notice changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    if postgres:
        op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    key = sa.BigInteger() if postgres else sa.Integer()
    for counter in ("vector_changes", "vectors_removed"):
        op.add_column(
            "catalog_teams", sa.Column(counter, sa.BigInteger(), nullable=False, server_default="0")
        )
    for table, owner in (("document_embeddings", "document"), ("document_tag_embeddings", "tag")):
        owners = "documents" if owner == "document" else "document_tags"
        op.create_table(
            table,
            sa.Column(
                f"{owner}_pk",
                key,
                sa.ForeignKey(f"{owners}.pk", ondelete="CASCADE"),
                primary_key=True,
                autoincrement=False,
            ),
            sa.Column("team", sa.Text(), nullable=False),
            sa.Column("model", sa.Text(), nullable=False),
            sa.Column("dims", sa.Integer(), nullable=False),
            sa.Column("text_hash", sa.Text(), nullable=False),
            sa.Column("change", sa.BigInteger(), nullable=False),
            sa.Column("embedding", sa.LargeBinary(), nullable=False),
        )
        op.create_index(f"{table}_changes", table, ["team", "model", "change"])
        if postgres:
            # The width is not fixed, because the model may change; each width has a partial index of its own.
            op.execute(f"ALTER TABLE {table} DROP COLUMN embedding")
            op.execute(f"ALTER TABLE {table} ADD COLUMN embedding halfvec NOT NULL")
            op.execute(f"ALTER TABLE {table} ALTER COLUMN embedding SET STORAGE EXTERNAL")
