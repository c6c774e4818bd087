"""The settings of buckets that documents come from and results go to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from quire.settings import kinds
from quire.settings.declaration import setting
from quire.settings.kinds import Kind

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
_SCHEMES = ("s3", "gs", "az")


def bucket() -> Kind[str]:
    def read(value: str) -> str:
        if value and not _BUCKET.fullmatch(value):
            raise ValueError("not a bucket")
        return value

    return Kind("the name of a bucket, or nothing", read, str)


def bucket_places() -> Kind[tuple[str, ...]]:
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

    return Kind("bucket, bucket/prefix or gs://bucket/prefix, comma-separated", read, ",".join, many=True)


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
    region: str = setting("AWS_REGION", "us-east-1", kinds.text(), "The region of S3.")
    access_key_id: str = setting("AWS_ACCESS_KEY_ID", "", kinds.secret(), "The key's id for S3.")
    secret_access_key: str = setting("AWS_SECRET_ACCESS_KEY", "", kinds.secret(), "The key for S3.")
    session_token: str = setting(
        "AWS_SESSION_TOKEN", "", kinds.secret(), "The token that goes with a key that was lent for a while."
    )
    endpoint_url: str = setting(
        "AWS_ENDPOINT_URL", "", kinds.url("http", "https"), "The address of S3, where it is another."
    )
    export_max_attempts: int = setting(
        "EXPORT_MAX_ATTEMPTS",
        "5",
        kinds.integer(1, 100),
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
