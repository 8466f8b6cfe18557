"""Which engine runs: as asked, by size, or the one that is there."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest

import ppsim
from ppsim._jit import compiled
from ppsim.engine import SIMPY_UP_TO
from tests.simulated import simulate

WITHOUT_NUMBA = """
    import sys
    sys.modules["numba"] = None  # so that importing it fails, as where it isn't installed
    import ppsim
    from tests.simulated import simulate
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    program = textwrap.dedent(WITHOUT_NUMBA) + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_auto_is_simpy_up_to_20000_ops_and_compiled_above() -> None:
    """p=4: m=2500 has 4·2·2500 = 20,000 ops, one microbatch more 20,008."""
    pytest.importorskip("numba", reason="Numba is not installed")
    assert SIMPY_UP_TO == 20_000
    assert simulate("gpipe", 4, 2500, engine="auto").summary["engine"] == "simpy"
    assert simulate("gpipe", 4, 2501, engine="auto").summary["engine"] == "compiled"


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_the_engine_asked_for_runs(engine: str) -> None:
    if engine == "compiled":
        pytest.importorskip("numba", reason="Numba is not installed")
    assert simulate("1f1b", 2, 2, engine=engine).summary["engine"] == engine


@pytest.mark.slow
def test_both_engines_give_the_same_summary() -> None:
    pytest.importorskip("numba", reason="Numba is not installed")
    sections = {"costs": {"message": "3 MB"}, "cluster": {"intra_node": {"bandwidth": "1 GB/s", "latency": "7 us"}}}
    one, other = (simulate("1f1b", 4, 9, engine=engine, **sections).summary for engine in ("simpy", "compiled"))
    assert one.pop("engine") != other.pop("engine")
    assert one == other


def test_without_numba_compiled_is_an_error_that_says_how_to_install_it() -> None:
    ran = python(
        """
        try:
            simulate("1f1b", 2, 2, engine="compiled")
        except ppsim.ConfigError as error:
            sys.stdout.write(str(error))
        """
    )
    assert ran.returncode == 0, ran.stderr
    assert "engine: 'compiled' needs Numba" in ran.stdout
    assert "pip install 'ppsim[fast]'" in ran.stdout
    assert "'simpy'" in ran.stdout


def test_without_numba_auto_runs_large_plans_on_simpy() -> None:
    """Free links, equal stages: (m + p - 1)(F + B) = (10001 + 1) · 3 ms."""
    ran = python(
        """
        result = simulate("1f1b", 2, 10_001, engine="auto")
        sys.stdout.write(f"{len(result.plan.ops)} {result.summary['engine']} {result.timeline.makespan}")
        """
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"40004 simpy {10_002 * 3_000_000}"


def test_a_deadlock_reads_the_same_from_both() -> None:
    pytest.importorskip("numba", reason="Numba is not installed")
    found = []
    for engine in ("simpy", "compiled"):
        with pytest.raises(ppsim.DeadlockError) as deadlock:
            simulate("1f1b", 4, 8, engine=engine, pipeline={"batch_sync": "all"})
        found.append(str(deadlock.value))
    assert found[0] == found[1]
    assert "rank 0 at 0B0 waits for" in found[0]


def test_code_without_a_file_is_compiled_all_the_same() -> None:
    """Where the machine code can't be kept on disk, because no folder can be written, Numba refuses to cache."""
    pytest.importorskip("numba", reason="Numba is not installed")
    made: dict[str, Any] = {}
    exec("def double(x):\n    return 2 * x\n", made)  # nothing that a cache could be found by
    assert compiled(made["double"])(21) == 42


@pytest.mark.slow
def test_the_run_decides_what_is_compiled_not_what_is_loaded() -> None:
    """SimPy's run of a search, its metrics and its files compile nothing, be Numba loaded; nor do they load it."""
    pytest.importorskip("numba", reason="Numba is not installed")
    code = """
        import sys
        if {loaded}:
            import numba
            def refuse(*args, **settings): raise AssertionError("compiled for a run of SimPy's")
            numba.njit = refuse
        from tests.simulated import simulate
        result = simulate("zb", 4, 8, costs=dict(forward="1 ms", input_grad="1 ms", weight_grad="1 ms", message="1 MB"))
        result.summary, result.memory, result.tasks
        sys.stdout.write(str("numba" in sys.modules))
    """
    for loaded in (True, False):
        program = textwrap.dedent(code.format(loaded=loaded))
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert ran.stdout == str(loaded), ran.stderr


def test_loading_the_compiled_engine_allocates_little() -> None:
    """Arrays are a run's: modules and their functions are a few MB, no block of 32 MiB among them."""
    pytest.importorskip("numba", reason="Numba is not installed")
    code = """
        import sys, tracemalloc
        import numba, ppsim.engine, ppsim.metrics
        tracemalloc.start()
        import ppsim.engine.compiled
        sys.stdout.write(str(tracemalloc.get_traced_memory()[1]))
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 10 * 2**20
