"""``python -m tests.real``: run every case for real and write the table to results/reference/."""

from __future__ import annotations

import argparse
import os
import sys

from tests.real import table
from tests.real.netns import ISOLATED
from tests.real.processes import ROOT


def main() -> None:
    """Say each row when it is there; write the file when all are."""
    parser = argparse.ArgumentParser(prog="python -m tests.real", description=__doc__)
    parser.add_argument("--steps", type=int, default=3, help="real steps of each case; the median counts")
    parser.add_argument(
        "--netns", action="store_true", help="the cases over shaped links, in network namespaces (root)"
    )
    options = parser.parse_args()
    if options.netns:
        # In place of this process, so that whoever ends it ends all of it.
        os.chdir(ROOT)
        os.execvp(ISOLATED[0], [*ISOLATED, sys.executable, "-m", "tests.real.links", str(options.steps)])
    path = table.REFERENCE / "real_pytorch.csv"
    table.write(table.pytorch(options.steps, lambda row: print(*row.values(), sep=", ", flush=True)), path)


if __name__ == "__main__":
    main()
