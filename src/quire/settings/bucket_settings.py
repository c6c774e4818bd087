"""The settings of buckets that documents come from and results go to.

S3 first, then Google Cloud Storage (`gs://`) and Azure (`az://`).
"""
# ruff: noqa: RUF009 - `setting` is `dataclasses.field` with a description; its values are immutable

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from quire.settings import setting_kinds
from quire.settings.setting_kinds import ValueKind, setting

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
_SCHEMES = ("s3", "gs", "az")


def bucket() -> ValueKind[str]:
    def read(value: str) -> str:
        if value and not _BUCKET.fullmatch(value):
            raise ValueError("not a bucket")
        return value

    return ValueKind("the name of a bucket, or nothing", read, str)


def bucket_places() -> ValueKind[tuple[str, ...]]:
    """`bucket`, `bucket/prefix` or `gs://bucket/prefix`, comma-separated; read as `s3://bucket/prefix/`."""

    def read_one(value: str) -> str:
        scheme, mark, place = value.partition("://")
        if not mark:
            scheme, place = "s3", value
        name, _, prefix = place.partition("/")
        if scheme not in _SCHEMES or not _BUCKET.fullmatch(name):
            raise ValueError("not a bucket")
        path = prefix.strip("/")
        return f"{scheme}://{name}/{path}/" if path else f"{scheme}://{name}/"

    def read(value: str) -> tuple[str, ...]:
        return tuple(read_one(one) for one in (part.strip() for part in value.split(",")) if one)

    return ValueKind(
        "bucket, bucket/prefix or gs://bucket/prefix, comma-separated", read, ",".join, many=True
    )


@dataclass(frozen=True)
class AwsSettings:
    """Buckets: sources given as `s3://…`, and results written next to them."""

    bucket: str = setting(
        "AWS_S3_BUCKET", "", bucket(), "The bucket that a source given as a bare key is in."
    )
    allowed_buckets: tuple[str, ...] = setting(
        "S3_ALLOWED_BUCKETS",
        "",
        bucket_places(),
        "Further buckets that sources may be in; every other one is refused, whatever the credentials reach.",
    )
    result_buckets: tuple[str, ...] = setting(
        "RESULT_BUCKETS",
        "",
        bucket_places(),
        "Where `result_to` may point; when empty, only into AWS_S3_BUCKET.",
    )
    region: str = setting("AWS_REGION", "us-east-1", setting_kinds.text(), "The region of S3.")
    access_key_id: str = setting("AWS_ACCESS_KEY_ID", "", setting_kinds.secret(), "The key's id for S3.")
    secret_access_key: str = setting("AWS_SECRET_ACCESS_KEY", "", setting_kinds.secret(), "The key for S3.")
    session_token: str = setting(
        "AWS_SESSION_TOKEN",
        "",
        setting_kinds.secret(),
        "The token that goes with a key that was lent for a while.",
    )
    endpoint_url: str = setting(
        "AWS_ENDPOINT_URL", "", setting_kinds.url("http", "https"), "The address of S3, where it is another."
    )
    export_max_attempts: int = setting(
        "EXPORT_MAX_ATTEMPTS",
        "5",
        setting_kinds.integer(1, 100),
        "Attempts at putting a result where its caller looks for it.",
    )

    @property
    def places(self) -> tuple[str, ...]:
        """Every place that sources may be in, each ending with a slash."""
        return (*((f"s3://{self.bucket}/",) if self.bucket else ()), *self.allowed_buckets)

    @property
    def result_places(self) -> tuple[str, ...]:
        """Every place that `result_to` may point into, each ending with a slash."""
        return self.result_buckets or ((f"s3://{self.bucket}/",) if self.bucket else ())

    def credentials(self) -> dict[str, str]:
        """For the client of S3; without keys it finds its own, such as the role of the machine."""
        given = {
            "region": self.region,
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
            "session_token": self.session_token,
            "endpoint": self.endpoint_url,
        }
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True)
class CloudsSettings:
    """Google Cloud Storage, Azure, and the way to all buckets."""

    gcs_credentials_file: Path | None = setting(
        "GOOGLE_APPLICATION_CREDENTIALS",
        "",
        setting_kinds.optional_path(),
        "The key file of the service account for `gs://`; when empty, the machine's own account is used.",
    )
    gcs_service_account_key: str = setting(
        "GOOGLE_SERVICE_ACCOUNT_KEY", "", setting_kinds.secret(), "The same key as JSON, instead of a file."
    )
    gcs_anonymous: bool = setting(
        "GCS_ANONYMOUS",
        "false",
        setting_kinds.boolean(),
        "Whether `gs://` is read without credentials (public buckets).",
    )
    gcs_endpoint_url: str = setting(
        "GCS_ENDPOINT_URL",
        "",
        setting_kinds.url("http", "https"),
        "The address of Google Cloud Storage, where it is another.",
    )
    azure_account: str = setting(
        "AZURE_STORAGE_ACCOUNT_NAME",
        "",
        setting_kinds.text(),
        "The account that the containers of `az://` are in.",
    )
    azure_key: str = setting(
        "AZURE_STORAGE_ACCOUNT_KEY", "", setting_kinds.secret(), "The key of that account."
    )
    azure_sas_token: str = setting(
        "AZURE_STORAGE_SAS_TOKEN",
        "",
        setting_kinds.secret(),
        "A shared access signature, instead of the key.",
    )
    azure_tenant_id: str = setting(
        "AZURE_TENANT_ID",
        "",
        setting_kinds.text(),
        "The tenant of an application that signs in, instead of a key.",
    )
    azure_client_id: str = setting("AZURE_CLIENT_ID", "", setting_kinds.text(), "That application's id.")
    azure_client_secret: str = setting(
        "AZURE_CLIENT_SECRET", "", setting_kinds.secret(), "That application's secret."
    )
    azure_endpoint_url: str = setting(
        "AZURE_STORAGE_ENDPOINT",
        "",
        setting_kinds.url("http", "https"),
        "The address of Azure's blobs, where it is another.",
    )
    proxy_url: str = setting(
        "BUCKETS_PROXY_URL",
        "",
        setting_kinds.url("http", "https"),
        "The proxy on the way to buckets; proxies of the environment are not used.",
    )

    def google(self) -> dict[str, str]:
        """For the client of `gs://`, under its own names."""
        return _given(
            application_credentials=str(self.gcs_credentials_file or ""),
            service_account_key=self.gcs_service_account_key,
            skip_signature="true" if self.gcs_anonymous else "",
            base_url=self.gcs_endpoint_url,
        )

    def azure(self) -> dict[str, str]:
        """For the client of `az://`, under its own names."""
        return _given(
            account_name=self.azure_account,
            account_key=self.azure_key,
            sas_key=self.azure_sas_token,
            tenant_id=self.azure_tenant_id,
            client_id=self.azure_client_id,
            client_secret=self.azure_client_secret,
            endpoint=self.azure_endpoint_url,
        )


def _given(**found: str) -> dict[str, str]:
    return {name: value for name, value in found.items() if value}
