"""``ppsim search``: the best of a sweep, with most cases never simulated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppsim.cli import cases
from ppsim.cli.options import Cluster, Config, Jobs, Row, Set, WriteBest

if TYPE_CHECKING:
    from ppsim.sweeps.cases import Base
    from ppsim.sweeps.search import Found, Space


def search(
    config: Config,
    set_: Set = None,
    gpus: Annotated[
        int | None, typer.Option(min=1, help="Only cases with ranks · data_parallel = GPUS.", show_default=False)
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many of the best to find.")] = 10,
    jobs: Jobs = None,
    cluster: Cluster = None,
    best: WriteBest = None,
    row: Row = 1,
    json_: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Find the fastest cases of a sweep that fit into memory, without simulating those that can't be among them."""
    from ppsim.display import sweep as display_sweep
    from ppsim.sweeps import search as searching
    from ppsim.sweeps.columns import parameters
    from ppsim.sweeps.report import not_given

    cases.check_best(best, row, f"row {row} of the {top} that --top asks for" if row > top else None)
    base, varied, _ = cases.base_of(config, set_)
    if gpus is not None:
        own = [varied.where] if isinstance(varied.where, str) else varied.where
        varied = varied.model_copy(update={"where": [*own, f"gpus == {gpus}"]})
    columns = parameters(varied)
    space = searching.space(base, cases.listed(base, varied, None), columns)
    cases.reasons("skipped", space.skipped)
    if not space.legal:
        raise cases.nothing(base, bool(space.skipped))
    found = searching.Found()
    if space.candidates:
        with (
            cases.crew(base, jobs, cluster) as crew,
            cases.interrupts() as stop,
            display_sweep.spinner(f"searching {space.legal:,} cases") as show,
        ):
            workers = crew(len(space.candidates))
            found = searching.search(workers, space, top, lambda so_far: show(display_sweep.sought(so_far)), stop)
    cases.reasons("failed", found.failed)
    if found.stopped:
        typer.echo(f"interrupted after {found.simulated:,} of {space.legal:,} cases; nothing is kept", err=True)
        raise SystemExit(cases.INTERRUPTED)
    limits = [_limit(base, case["changes"]) for case in found.best]
    runner_up = _runner_up(base, found)
    if json_:
        typer.echo(json.dumps({**_search_json(space, found, limits), "runner_up": runner_up}, indent=2))
    else:
        display_sweep.search(space, found, limits, columns, not_given(base.text, columns))
        if runner_up is not None:
            display_sweep.runner_up(runner_up)
    if best is not None:
        cases.write_best(best, base, found.best, row)


def _limit(base: Base, changes: str) -> str:
    """What limits a case's step."""
    from ppsim.analysis.limit import lines
    from ppsim.analysis.simulate import simulate
    from ppsim.sweeps.chosen import case_experiment

    return lines(simulate(case_experiment(base, changes), engine="auto"))[0]


def _runner_up(base: Base, found: Found) -> str | None:
    """Why the second best is slower than the best."""
    from ppsim.analysis.simulate import simulate
    from ppsim.analysis.slower import slower
    from ppsim.sweeps.chosen import case_experiment

    if len(found.best) < 2:
        return None
    first, second = (simulate(case_experiment(base, case["changes"])) for case in found.best[:2])
    return slower(first, second)


def _search_json(space: Space, found: Found, limits: list[str]) -> dict[str, Any]:
    return {
        "cases": space.legal,
        "simulated": found.simulated,
        "simulated_share": found.simulated / space.legal,
        "cut_by_bound": len(space.candidates) - found.simulated,
        "cut_by_memory": space.too_large,
        "best": [
            {**case, "changes": json.loads(case["changes"]), "limit": limit}
            for case, limit in zip(found.best, limits, strict=True)
        ],
    }
