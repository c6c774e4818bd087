"""PDF pages: text, layout, tables, pictures."""
