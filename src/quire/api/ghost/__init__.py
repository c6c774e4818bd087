"""The GhostServer facade."""
