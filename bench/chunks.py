"""CPU of cutting a long document into chunks, from its stored elements to JSON lines.

    python bench/chunks.py [--pages 1000] [--max-tokens 512] [--tokenizer FILE] PDF …

Converts each PDF with a runtime of its own, repeats its stored pages up to --pages, and measures decoding, cutting and
writing. With a tokenizer file (JSON of the package `tokenizers`) it compares the estimate of tokens with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from quire.bootstrap import runtime
from quire.domain.element import PageElements
from quire.domain.element_codec import decode, encode
from quire.domain.job import JobOptions, JobSecrets, UnitKind
from quire.domain.text_chunk import TOKENIZER, ChunkOptions, estimated_tokens
from quire.pipeline.intake.upload_intake import Submission
from quire.rendering.document_chunks import Chunker
from quire.settings import load


async def pages_of(path: Path) -> list[PageElements]:
    with tempfile.TemporaryDirectory() as folder:
        settings = load({"DATA_DIR": folder, "READER_PROCESSES": "1"})
        async with runtime(settings, owner="bench", kinds=list(UnitKind)) as running:
            asked = Submission("bench", options=JobOptions(), secrets=JobSecrets(), filename=path.name)
            accepted = await running.engine.intake.accept_path(asked, path)
            job = await running.engine.wait("bench", accepted.job_id, 600)
            found = await running.engine.elements(job)
            return [one.page async for run in found.runs() for one in run]


def measure(
    pages: list[PageElements], count: int, options: ChunkOptions
) -> tuple[dict[str, object], list[str]]:
    stored = [encode(pages[n % len(pages)]) for n in range(count)]
    started = time.process_time()
    chunker = Chunker(options)
    chunks = [chunk for raw in stored for chunk in chunker.add(decode(raw))] + chunker.end()
    lines = [json.dumps(chunk.as_dict(), ensure_ascii=False, separators=(",", ":")) for chunk in chunks]
    cpu_s = time.process_time() - started
    sizes = [estimated_tokens(chunk.text) for chunk in chunks]
    shown: dict[str, object] = {
        "pages": count,
        "elements": sum(len(pages[n % len(pages)].elements) for n in range(count)),
        "chunks": len(chunks),
        "cpu_s": round(cpu_s, 3),
        "bytes": sum(map(len, lines)),
        "tokens_median": statistics.median(sizes) if sizes else 0,
        "tokens_largest": max(sizes, default=0),
    }
    return shown, [chunk.text for chunk in chunks]


def compared(texts: list[str], tokenizer: Path) -> dict[str, object]:
    from tokenizers import Tokenizer

    exact = Tokenizer.from_file(str(tokenizer))
    exact.no_padding()
    exact.no_truncation()
    distinct = list(dict.fromkeys(texts))[:2000]
    ratios = sorted(
        len(exact.encode(text, add_special_tokens=False).ids) / estimated_tokens(text) for text in distinct
    )
    return {
        "estimate": TOKENIZER,
        "tokenizer": tokenizer.name,
        "texts": len(ratios),
        "exact_by_estimate": {
            "p5": round(ratios[len(ratios) // 20], 2),
            "median": round(statistics.median(ratios), 2),
            "p95": round(ratios[len(ratios) * 19 // 20], 2),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("documents", nargs="+", type=Path)
    args = parser.parse_args()
    for path in args.documents:
        pages = asyncio.run(pages_of(path.absolute()))
        shown, texts = measure(pages, args.pages, ChunkOptions(args.max_tokens))
        if args.tokenizer:
            shown["tokens"] = compared(texts, args.tokenizer)
        print(path.name, json.dumps(shown))


if __name__ == "__main__":
    main()
