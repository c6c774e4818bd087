"""The catalog plane: documents, tags, vectors and search, on SQLite or PostgreSQL."""
