"""Aliases: further ids of a document, under which it was added again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    key = sa.BigInteger() if postgres else sa.Integer()
    op.create_table(
        "document_aliases",
        sa.Column("team", sa.Text(), primary_key=True),
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("document_pk", key, sa.ForeignKey("documents.pk", ondelete="CASCADE"), nullable=False),
    )
    op.create_index("document_aliases_document", "document_aliases", ["document_pk"])
