"""`POST /parse`: its routes, and the front door that accepts every connection."""
