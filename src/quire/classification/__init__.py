"""Classification of documents without AI."""
