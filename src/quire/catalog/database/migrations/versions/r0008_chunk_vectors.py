"""Vectors of the text chunks of each document, packed into one row."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "document_chunk_embeddings",
        sa.Column(
            "document_pk",
            sa.BigInteger() if postgres else sa.Integer(),
            sa.ForeignKey("documents.pk", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("dims", sa.Integer(), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.Column("sheet", sa.LargeBinary(), nullable=False),
    )
    if postgres:  # such bytes can't be compressed
        op.execute("ALTER TABLE document_chunk_embeddings ALTER COLUMN sheet SET STORAGE EXTERNAL")
