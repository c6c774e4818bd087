from __future__ import annotations

import subprocess
import sys

from tests.reading.conftest import Make, text_pdf

_MODULES_LOADED_LATE = """
import gc, sys
import quire.reading.pool.warm_imports
assert gc.isenabled()
warm = set(sys.modules)
from quire.reading.files.page_chunks import open_document
from quire.reading.pdf.page_reader import ReadOptions
assert open_document(sys.argv[1], None, None, 16, ReadOptions()).chunk.pages[0].has_text
print(*(name for name in sys.modules if name.startswith("quire.") and name not in warm))
"""


def test_a_child_has_all_that_it_needs_for_a_pdf_before_it_is_forked(save: Make) -> None:
    path = save(text_pdf())
    done = subprocess.run(
        [sys.executable, "-c", _MODULES_LOADED_LATE, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
