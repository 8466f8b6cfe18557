"""Make the pictures that the README shows, by the commands that stand beneath them.

``python -m tests.reference_outputs`` is the only way in which ``results/reference/`` is written.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests import readme

MADE_WITH = "made_with.txt"
DRAWERS = ("matplotlib", "pillow", "numpy")
"""On whose releases the bytes of a picture depend."""


def made_with() -> str:
    """The releases that draw here."""
    return "".join(f"{name} {version(name)}\n" for name in DRAWERS)


def main() -> None:
    """Run the README's first block and keep its pictures."""
    target = readme.ROOT / readme.REFERENCE
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = readme.workspace(Path(folder) / "work")
        done = readme.run(readme.blocks()[0], work)
        if done.returncode:
            sys.exit(done.stderr)
        for picture in sorted((work / readme.REFERENCE).iterdir()):
            shutil.copyfile(picture, target / picture.name)
    (target / MADE_WITH).write_text(made_with(), encoding="utf-8")


if __name__ == "__main__":
    main()
