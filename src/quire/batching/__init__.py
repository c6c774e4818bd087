"""Synchronous adaptive batching: images of waiting callers, sent in batches to a GPU backend."""
