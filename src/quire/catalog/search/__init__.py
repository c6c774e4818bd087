"""Full-text and vector search: the index, queries, ranking."""
