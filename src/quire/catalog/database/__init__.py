"""The database behind the catalog: connections, schema, migrations."""
