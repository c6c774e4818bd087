"""What a file is, and how documents of each kind are opened."""
