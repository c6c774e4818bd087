"""Embeddings without a provider."""
