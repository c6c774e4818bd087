"""Readers for documents that are markup and not pictures: office files, web pages, books, tables, mails."""
