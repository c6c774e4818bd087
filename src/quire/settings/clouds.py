"""The settings of Google Cloud Storage and Azure, for `gs://` and `az://`; those of S3 are in `aws`."""
# ruff: noqa: RUF009 - `setting` is `dataclasses.field` with a description; its values are immutable

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from quire.settings import kinds
from quire.settings.declaration import setting


@dataclass(frozen=True)
class CloudsSettings:
    """Google Cloud Storage, Azure, and the way to all buckets."""

    gcs_credentials_file: Path | None = setting(
        "GOOGLE_APPLICATION_CREDENTIALS",
        "",
        kinds.optional_path(),
        "The key file of the service account for `gs://`; when empty, the machine's own account is used.",
    )
    gcs_service_account_key: str = setting(
        "GOOGLE_SERVICE_ACCOUNT_KEY", "", kinds.secret(), "The same key as JSON, instead of a file."
    )
    gcs_anonymous: bool = setting(
        "GCS_ANONYMOUS",
        "false",
        kinds.boolean(),
        "Whether `gs://` is read without credentials (public buckets).",
    )
    gcs_endpoint_url: str = setting(
        "GCS_ENDPOINT_URL",
        "",
        kinds.url("http", "https"),
        "The address of Google Cloud Storage, where it is another.",
    )
    azure_account: str = setting(
        "AZURE_STORAGE_ACCOUNT_NAME", "", kinds.text(), "The account that the containers of `az://` are in."
    )
    azure_key: str = setting("AZURE_STORAGE_ACCOUNT_KEY", "", kinds.secret(), "The key of that account.")
    azure_sas_token: str = setting(
        "AZURE_STORAGE_SAS_TOKEN", "", kinds.secret(), "A shared access signature, instead of the key."
    )
    azure_tenant_id: str = setting(
        "AZURE_TENANT_ID", "", kinds.text(), "The tenant of an application that signs in, instead of a key."
    )
    azure_client_id: str = setting("AZURE_CLIENT_ID", "", kinds.text(), "That application's id.")
    azure_client_secret: str = setting(
        "AZURE_CLIENT_SECRET", "", kinds.secret(), "That application's secret."
    )
    azure_endpoint_url: str = setting(
        "AZURE_STORAGE_ENDPOINT",
        "",
        kinds.url("http", "https"),
        "The address of Azure's blobs, where it is another.",
    )
    proxy_url: str = setting(
        "BUCKETS_PROXY_URL",
        "",
        kinds.url("http", "https"),
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
