"""What a worker does with each kind of unit."""
