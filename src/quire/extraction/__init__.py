"""Values by a JSON Schema: what a schema asks for, where a document says it, and what can be found without AI."""
