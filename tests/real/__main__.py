"""``python -m tests.real``: run every case for real and write the table to results/reference/."""

from __future__ import annotations

import argparse

from tests.real import table


def main() -> None:
    """Say each row when it is there; write the file when all are."""
    parser = argparse.ArgumentParser(prog="python -m tests.real", description=__doc__)
    parser.add_argument("--steps", type=int, default=3, help="real steps of each case; the median counts")
    steps = parser.parse_args().steps
    path = table.REFERENCE / "real_pytorch.csv"
    table.write(table.pytorch(steps, lambda row: print(*row.values(), sep=", ", flush=True)), path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
