"""How documents become jobs."""
