"""What a notebook shows of results: complete, escaped, and imported only when it is shown."""

from __future__ import annotations

import base64
import importlib
import io
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from rich.console import Console

import ppsim
from ppsim.display import listing
from ppsim.display.comparison import comparison
from ppsim.display.page import of_comparison, of_result
from ppsim.display.screen import screen
from ppsim.ops import Orders
from ppsim.schedules import Problem, Schedule
from ppsim.schedules.gpipe import GPipe
from tests.simulated import simulate

HOSTILE = "<script>alert('x')</script>"


class Named(Schedule):
    """GPipe under a name that is markup."""

    name: str = HOSTILE

    def orders(self, problem: Problem) -> Orders:
        return GPipe().orders(problem)


def pictures(page: str) -> list[bytes]:
    return [base64.b64decode(found) for found in re.findall(r"data:image/png;base64,([^']+)'", page)]


def test_page_of_a_result() -> None:
    """p = 4, m = 8, F = 1, B = 2 ms: 3·8 + 3·3 = 33 ms, of which 9/33 idle; 4 ranks of 24 ms work."""
    page = of_result(simulate("1f1b", 4, 8))
    assert "<td style='text-align:left'>33 ms</td>" in page
    assert "27.3 % of all device time is idle (closed form: 27.3 %)" in page
    assert page.count("<td style='text-align:left'>24 ms</td>") == 4
    (picture,) = pictures(page)
    assert picture.startswith(b"\x89PNG")


def test_page_of_a_comparison() -> None:
    """One table with a row for each, and one picture of all."""
    found = ppsim.compare([simulate("gpipe", 4, 8), simulate("1f1b", 4, 8), simulate("zbv", 4, 8)])
    page = of_comparison(found)
    assert page.count("<table>") == 1
    assert page.count("<tr>") == 4
    for name in ("gpipe", "1f1b", "zbv"):
        assert re.search(rf"<td[^>]*>[* ] {name}</td>", page)
    assert len(pictures(page)) == 1


def test_names_are_text_and_not_markup() -> None:
    experiment = simulate("gpipe", 2, 2).experiment
    result = ppsim.simulate(experiment, schedule=Named())
    for page in (of_result(result), of_comparison(ppsim.compare([result]))):
        assert HOSTILE not in page
        assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in page


def test_nothing_to_compare() -> None:
    with pytest.raises(ppsim.PpsimError, match="there is no result to compare; give at least one"):
        ppsim.compare([])


def printed(width: int, show: Callable[[Console], None]) -> list[str]:
    text = io.StringIO()
    show(Console(file=text, width=width, markup=False, highlight=False, emoji=False))
    return text.getvalue().splitlines()


def long_cells() -> list[ppsim.Result]:
    """Times and sizes of four digits: cells as wide as they get."""
    costs = {"forward": "12.34 ms", "backward": "23.45 ms", "activation": "1.234 GiB", "message": "58.7 MB"}
    cluster = {"device": "a100-80gb", "intra_node": "nvlink3"}
    schedules = ("gpipe", {"name": "interleaved_1f1b", "virtual_stages": 6})
    return [simulate(schedule, 8, 16, costs=costs, cluster=cluster) for schedule in schedules]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_tables_fit_the_terminal_with_no_cell_cut(width: int) -> None:
    """Columns are left out or put below each other instead; '…' only ends a rank's list of more than four stages."""
    results = long_cells()
    for result in results:
        lines = printed(width, lambda console, r=result: screen(r, console))  # type: ignore[misc]
        assert [line for line in lines if line != line.rstrip()] == []
        assert max(map(len, lines)) <= width
        heads = next(line for line in lines if line.startswith("rank"))
        assert "".join(lines).count("…") == (8 if result.summary["virtual_stages"] > 4 and "stages" in heads else 0)
        assert ("transfer" in "".join(lines)) == (width == 120)
    lines = printed(width, lambda console: comparison(ppsim.compare(results), console))
    tables = [line for line in lines if line.startswith("schedule ")]
    assert max(map(len, tables)) <= width
    assert "…" not in "".join(lines)
    assert [line for line in lines if line != line.rstrip()] == []
    columns = [name for line in tables for name in line.split()[1:]]
    assert (
        " ".join(columns) == "time ratio overhead span work bubble imbalance recomp. comm. peak least copies messages"
    )


@pytest.mark.parametrize("what", ["schedules", "devices", "links", "models", "metrics", "formats"])
@pytest.mark.parametrize("width", [80, 150])
def test_lists_fit_the_terminal(what: str, width: int) -> None:
    """No blanks at the ends of lines, which a paste or a diff would show, and no markup of docstrings."""
    lines = printed(width, lambda console: listing.listing(listing.rows(what), console))
    assert [line for line in lines if line != line.rstrip()] == []
    assert "`" not in "".join(lines)


SHELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import ppsim
early = sorted({"ppsim.analysis.result", "ppsim.display", "ppsim.plot", "matplotlib"} & set(sys.modules))
assert not early, f"imported too early: {early}"
experiment = ppsim.load("configs/quickstart.yaml")
result = ppsim.simulate(experiment)
assert "matplotlib" not in sys.modules, "simulating needs no pictures"
for shown in (result, ppsim.compare([result, result])):
    data, _ = shell.display_formatter.format(shown)
    assert "<img" in data["text/html"], data.keys()
    assert len(data["text/plain"]) < 200, data["text/plain"]
from matplotlib.figure import Figure
axes = ppsim.plot.gantt(result)
for shown in (axes, axes.figure, ppsim.plot.memory(result)):
    data, _ = shell.display_formatter.format(shown)
    assert data["image/png"].startswith(b"\\x89PNG"), data
for other in (Figure(), Figure().add_subplot()):
    data, _ = shell.display_formatter.format(other)
    assert "image/png" not in data, "a figure that isn't ours is pyplot's to show"
"""


@pytest.mark.slow
def test_an_ipython_shell_shows_results_comparisons_and_figures() -> None:
    pytest.importorskip("IPython")
    done = subprocess.run([sys.executable, "-c", SHELL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_import_is_light() -> None:
    """Outside a shell as well: none of these is needed to name what there is."""
    heavy = "{'numpy', 'pandas', 'matplotlib', 'pydantic', 'IPython'}"
    code = f"import sys, ppsim; dir(ppsim); early = {heavy} & set(sys.modules); assert not early, early"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_module_takes_the_place_of_a_public_name() -> None:
    """Importing ppsim.x sets the attribute x of ppsim; were a function called so, it would be gone."""
    for module in pkgutil.walk_packages(ppsim.__path__, "ppsim."):
        importlib.import_module(module.name)
    modules = [name for name in dir(ppsim) if isinstance(getattr(ppsim, name), ModuleType)]
    assert modules == ["plot"]
