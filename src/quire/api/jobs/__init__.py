"""Conversions over HTTP: documents in, jobs, pages, events, results."""
