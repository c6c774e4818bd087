"""The monthly budget of an API key, in micro-dollars; 0 is none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The default lets a process of the version before make keys while a fleet is upgraded.
    op.add_column(
        "api_keys", sa.Column("budget_micro", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    )
