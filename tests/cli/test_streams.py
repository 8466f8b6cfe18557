"""What a command prints on terminals of any encoding, into closed streams, and in a narrow window."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.marks import rest_slow

QUICKSTART = Path(__file__).parents[2] / "configs" / "quickstart.yaml"
NONE = QUICKSTART.with_name("nö→≈.yaml")


def printed(encoding: str, *arguments: str | Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "ppsim", *map(str, arguments)], capture_output=True, check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )  # fmt: skip
    return done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)


@pytest.mark.parametrize(
    "encoding", ["latin-1", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cp1252", "cp437", "utf-8"))]
)
def test_text_in_any_encoding(encoding: str) -> None:
    """80 GB is about 74.5 GiB: '≈' is in CP 437, in the others of one byte it isn't."""
    code, out, _ = printed(encoding, "check", QUICKSTART)
    about = "≈" if encoding in ("utf-8", "cp437") else "~"
    assert (code, f"80 GB {about} 74.5058 GiB" in out) == (0, True)
    code, out, error = printed(encoding, "check", NONE)
    name = "nö→≈.yaml" if encoding == "utf-8" else f"nö->{about}.yaml"
    assert (code, out) == (2, "")
    assert name in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--no-files"),
        pytest.param(("check",), marks=pytest.mark.slow),
        pytest.param(("explain", "--op", "0B0"), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_what_is_printed_in_latin_1(arguments: tuple[str, ...]) -> None:
    """The same lines as in UTF-8, but for the characters that aren't there."""
    command, *options = arguments
    _, wide, _ = printed("utf-8", command, QUICKSTART, *options)
    code, narrow, error = printed("latin-1", command, QUICKSTART, *options)
    assert (code, error) == (0, "")
    assert len(narrow.splitlines()) == len(wide.splitlines())


@pytest.mark.parametrize(
    ("command", "closed", "code"),
    rest_slow(
        [
            ("run {} --no-files", ">&-", 0),
            ("check {}", ">&-", 0),
            ("list schedules", ">&-", 0),
            ("check missing.yaml", ">&- 2>&-", 2),
            ("check missing.yaml", "<&- >&- 2>&-", 2),
        ],
        2,
        several=True,
    ),
)
def test_closed_streams(command: str, closed: str, code: int, tmp_path: Path) -> None:
    """As `>&-` of a shell, or a daemon: the work is done, nobody hears of it."""
    line = f"{sys.executable} -m ppsim {command.format(QUICKSTART)} {closed}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@pytest.mark.slow
def test_files_are_whole_where_standard_output_is_closed(tmp_path: Path) -> None:
    """None of them is opened in its place."""
    line = f"{sys.executable} -m ppsim run {QUICKSTART} --out x >&-"
    assert subprocess.run(["sh", "-c", line], cwd=tmp_path, check=False).returncode == 0
    assert (tmp_path / "x" / "summary.json").read_text(encoding="utf-8").startswith("{\n")


def test_a_reader_that_has_gone_is_no_deadlock() -> None:
    """As in `ppsim list devices | head -1` under pipefail: exit code 1 would say that ranks wait for ever."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ppsim", "list", "devices"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
