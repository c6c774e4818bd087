"""Measures how well a page was read, and grades it."""
