"""Health, queues, models and metrics, for operators."""
