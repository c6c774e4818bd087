"""AI calls: candidates, admission, failover, answer checks, cost."""
