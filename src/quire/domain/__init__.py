"""Records and rules without I/O."""
