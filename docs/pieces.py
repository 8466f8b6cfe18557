"""What the pages that are made of the product share."""

from __future__ import annotations


def toctree(names: str, hidden: bool = False) -> str:
    """A list of pages, a line each; hidden where the page shows them in its own way."""
    return f"```{{toctree}}\n:maxdepth: 1\n{':hidden:' if hidden else ''}\n\n{names}\n```\n"


def paragraphs(doc: str) -> str:
    """A docstring as Markdown."""
    return "\n".join(line.strip() for line in doc.replace("``", "`").strip().splitlines())


def cell(text: object) -> str:
    """A text as a table's cell."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("``", "`")


def default_of(value: object) -> str:
    """A settings' block has its own table, and what is not given has no value."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"  # as YAML writes it
    return "–" if value is None or isinstance(value, dict) else f"`{cell(value)}`"
