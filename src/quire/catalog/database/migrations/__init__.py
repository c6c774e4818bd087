"""Migrations of the catalog, run by Alembic."""
