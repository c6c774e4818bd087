"""Loaders for LangChain, LlamaIndex and Haystack. Each module needs the package it is for: an extra of that name."""
