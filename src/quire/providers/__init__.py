"""AI providers behind one protocol."""
