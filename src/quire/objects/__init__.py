"""The object plane: originals and results, in a directory or a bucket."""
