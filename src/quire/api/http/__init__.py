"""What every route shares: who asks, bodies, answers, errors, the request log."""
