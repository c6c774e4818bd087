"""The other team of a vault, which is not that of the API's own server."""

from tests.support.vault_fixtures import beta

__all__ = ["beta"]
