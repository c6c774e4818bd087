"""Background upkeep: lost units, deadlines, expiry, retention."""
