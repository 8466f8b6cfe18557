"""What is compiled: every loop once, for one set of types; nothing where no compiled engine runs."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ppsim._jit import Loop

ROOT = Path(__file__).parents[2]
ONCE = """
import json
from ppsim.engine import free_links, ports, room
from ppsim.metrics import _walk
from tests.simulated import simulate
for link in ({}, {"bandwidth": "10 GB/s", "latency": "5 us"}):
    cluster = {"ranks_per_node": 1, "inter_node": link}
    for schedule in ("1f1b", "zb_h1"):
        costs = {"message": "1 MB", "activation": "1 MB", "input_grad": "1 ms", "weight_grad": "1 ms"}
        simulate(schedule, 4, 8, "compiled", costs=costs, cluster=cluster).summary
made = {name: len(f.signatures) for module in (free_links, ports, room, _walk) for name, f in vars(module).items()
        if hasattr(f, "signatures")}
print(json.dumps(made))
"""


@pytest.mark.slow
def test_every_loop_is_compiled_for_one_set_of_types(tmp_path: Path) -> None:
    """Each further one would make the first compiled run of a machine longer. What comes off the disk isn't counted."""
    pytest.importorskip("numba", reason="Numba is not installed")
    cold = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", ONCE], capture_output=True, text=True, check=True, cwd=ROOT, env=cold)
    made = json.loads(done.stdout)
    assert {"with_ports", "without_ports", "push", "replace", "fill_in", "_walk", "_split"} <= made.keys()
    assert made == dict.fromkeys(made, 1)


def test_a_loop_calls_nothing_of_another_file() -> None:
    """Numba keeps machine code by the source file of the loop alone: a change elsewhere would go unnoticed."""
    pytest.importorskip("numba", reason="Numba is not installed")
    files = [
        path
        for path in (ROOT / "ppsim").rglob("*.py")
        if "from ppsim._jit import compiled" in path.read_text(encoding="utf-8")
    ]
    assert len(files) >= 4
    for path in files:
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        loops = [value for value in vars(module).values() if hasattr(value, "signatures")]
        assert loops and {loop.py_func.__module__ for loop in loops} == {module.__name__}, path


def test_what_a_loop_takes_from_its_module_is_whole_numbers() -> None:
    """Only of those, and of the loops that it calls, a change in another file is noticed."""
    pytest.importorskip("numba", reason="Numba is not installed")
    from ppsim.engine.prefetch import prefetch as hint  # whatever it is, it changes no result

    found = 0
    for path in (ROOT / "ppsim").rglob("*.py"):
        if "from ppsim._jit import" not in path.read_text(encoding="utf-8"):
            continue
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for loop in vars(module).values():
            function = loop.__wrapped__ if isinstance(loop, Loop) else getattr(loop, "py_func", None)
            if function is None:
                continue
            found += 1
            for name in set(function.__code__.co_names) & vars(module).keys():
                value = vars(module)[name]
                known = isinstance(value, int | ModuleType) or hasattr(value, "py_func") or value is hint
                elsewhere = callable(value) and not value.__module__.startswith("ppsim")
                assert known or elsewhere, f"{path}: {loop}: {name}"
    assert found >= 10


LOOP = """
from ppsim._jit import compiled, part
from numbers_of_ours import STEP, MOST

@part
def limited(number):
    return min(number, MOST)

@compiled
def last(count):
    number = 0
    for _ in range(count):
        number += STEP
    return limited(number)
"""


@pytest.mark.slow
def test_a_changed_constant_of_another_file_is_noticed(tmp_path: Path) -> None:
    """The machine code that an earlier version left on disk isn't used: not where the loop itself takes the constant,
    nor where what it calls does."""
    pytest.importorskip("numba", reason="Numba is not installed")
    (tmp_path / "loop_of_ours.py").write_text(LOOP, encoding="utf-8")
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    program = "import loop_of_ours as l; print(l.last(10), sum(l.last.stats.cache_hits.values()))"
    # STEP, MOST; then the sum of ten steps, at most MOST, and whether it was compiled before.
    for step, most, printed in ((2, 99, "20 0"), (3, 99, "30 0"), (3, 25, "25 0"), (2, 99, "20 1")):
        (tmp_path / "numbers_of_ours.py").write_text(f"STEP, MOST = {step}, {most}\n", encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, env=env
        )
        assert done.stdout.split("\n")[0] == printed


@pytest.mark.parametrize(
    "arguments", [["--help"], ["check", "configs/quickstart.yaml"], ["run", "configs/quickstart.yaml", "--no-files"]]
)
def test_numba_is_not_loaded_for_help_check_and_small_runs(arguments: list[str]) -> None:
    """A SimPy run of 64 ops takes less than loading Numba would."""
    program = (
        f"import sys; sys.argv = ['ppsim', *{arguments!r}]\n"
        "from ppsim.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "False"
