"""Runtime presets: what the frameworks do, each value with its reason."""

from __future__ import annotations

from typing import Any

import pytest

import ppsim
from ppsim.config import resolved
from ppsim.config.runtime import PRESETS, Runtime, preset
from ppsim.schedules import Schedule, known


def experiment(runtime: Any, schedule: Any = "1f1b") -> ppsim.Experiment:
    return ppsim.Experiment(
        schedule=schedule, pipeline={"ranks": 4, "microbatches": 8}, costs={"forward": "1 ms", "backward": "2 ms"},
        runtime=runtime,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "schedule", "expected"),
    [
        ("ideal", "1f1b", ("overlapped", "separate", "end", True)),
        # PyTorch's Schedule1F1B waits for fused batches, its other schedules post each send and receive by itself.
        ("pytorch", "1f1b", ("overlapped", "fused", "overlapped", False)),
        ("pytorch", "gpipe", ("overlapped", "separate", "overlapped", False)),
        ("pytorch", "interleaved_1f1b", ("overlapped", "separate", "overlapped", False)),
        # Megatron overlaps its sends only with interleaving, its gradient sync only with --overlap-grad-reduce.
        ("megatron", "1f1b", ("overlapped", "fused", "end", True)),
        ("megatron", "interleaved_1f1b", ("overlapped", "separate", "end", True)),
    ],
)
def test_presets(name: str, schedule: str, expected: tuple[Any, ...]) -> None:
    for form in (name, {"preset": name}):
        runtime = experiment(form, schedule).runtime
        assert (runtime.send, runtime.p2p, runtime.grad_sync, runtime.barrier) == expected


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("schedule", known())
def test_every_preset_goes_with_every_schedule(name: str, schedule: str) -> None:
    if known()[schedule].model_fields.keys() >= {"path"}:
        pytest.skip("needs a file")
    settings = {key: setting.value for key, setting in preset(name, schedule).items()}
    assert settings.keys() <= Runtime.model_fields.keys()
    assert experiment(name, schedule).runtime.preset == name


def test_a_schedule_object_counts_by_its_name() -> None:
    class Own(Schedule):
        name: str = "own"

    assert experiment("megatron", known()["1f1b"]()).runtime.p2p == "fused"
    assert experiment("megatron", Own()).runtime.p2p == "separate"


def test_what_is_written_goes_over_the_preset() -> None:
    runtime = experiment({"preset": "megatron", "p2p": "separate", "send": "blocking", "op_overhead": "20 us"}).runtime
    assert (runtime.p2p, runtime.send, runtime.barrier) == ("separate", "blocking", True)


def test_every_value_of_a_preset_has_its_reason_in_the_resolved_config() -> None:
    for name, schedule in (("pytorch", "gpipe"), ("pytorch", "1f1b"), ("megatron", "1f1b")):
        text = resolved.text(experiment(name, schedule))
        for key, setting in preset(name, schedule).items():
            value = str(setting.value).lower()
            assert f"  {key}: {value} # {setting.reason}\n" in text
