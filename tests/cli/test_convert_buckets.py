"""`quire convert` with objects in buckets: whoever names them on the command line may read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quire.cli.convert_sources import ConvertSource, named_buckets
from quire.cli.exit_codes import CommandUsageError
from tests.cli.conftest import Cli
from tests.support.s3_fixtures import S3


def test_object_is_converted_when_it_is_named_on_the_command_line(
    cli: Cli, moto: S3, make_pdf: Callable[..., bytes]
) -> None:
    moto.client().create_bucket(Bucket="named-on-the-command-line")
    moto.client().put_object(
        Bucket="named-on-the-command-line", Key="in/My report.pdf", Body=make_pdf("from a bucket")
    )
    address = "s3://named-on-the-command-line/in/My report.pdf"
    done = cli.run("convert", address, "-o", "out/", READER_PROCESSES="1", **moto.settings)
    assert done.code == 0, done.err
    assert (cli.folder / "out/My report.md").read_text() == "from a bucket\n"
    missing = cli.run("convert", f"{address}x", READER_PROCESSES="1", **moto.settings)
    assert missing.code == 1
    assert "There is no in/My report.pdfx" in missing.err


@pytest.mark.parametrize("given", ["s3://bucket", "s3://bucket/", "gs:///a.pdf", "az://container/folder/"])
def test_usage_error_when_an_address_names_no_object(given: str) -> None:
    with pytest.raises(CommandUsageError, match="names no object"):
        ConvertSource.of(given, Path("spool"))


def test_buckets_are_named_once_when_several_objects_are_in_them() -> None:
    given = ["s3://one/a.pdf", "gs://one/b.pdf", "s3://one/c/d.pdf", "https://x/s3://two/e", "s3.pdf"]
    sources = [ConvertSource.of(one, Path("spool")) for one in given]
    assert named_buckets(sources) == "s3://one,gs://one"
