"""Signed addresses for uploads into buckets of callers, made with the callers' own credentials, without the network."""

from __future__ import annotations

from datetime import timedelta

from quire.errors import ObjectsError

_VALID_FOR = timedelta(minutes=15)


async def signed_put(
    endpoint: str, bucket: str, key: str, *, region: str, access_key: str, secret_key: str
) -> str:
    """An address to which the object can be put for some minutes. Raises ObjectsError for what can't be signed."""
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    try:
        store = S3Store(
            bucket,
            endpoint=endpoint,
            region=region or "us-east-1",
            access_key_id=access_key,
            secret_access_key=secret_key,
            virtual_hosted_style_request=False,
            client_options={"allow_http": endpoint.startswith("http://")},
        )
        return await obstore.sign_async(store, "PUT", key, _VALID_FOR)
    except (BaseError, ValueError) as error:
        raise ObjectsError(
            f"No upload to the bucket can be signed ({type(error).__name__}).", retryable=False
        ) from error
