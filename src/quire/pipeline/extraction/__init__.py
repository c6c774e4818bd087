"""Extraction: questions about a finished document, asked through the dispatcher and checked against its pages."""
