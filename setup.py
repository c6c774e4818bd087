"""Makes the README fit a package index, where links to files lead nowhere. The rest is in pyproject.toml."""

import re
import tomllib
from pathlib import Path

from setuptools import setup


def readme_for_index(text: str, repository: str | None) -> str:
    """Links to files become absolute when the repository has a public address; otherwise only their text stays."""
    if repository:
        return re.sub(r"\]\((?!https?://|#)([^)]+)\)", rf"]({repository}/blob/HEAD/\1)", text)
    text = re.sub(r"^!\[[^\]]*\]\((?!https?://)[^)]+\)\n+", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\((?!https?://|#)[^)]+\)", r"\1", text)


if __name__ == "__main__":
    here = Path(__file__).parent
    urls = tomllib.loads((here / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
    setup(
        long_description=readme_for_index(
            (here / "README.md").read_text(encoding="utf-8"), urls.get("Repository")
        ),
        long_description_content_type="text/markdown",
    )
