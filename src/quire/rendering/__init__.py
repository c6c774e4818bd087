"""Writes the elements of a page as Markdown, as plain text, as HTML and as JSON."""
