"""Cases: their ids, which are legal, what conditions see of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import ppsim
from ppsim.config.load import load
from ppsim.config.resolved import SEMANTICS, config_id, settings
from ppsim.sweeps.cases import Case, Resolver, listing
from tests.sweeps.sweeping import BASE, base_of, sweep_of, written


def cases_of(path: Path) -> list[Case]:
    return list(listing(base_of(path), sweep_of(path)))


def sweep(folder: Path, text: str, base: str = BASE) -> list[Case]:
    return cases_of(written(folder, f"{base}sweep: {text}\n"))


MIXED = """{
  grid: {
    schedule: [gpipe, 1f1b, {name: interleaved_1f1b, virtual_stages: 2}, {name: interleaved_1f1b, virtual_stages: 4}],
    pipeline.ranks: [2, 4], runtime: [megatron, pytorch, ideal, {send: blocking}],
    cluster.intra_node.latency: [1 us, 2 us], pipeline.recompute: [none, full]}}"""
CLUSTER = BASE + "cluster: {device: a100-80gb, ranks_per_node: 8, intra_node: nvlink3}\n"


def test_an_id_is_that_of_the_same_config_written_by_itself(tmp_path: Path) -> None:
    """Sections that cases share are settled once; that must not show, also where a preset depends on the schedule."""
    path = written(tmp_path, f"{CLUSTER}sweep: {MIXED}\n")
    cases = cases_of(path)
    assert len(cases) == 4 * 2 * 4 * 2 * 2 == len({case.id for case in cases})
    for case in cases:
        assert case.id == config_id(load(path, case.changes)), case.changes


def test_a_section_may_be_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, BASE + "sweep: {grid: {cluster: [null, {device: a100-80gb}]}}\n")
    none, some = cases_of(path)
    assert none.reason is some.reason is None
    assert none.id == config_id(load(path)) != some.id


def test_an_id_is_the_sha256_of_the_canonical_settings(tmp_path: Path) -> None:
    """Computed here once more, from the settings as a whole: JSON, keys sorted, without name and sweep."""
    experiment = load(written(tmp_path, CLUSTER))
    data = {key: value for key, value in settings(experiment).items() if key not in {"name", "sweep"}}
    text = json.dumps([SEMANTICS, data], sort_keys=True, separators=(",", ":"))
    assert config_id(experiment) == hashlib.sha256(text.encode()).hexdigest()


def test_the_name_does_not_count_and_a_default_written_out_is_the_same_case(tmp_path: Path) -> None:
    short = sweep(tmp_path, "{grid: {pipeline.ranks: [2]}}")
    long = sweep(
        tmp_path, "{grid: {pipeline.ranks: [2], pipeline.steps: [1], schedule: [{name: 1f1b}]}}", "name: other\n" + BASE
    )
    assert [case.id for case in short] == [case.id for case in long]


def test_a_file_counts_by_its_content(tmp_path: Path) -> None:
    """The same path with other orders is another case."""
    order = tmp_path / "order.csv"
    text = "{grid: {schedule: [{name: file, path: order.csv}]}}"
    base = BASE.replace("ranks: 4, microbatches: 8", "ranks: 1, microbatches: 2")
    ids = []
    for rows in ("0F0,0B0,0F1,0B1\n", "0F0,0F1,0B0,0B1\n", "0F0,0B0,0F1,0B1\n"):
        order.write_text(rows, encoding="utf-8")
        (case,) = sweep(tmp_path, text, base)
        assert case.reason is None
        ids.append(case.id)
    assert ids[0] == ids[2] != ids[1]


def test_what_is_not_legal_is_listed_with_its_reason(tmp_path: Path) -> None:
    cases = sweep(tmp_path, "{grid: {schedule: [1f1b, dualpipe, chimera], pipeline.microbatches: [7, 8]}}")
    reasons = {(case.changes["schedule"], case.changes["pipeline.microbatches"]): case.reason for case in cases}
    assert len(cases) == len({case.id for case in cases}) == 6
    assert reasons["1f1b", 7] is None and reasons["1f1b", 8] is None and reasons["dualpipe", 8] is None
    assert "dualpipe needs an even number" in str(reasons["dualpipe", 7])
    assert "chimera needs an even number" in str(reasons["chimera", 7]) and reasons["chimera", 8] is None


def test_a_reason_is_that_of_the_same_settings_by_themselves(tmp_path: Path) -> None:
    """What parts agree on is looked at once for cases that share them; that must not show in what is said of any."""
    text = """{grid: {
      schedule: [1f1b, dualpipe, {name: interleaved_1f1b, virtual_stages: 2}], pipeline.ranks: [3, 4],
      pipeline.microbatches: [7, 8], pipeline.recompute: [none, [none, full, none]],
      costs.forward: [1 ms, [1 ms, 1 ms, 1 ms]], cluster.speed: [1, [1, 1, 1]], runtime: [ideal, megatron]}}"""
    cases = sweep(tmp_path, text, CLUSTER.replace("per: model", "per: stage"))
    assert len(cases) == 3 * 2 * 2 * 2 * 2 * 2 * 2
    told: dict[str | None, int] = {}
    for case in cases:
        try:
            ppsim.Experiment(**case.settings)
            alone = None
        except ppsim.ConfigError as error:
            alone = str(error)
        assert case.reason == alone
        told[alone] = told.get(alone, 0) + 1
    # 1f1b of 3 ranks with lists of 3 is legal; dualpipe of 3 ranks is not, nor are lists of 3 for 4 ranks.
    assert told[None] >= 1 and len(told) > 10


def test_what_no_case_could_have_is_an_error(tmp_path: Path) -> None:
    """A misspelt name is no case that isn't legal: it is said before anything runs."""
    with pytest.raises(
        ppsim.ConfigError, match=r"sweep\.grid\.schedule\.1: unknown schedule 'gpip'; did you mean 'gpipe'"
    ):
        sweep(tmp_path, "{grid: {schedule: [1f1b, gpip]}}")
    with pytest.raises(ppsim.ConfigError, match=r"sweep\.list\.0\.costs\.forward: 5 is a bare number"):
        sweep(tmp_path, "{list: [{costs.forward: 5}]}")


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("microbatches >= ranks", 5),  # (2, 2) (2, 4) (2, 8) (4, 4) (4, 8) of 2 · 3
        ("pipeline.microbatches % pipeline.ranks == 0 and ranks == 4", 2),
        ("steps == 1", 6),  # a default that nobody wrote
        ("stages > 4", 0),
        ("virtual_stages == 1 and gpus == 2", 3),
        ("costs.forward >= '64 ms'", 6),
        ("schedule == '1f1b'", 6),
    ],
)
def test_where(where: str, left: int, tmp_path: Path) -> None:
    text = f'{{grid: {{pipeline.ranks: [2, 4], pipeline.microbatches: [2, 4, 8]}}, where: "{where}"}}'
    assert len(sweep(tmp_path, text)) == left


