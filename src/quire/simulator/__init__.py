"""A server that speaks the HTTP protocols of OpenAI and Anthropic and fails as its scenario says."""
