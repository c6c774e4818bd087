"""Quire turns documents into Markdown and never loses a page."""

__version__ = "0.1.0"