def test_where_sees_what_follows_from_the_global_batch(tmp_path: Path) -> None:
    """microbatches = 64 / (micro_batch_size · 1): 64, 32, 16; those of at most 32 are two."""
    base = BASE.replace("microbatches: 8", "micro_batch_size: 1, global_batch: 64")
    cases = sweep(tmp_path, "{grid: {pipeline.micro_batch_size: [1, 2, 4]}, where: microbatches <= 32}", base)
    assert [case.changes["pipeline.micro_batch_size"] for case in cases] == [2, 4]


def test_where_on_stages_leaves_what_is_not_legal_to_be_told(tmp_path: Path) -> None:
    cases = sweep(tmp_path, "{grid: {schedule: [{name: hanayo, waves: 1e9}]}, where: stages > 99}")
    assert "more than the limit of 1,000,000 stages" in str(cases[0].reason)


def test_where_that_cant_be_decided_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        ppsim.ConfigError, match=r"'micro_batch_size > 1' can't be decided.*micro_batch_size is an empty"
    ):
        sweep(tmp_path, "{grid: {pipeline.ranks: [2]}, where: micro_batch_size > 1}")


def test_a_name_on_the_way_becomes_a_mapping(tmp_path: Path) -> None:
    """cluster.intra_node: nvlink3, and then its latency: the rest is the row's."""
    path = written(tmp_path, f"{CLUSTER}sweep: {{grid: {{cluster.intra_node.latency: [9 us]}}}}\n")
    (case,) = cases_of(path)
    resolver = Resolver(base_of(path))
    experiment = resolver.experiment(resolver.settled(case.settings))
    assert experiment.cluster is not None and experiment.cluster.intra_node is not None
    assert (float(experiment.cluster.intra_node.latency), experiment.cluster.intra_node.like) == (9e-6, "nvlink3")
    assert experiment.cluster.intra_node.bandwidth == 300 * 10**9
