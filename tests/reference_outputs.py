"""Make what the README shows: its pictures, by the commands that stand beneath them, and its table of schedules.

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
    """Run the README's first block and keep its pictures; write its table."""
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
    text = readme.README.read_text(encoding="utf-8")
    head, _, rest = text.partition(readme.TABLE[0])
    foot = rest.partition(readme.TABLE[1])[2]
    rows = "\n".join(readme.schedule_rows().values())
    readme.README.write_text(f"{head}{readme.TABLE[0]}{rows}\n{readme.TABLE[1]}{foot}", encoding="utf-8")


if __name__ == "__main__":
    main()
