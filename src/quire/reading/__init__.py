"""Parsers: they run in child processes that may crash."""
