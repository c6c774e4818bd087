"""Extraction with proof on made documents: every planted error flagged, no true value lost, citations at their boxes.

    python bench/extraction.py [--documents 64] [--longest 100] [--faults 20]

The simulator answers from the truth, with planted errors; the documents are converted and extracted in this process.
Exits with 1 if a planted error passes, a true value is lost, or fewer than 99 % of the citations are right.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.extraction_grading import Grades, grade
from tests.support.labelled_documents import Labelled, labelled_documents
from tests.support.running import TEAM, over, quire

from quire.domain.job import JobOptions, Mode
from quire.pipeline.extraction.extraction_question import ExtractionRequest
from quire.pipeline.extraction.extraction_run import Extraction
from quire.pipeline.intake.upload_intake import Submission
from quire.simulator.simulator_thread import simulator

_LEAST_RIGHT = 0.99


async def graded(documents: list[Labelled], folder: Path) -> tuple[Grades, dict[str, float]]:
    """Converts and extracts each document; the seconds that each of both took."""
    grades, seconds = Grades(), {"convert": 0.0, "extract": 0.0}
    truth = {one.name: one.answer for one in documents}
    with simulator({"truth": truth}) as sim:
        settings = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": sim.openai_url, "MAX_INFLIGHT_PER_MODEL": "8"}
        async with quire(folder, **settings) as one:
            extraction = Extraction(one.parts, one.engine)
            for document in documents:
                path = folder / document.name
                path.write_bytes(document.pdf)
                began = time.perf_counter()
                submission = Submission(TEAM, options=JobOptions(mode=Mode.LOCAL), filename=document.name)
                job = await over(one, (await one.engine.intake.accept_path(submission, path)).job_id)
                seconds["convert"] += time.perf_counter() - began
                began = time.perf_counter()
                result = await extraction.extract(job, ExtractionRequest.of(document.schema))
                seconds["extract"] += time.perf_counter() - began
                grade(document, result, grades)
    return grades, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--documents", type=int, default=64)
    parser.add_argument("--longest", type=int, default=100)
    parser.add_argument("--faults", type=int, default=20, help="how many faults are printed")
    args = parser.parse_args()
    documents = labelled_documents(args.documents, longest=args.longest)
    with tempfile.TemporaryDirectory() as folder:
        grades, seconds = asyncio.run(graded(documents, Path(folder)))
    print(f"{grades.documents} documents, {grades.pages} pages, {grades.values} true values")
    print(f"kept {grades.kept}, lost {grades.values - grades.kept}")
    print(f"citations right {grades.cited_right} of {grades.cited}, of those within a line {grades.tight}")
    for kind, count in sorted(grades.planted.items()):
        print(f"planted {kind}: {count}, flagged {grades.flagged[kind]}")
    print(f"seconds: convert {seconds['convert']:.1f}, extract {seconds['extract']:.1f}")
    for fault in grades.faults[: args.faults]:
        print(f"fault: {fault}")
    right = grades.cited and grades.cited_right / grades.cited >= _LEAST_RIGHT
    return 0 if right and grades.kept == grades.values and grades.flagged == grades.planted else 1


if __name__ == "__main__":
    raise SystemExit(main())
