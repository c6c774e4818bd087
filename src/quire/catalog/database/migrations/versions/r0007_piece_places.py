"""The chunks and the boxes of elements that a search piece is made of, as JSON; null in rows of earlier versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Nullable: a process of the version before stores pieces without it while a fleet is upgraded.
    op.add_column("document_pieces", sa.Column("places", sa.Text()))
