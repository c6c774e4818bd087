"""The pool of killable child processes."""
