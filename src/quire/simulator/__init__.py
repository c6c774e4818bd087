"""A server that speaks the HTTP protocols of OpenAI and Anthropic and misbehaves as it is told."""
