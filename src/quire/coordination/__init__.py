"""The coordination plane: everything that Quire keeps in Redis or Valkey."""
