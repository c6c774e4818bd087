"""The vault over HTTP: documents, their files, filters, search."""
