"""Doors: the interfaces of other systems, each a thin layer over the same engine."""
