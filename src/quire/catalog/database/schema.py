"""The tables as the queries use them; `migrations/` creates them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, LargeBinary, MetaData, Table, Text

METADATA = MetaData()

TEAMS = Table(
    "catalog_teams",
    METADATA,
    Column("team", Text, primary_key=True),
    Column("documents_made", BigInteger, nullable=False),
    Column("words", BigInteger, nullable=False),
    Column("pieces", BigInteger, nullable=False),
    Column("vector_changes", BigInteger, nullable=False),
    Column("vectors_removed", BigInteger, nullable=False),
)
"""One row for each team: the counters that number its documents and by which caches detect changes."""

DOCUMENTS = Table(
    "documents",
    METADATA,
    Column("pk", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("team", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("filename", Text, nullable=False),
    Column("content_ref", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("content_type", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("pending_since", Float),
    Column("completed_at", Float),
    Column("job_id", Text),
    Column("result_ref", Text),
    Column("pages", Integer),
    Column("title", Text),
    Column("summary", Text),
    Column("date", Text),
    Column("language", Text),
    Column("classified_by", Text),
    Column("tags", Text, nullable=False),
    Column("error", Text),
    Column("metadata", Text, nullable=False),
)
"""`seq` numbers a team's documents in the order in which they became visible. `tags` repeats the names, as JSON."""

ALIASES = Table(
    "document_aliases",
    METADATA,
    Column("team", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("document_pk", ForeignKey("documents.pk", ondelete="CASCADE"), nullable=False),
)
"""Aliases: further ids of a document, under which it was added again."""

TAGS = Table(
    "document_tags",
    METADATA,
    Column("pk", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("team", Text, nullable=False),
    Column("slug", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("uses", BigInteger, nullable=False),
)

ASSIGNMENTS = Table(
    "document_tag_assignments",
    METADATA,
    Column("document_pk", ForeignKey("documents.pk", ondelete="CASCADE"), primary_key=True),
    Column("tag_pk", ForeignKey("document_tags.pk", ondelete="CASCADE"), primary_key=True),
    Column("team", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
)
"""`seq` is the document's, so that the newest documents of a tag are found without sorting."""

PIECES = Table(
    "document_pieces",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("document_pk", ForeignKey("documents.pk", ondelete="CASCADE"), nullable=False),
    Column("team_word", Text, nullable=False),
    Column("page", Integer),
    Column("text", Text, nullable=False),
    Column("head", Text, nullable=False),
    Column("often", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("places", Text),
)
"""`id` is the document's pk * 4096 + the piece's number. Number 0 is the head: title, tags, file name and summary.

`team_word` is the team as a single word for the index. `head`, `often` and `body` are folded words; `often` are those
that the piece repeats. `places` is JSON of the chunks and elements of the piece (`search/piece_places.py`). The
indexes over the words are the database's own: the FTS5 table `document_words`, or the tsvector column `words`.
"""

TERMS = Table(
    "search_terms",
    METADATA,
    Column("team", Text, primary_key=True),
    Column("term", Text, primary_key=True),
    Column("reversed", Text, nullable=False),
    Column("documents", BigInteger, nullable=False),
)
"""Every word of a team and the number of heads and bodies that contain it."""

DOCUMENT_VECTORS = Table(
    "document_embeddings",
    METADATA,
    Column("document_pk", ForeignKey("documents.pk", ondelete="CASCADE"), primary_key=True),
    Column("team", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("dims", Integer, nullable=False),
    Column("text_hash", Text, nullable=False),
    Column("change", BigInteger, nullable=False),
    Column("embedding", LargeBinary, nullable=False),
)

TAG_VECTORS = Table(
    "document_tag_embeddings",
    METADATA,
    Column("tag_pk", ForeignKey("document_tags.pk", ondelete="CASCADE"), primary_key=True),
    Column("team", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("dims", Integer, nullable=False),
    Column("text_hash", Text, nullable=False),
    Column("change", BigInteger, nullable=False),
    Column("embedding", LargeBinary, nullable=False),
)
"""`embedding` is float16 bytes on SQLite and `halfvec` on PostgreSQL; only the vector stores touch it."""

CHUNK_VECTORS = Table(
    "document_chunk_embeddings",
    METADATA,
    Column("document_pk", ForeignKey("documents.pk", ondelete="CASCADE"), primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("state", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("dims", Integer, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("most", Integer, nullable=False),
    Column("sheet", LargeBinary, nullable=False),
)
"""The vectors of the pieces of a document (`search/chunk_sheet.py`). `revision` counts its texts; `state` is 0 for a
sheet of an earlier text, 1 while vectors are added, 2 when all are there. `most` is how many pieces may have one."""

PIECE_BITS = 12

BUCKET_BITS = 12
"""On PostgreSQL the pieces of 4096 documents that follow each other share a word, by which the newest are found."""
