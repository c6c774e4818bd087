"""The clients of docling, Tika, Unstructured, LangChain, LlamaIndex and Haystack against a running service.

    python3.11 -m venv V && V/bin/pip install . docling-core "docling-slim[service-client]" tika-client tika \\
        unstructured-client langchain-core llama-index-core haystack-ai
    V/bin/python bench/door_clients.py URL FILE.pdf [KEY]

The packages are large, so they have an environment of their own and are not in the test suite. Each line is one use of
a client; the exit code is 1 if one of them failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

_WAIT_S = 300.0


class DoorClients:
    def __init__(self, url: str, file: Path, key: str) -> None:
        self.url, self.file, self.key = url, file, key
        self.data = file.read_bytes()
        self.with_key = url.replace("://", f"://quire:{key}@", 1) if key else url

    def docling_convert(self) -> object:
        from docling.service_client import DoclingServiceClient

        with DoclingServiceClient(url=self.url, api_key=self.key) as client:
            found = client.convert(self.file)
            return found.status, len(found.document.export_to_markdown())

    def docling_chunks(self) -> object:
        from docling.service_client import ChunkerKind, DoclingServiceClient

        with DoclingServiceClient(url=self.url, api_key=self.key) as client:
            kinds = (ChunkerKind.HYBRID, ChunkerKind.HIERARCHICAL)
            return [_filled(client.chunk(self.file, kind).chunks) for kind in kinds]

    def docling_version(self) -> object:
        from docling.service_client import DoclingServiceClient

        with DoclingServiceClient(url=self.url, api_key=self.key) as client:
            return client.health(), client.version()

    def docling_document(self) -> object:
        from docling_core.types.doc import DoclingDocument

        answer = self._post("/convert?wait=300&format=docling", "file")
        return _filled(DoclingDocument.model_validate_json(answer.content).texts)

    def open_webui_docling(self) -> object:
        fields = {"image_export_mode": "placeholder", "md_page_break_placeholder": "\f"}
        return len(self._post("/v1/convert/file", "files", fields).json()["document"]["md_content"])

    def open_webui_external(self) -> object:
        headers = {"Authorization": f"Bearer {self.key or 'none'}", "X-Filename": "a%20b.pdf"}
        answer = httpx.put(f"{self.url}/process", content=self.data, headers=headers, timeout=_WAIT_S)
        return _filled(answer.raise_for_status().json())

    def tika_client(self) -> object:
        from tika_client import TikaClient

        with TikaClient(tika_url=self.with_key, timeout=_WAIT_S) as client:
            client.metadata.from_file(self.file)
            client.rmeta.as_text.from_file(self.file)
            forms = (client.tika.as_text, client.tika.as_html)
            return [_filled(form.from_file(self.file).content) for form in forms]

    def tika_python(self) -> object:
        os.environ["TIKA_CLIENT_ONLY"] = "1"
        from tika import parser

        return _filled(parser.from_buffer(self.data, serverEndpoint=self.with_key)["content"])

    def unstructured(self) -> object:
        from unstructured_client import UnstructuredClient
        from unstructured_client.models import operations, shared

        client = UnstructuredClient(api_key_auth=self.key or "none", server_url=self.url)

        def partition(**options: Any) -> int:
            file = shared.Files(content=self.data, file_name=self.file.name)
            asked = shared.PartitionParameters(files=file, **options)
            found = client.general.partition(request=operations.PartitionRequest(partition_parameters=asked))
            return _filled(found.elements)

        return partition(coordinates=True), partition(split_pdf_page=True, chunking_strategy="by_title")

    def langchain(self) -> object:
        from quire.client.loaders.langchain import QuireLoader

        return [
            _filled(QuireLoader([str(self.file)], url=self.url, api_key=self.key or None, by=by).load())
            for by in ("page", "document", "chunk")
        ]

    def llamaindex(self) -> object:
        from quire.client.loaders.llamaindex import QuireReader

        return [
            _filled(QuireReader(url=self.url, api_key=self.key or None, by=by).load_data(str(self.file)))
            for by in ("page", "document", "chunk")
        ]

    def haystack(self) -> object:
        from haystack import Pipeline

        from quire.client.loaders.haystack import QuireConverter

        found = []
        for by in ("page", "document", "chunk"):
            pipeline = Pipeline()
            pipeline.add_component("convert", QuireConverter(url=self.url, by=by))
            found.append(
                _filled(pipeline.run({"convert": {"sources": [str(self.file)]}})["convert"]["documents"])
            )
        return found

    def _post(self, path: str, field: str, fields: dict[str, str] | None = None) -> httpx.Response:
        headers = {"X-Api-Key": self.key} if self.key else {}
        files = {field: (self.file.name, self.data, "application/pdf")}
        answer = httpx.post(self.url + path, files=files, data=fields, headers=headers, timeout=_WAIT_S)
        return answer.raise_for_status()


def _filled(found: Any) -> int:
    if not found:
        raise ValueError("the answer is empty")
    return len(found)


def main() -> None:
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    key = sys.argv[3] if len(sys.argv) == 4 else ""
    os.environ["QUIRE_API_KEY"], os.environ["HAYSTACK_TELEMETRY_ENABLED"] = key, "False"
    clients = DoorClients(sys.argv[1].rstrip("/"), Path(sys.argv[2]), key)
    failed = 0
    for name in [name for name in vars(DoorClients) if not name.startswith("_")]:
        use: Callable[[], object] = getattr(clients, name)
        try:
            print(f"{name:22} {use()}", flush=True)
        except Exception as error:
            failed += 1
            print(f"{name:22} FAILED: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
