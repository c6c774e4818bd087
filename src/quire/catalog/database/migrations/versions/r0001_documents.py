"""Documents, tags, the pieces of their texts and the words in them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    big = sa.BigInteger()
    key = sa.BigInteger() if postgres else sa.Integer()
    # Ranges of words are looked up by their bytes; a language's own order would not serve.
    word = sa.Text(collation="C") if postgres else sa.Text()
    number = sa.Float(precision=53)

    op.create_table(
        "catalog_teams",
        sa.Column("team", sa.Text(), primary_key=True),
        sa.Column("documents_made", big, nullable=False, server_default="0"),
        sa.Column("words", big, nullable=False, server_default="0"),
        sa.Column("pieces", big, nullable=False, server_default="0"),
    )
    op.create_table(
        "documents",
        sa.Column("pk", key, primary_key=True, autoincrement=True),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", big, nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("content_ref", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("size_bytes", big, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("created_at", number, nullable=False),
        sa.Column("updated_at", number, nullable=False),
        sa.Column("pending_since", number),
        sa.Column("completed_at", number),
        sa.Column("job_id", sa.Text()),
        sa.Column("result_ref", sa.Text()),
        sa.Column("pages", sa.Integer()),
        sa.Column("title", sa.Text()),
        sa.Column("summary", sa.Text()),
        sa.Column("date", sa.Text()),
        sa.Column("language", sa.Text()),
        sa.Column("classified_by", sa.Text()),
        sa.Column("tags", sa.Text(), nullable=False, server_default="[]"),
        sa.Column("error", sa.Text()),
        sa.Column("metadata", sa.Text(), nullable=False, server_default="{}"),
        sa.CheckConstraint("status IN ('pending', 'completed', 'failed')", name="documents_status"),
        sa.UniqueConstraint("team", "id", name="documents_team_id"),
        # A number that is never given twice: pieces and caches of vectors know documents by it.
        sqlite_autoincrement=True,
    )
    op.create_index("documents_newest", "documents", ["team", "seq"], unique=True)
    op.create_index("documents_by_status", "documents", ["team", "status", "seq"])
    op.create_index("documents_by_kind", "documents", ["team", "kind", "seq"])
    op.create_index("documents_by_language", "documents", ["team", "language", "seq"])
    op.create_index("documents_by_date", "documents", ["team", "date", "seq"])
    op.create_index("documents_by_creation", "documents", ["team", "created_at"])
    op.create_index("documents_by_hash", "documents", ["team", "content_hash", "seq"])
    pending = sa.text("status = 'pending'")
    untitled = sa.text("status = 'completed' AND title IS NULL")
    op.create_index(
        "documents_pending", "documents", ["pending_since"], sqlite_where=pending, postgresql_where=pending
    )
    # With the status, though it is always the same: else SQLite would take the index over all of them.
    op.create_index(
        "documents_untitled",
        "documents",
        ["team", "status", "seq"],
        sqlite_where=untitled,
        postgresql_where=untitled,
    )
    op.create_table(
        "document_tags",
        sa.Column("pk", key, primary_key=True, autoincrement=True),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("slug", word, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uses", big, nullable=False, server_default="0"),
        sa.UniqueConstraint("team", "slug", name="document_tags_team_slug"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "document_tag_assignments",
        sa.Column("document_pk", key, sa.ForeignKey("documents.pk", ondelete="CASCADE"), primary_key=True),
        sa.Column("tag_pk", key, sa.ForeignKey("document_tags.pk", ondelete="CASCADE"), primary_key=True),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("seq", big, nullable=False),
    )
    op.create_index("document_tag_assignments_newest", "document_tag_assignments", ["tag_pk", "seq"])
    op.create_table(
        "search_terms",
        sa.Column("team", sa.Text(), primary_key=True),
        sa.Column("term", word, primary_key=True),
        sa.Column("reversed", word, nullable=False),
        sa.Column("documents", big, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("search_terms_reversed", "search_terms", ["team", "reversed"])
    op.create_table(
        "document_pieces",
        sa.Column("id", key, primary_key=True, autoincrement=False),
        sa.Column("document_pk", key, sa.ForeignKey("documents.pk", ondelete="CASCADE"), nullable=False),
        sa.Column("team_word", sa.Text(), nullable=False),
        sa.Column("page", sa.Integer()),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.Column("often", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
    )
    op.create_index("document_pieces_document", "document_pieces", ["document_pk"])
    if postgres:
        op.execute("ALTER TABLE document_pieces ADD COLUMN words tsvector NOT NULL")
        # Texts are kept beside the rows, so that going through many rows for their numbers touches few pages.
        op.execute("ALTER TABLE document_pieces SET (toast_tuple_target = 128)")
        # Pending lists make single searches slow at random; writes are few and small enough without them.
        op.execute(
            "CREATE INDEX document_pieces_words ON document_pieces USING gin (words) WITH (fastupdate = off)"
        )
    else:
        _create_fts()


def _create_fts() -> None:
    # The words are folded before they come here; `ascii` only cuts them at the spaces. The triggers keep the index
    # in step with the table, for every write and delete, cascades included.
    op.execute(
        "CREATE VIRTUAL TABLE document_words USING fts5(team_word, head, often, body, "
        "content='document_pieces', content_rowid='id', tokenize='ascii')"
    )
    op.execute(
        "CREATE TRIGGER document_pieces_added AFTER INSERT ON document_pieces BEGIN "
        "INSERT INTO document_words(rowid, team_word, head, often, body) "
        "VALUES (new.id, new.team_word, new.head, new.often, new.body); END"
    )
    op.execute(
        "CREATE TRIGGER document_pieces_removed AFTER DELETE ON document_pieces BEGIN "
        "INSERT INTO document_words(document_words, rowid, team_word, head, often, body) "
        "VALUES ('delete', old.id, old.team_word, old.head, old.often, old.body); END"
    )
