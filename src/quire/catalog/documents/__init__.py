"""Documents, tags and lists of them, as rows."""
