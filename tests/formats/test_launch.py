"""Launch files by launcher: a minimal file of each kind, whose it is, and the experiment that it means."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ppsim
from ppsim.config.experiment import Experiment
from ppsim.errors import FormatError
from ppsim.formats import launch
from ppsim.formats.launch import File, Imported, Machine, Times

RUN = "torchrun --nproc_per_node 8 pretrain_gpt.py --micro-batch-size 1 --bf16 --seq-length 128 --hidden-size 64 "
MILLISECONDS = Times(Fraction(1, 1000), Fraction(2, 1000))


def imported(text: str, label: str = "run.sh", name: str | None = None, **options: Any) -> Imported:
    files: Mapping[str, str] = options.pop("files", {})
    return launch.convert(File(text, label, load=files.get, **options), name, MILLISECONDS)


def experiment(found: Imported, tmp_path: Path) -> Experiment:
    path = tmp_path / "imported.yaml"
    path.write_text(found.text, encoding="utf-8")
    return ppsim.load(path)


def refused(text: str, label: str = "run.sh", **options: Any) -> str:
    with pytest.raises(FormatError) as error:
        imported(text, label, **options)
    return str(error.value)


class Case(NamedTuple):
    """A file, whose it is, and what the experiment says: per stage milliseconds of forwards, and other values."""

    name: str
    text: str
    launcher: str
    forward_ms: list[int]
    schedule: str
    microbatches: int
    label: str = "run.sh"
    options: Mapping[str, Any] = {}


DECIDED = (
    "AC=${AC:-none}\nif [ $AC = full ]; then O='--recompute-granularity full --recompute-method uniform'\n"
    "elif [ $AC = sel ]; then O='--recompute-granularity selective'; else O=; fi\n"
    f"{RUN} --num-layers 32 --pipeline-model-parallel-size 4 --global-batch-size 64 $O\n"
)
DEEPSPEED = (
    "#!/bin/bash\n#SBATCH --nodes=48\n#SBATCH --ntasks-per-node=1\nCONF=./ds.$SLURM_JOBID.json\n"
    'cat <<EOT > $CONF\n{"train_micro_batch_size_per_gpu": 2, "train_batch_size": 2048}\nEOT\n'
    'export LAUNCHER="python -m torch.distributed.run --nproc_per_node 8 --nnodes $SLURM_NNODES"\n'
    'export CMD=" `pwd`/pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 12 --bf16 \\\n'
    "  --pp-partition-method 'type:transformer|embedding' --num-layers 70 --micro-batch-size 2 \\\n"
    '  --global-batch-size 2048 --deepspeed --deepspeed_config $CONF"\n'
    'srun bash -c "$LAUNCHER --node_rank \\$SLURM_PROCID $CMD" 2>&1 | tee log\n'
)
PRIMUS = (
    "modules:\n  pre_trainer:\n    framework: megatron\n    config: pre_trainer.yaml\n    model: ${PRIMUS_MODEL:small}.yaml\n"
    "    overrides:\n      micro_batch_size: 2\n      global_batch_size: ${GBS:32}\n      recompute_num_layers: 0\n"
    "      pipeline_model_parallel_size: ${PRIMUS_PP:4}\n      encoder_pipeline_model_parallel_size: 0\n"
)
PRESETS = {
    "primus/configs/models/megatron/small.yaml": "extends:\n  - base.yaml\nnum_layers: 28\nhidden_size: 1024\n",
    "primus/configs/models/megatron/base.yaml": "num_layers: 2\nseq_length: 512\nswiglu: true\n",
}
CASES = [
    Case("megatron", f"{RUN} --num-layers 8 --pipeline-model-parallel-size 4 --global-batch-size 8", "megatron", [2] * 4, "1f1b", 4),
    Case("arguments alone", "--micro-batch-size 1\n--num_layers 8\n--global_batch_size 8\n", "megatron", [8], "1f1b", 8, "args.txt"),
    Case("decided by a default", DECIDED, "megatron", [8] * 4, "1f1b", 32),
    Case("decided by a user", DECIDED, "megatron", [8] * 4, "1f1b", 32, options={"fixed": {"AC": "full"}}),
    Case(
        "a command with pwd in a string, piped within", "D=`pwd`\nO='--num-layers 8'\n"
        f'CMD="torchrun {RUN.partition(" ")[2]} $D/x.py $O --pipeline-model-parallel-size 8 --global-batch-size 8 2>&1 | tee log"\neval $CMD',
        "megatron", [1] * 8, "1f1b", 8,
    ),
    Case("bloom", DEEPSPEED, "megatron-deepspeed", [5, *[6] * 10, 5], "1f1b", 128),
    Case(
        "deepspeed's launcher", "deepspeed --num_gpus 4 --num_nodes 2 pretrain_gpt.py --deepspeed --num-layers 10 "
        "--pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 16", "megatron-deepspeed", [3, 3, 2, 2], "1f1b", 8,
    ),
    Case(
        "no pipeline", f"{RUN} --num-layers 8 --global-batch-size 8 --deepspeed --no-pipeline-parallel", "megatron-deepspeed", [8], "1f1b", 1,
    ),
    Case(
        "zero bubble", f"{RUN} --num-layers 16 --pipeline-model-parallel-size 8 --global-batch-size 64 --enable-zero-bubble "
        "--zero-bubble-v-schedule", "zero-bubble", [1] * 16, "zbv", 64,
    ),
    Case(
        "padded", f"{RUN} --num-layers 10 --pipeline-model-parallel-size 4 --global-batch-size 8 --allow-padding-num-layers",
        "zero-bubble", [2, 3, 3, 2], "1f1b", 4,
    ),
    Case(
        "pai", "TP=$1\nPP=$2\nif [ $3 = bf16 ]; then P='--bf16'; elif [ $3 = fp16 ]; then P='--fp16'; fi\n"
        "R='torchrun --nproc_per_node 8 pretrain_qwen.py --num-layers 28 --micro-batch-size 1 --global-batch-size 8 "
        "--patch-tokenizer-type Qwen2Tokenizer'\n"
        'CMD="$R --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP $P"\necho $CMD\neval $CMD',
        "pai-megatron-patch", [7] * 4, "1f1b", 4, options={"fixed": {"1": "1", "2": "4", "3": "bf16"}},
    ),
    Case(
        "torchtitan", '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 8\nseq_len = 4096\n[parallelism]\n'
        'pipeline_parallel_degree = 4\npipeline_parallel_schedule = "1F1B"\n', "torchtitan", [8, 9, 8, 7], "1f1b", 8, "train.toml",
    ),
    Case(
        "torchtitan, interleaved", '[model]\nflavor = "8B"\n[training]\nlocal_batch_size = 16\n[parallelism]\npipeline_parallel_degree = 2\n'
        'pipeline_parallel_schedule = "interleaved1f1b"\npipeline_parallel_layers_per_stage = 9\npipeline_parallel_microbatch_size = 2\n',
        "torchtitan", [8, 9, 8, 7], "interleaved_1f1b", 8, "train.toml",
    ),
    Case(
        "torchtitan, by name", '[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "ZBVZeroBubble"\n'
        'module_fqns_per_model_part = [["tok_embeddings", "layers.0"], ["layers.1", "layers.2"], ["layers.3", "layers.4"], ["layers.5", "norm", "output"]]\n',
        "torchtitan", [1, 2, 2, 1], "zbv", 8, "train.toml",
    ),
    Case("primus", PRIMUS, "primus", [7, 7, 7, 7], "1f1b", 16, "exp.yaml", {"files": PRESETS}),
    Case(
        "primus, a V", PRIMUS + "      patch_primus_pipeline: true\n      pp_algorithm: zbv-formatted\n      num_virtual_stages_per_pipeline_rank: 2\n",
        "primus", [7, 7, 7, 7], "zbv", 16, "exp.yaml", {"files": PRESETS, "fixed": {"PRIMUS_PP": "2"}},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_minimal_file_of_each_kind(case: Case, tmp_path: Path) -> None:
    """At 1 ms a layer's forward the milliseconds of a stage are its layers; m = global batch / (micro batch · replicas)."""
    found = imported(case.text, case.label, **case.options)
    assert launch.launcher_of(File(case.text, case.label)).name == case.launcher
    assert f"by `ppsim import {case.launcher}`" in found.text
    made = experiment(found, tmp_path)
    times = [time * 1000 for time in made.problem().costs.forward]
    assert (times, made.schedule.name, made.pipeline.microbatches) == (
        case.forward_ms,
        case.schedule,
        case.microbatches,
    )


@pytest.mark.parametrize(("answer", "step_s"), [("full", 1.120), ("none", 0.840), (None, 0.840)])
def test_recomputation_under_a_decided_condition(answer: str | None, step_s: float, tmp_path: Path) -> None:
    """(m + p - 1)(F + B) = 35 · 24 = 840 ms; run again late, inside the backward: 35 · 32 = 1120 ms."""
    found = imported(DECIDED, fixed={} if answer is None else {"AC": answer})
    made = experiment(found, tmp_path)
    assert made.pipeline.recompute == ("full" if answer == "full" else "none")
    assert round(float(ppsim.simulate(made).summary["makespan_s"]), 6) == step_s


UNDECIDED = [
    (
        "if [ $A = x ]; then L=8; elif [ $A = y ]; then L=8; else L=16; fi\n" f"{RUN} --num-layers $L --global-batch-size 8",
        "run.sh:1: `elif [ $A = y ]` isn't decided",
    ),
    (DECIDED.replace("AC=${AC:-none}\n", ""), "run.sh:1: `if [ $AC = full ]` isn't decided ($AC is not assigned in this file), and it changes --recompute-granularity, --recompute-method; give --set AC=full|sel"),
    (f'if [ -n "$X" ]; then O="--recompute-activations"; fi\n{RUN} --num-layers 8 --global-batch-size 8 $O', "and it changes --recompute-activations; give --set X=… (or X= for an empty one)"),
    (f'case $1 in a) L=8;; b) L=16;; esac\n{RUN} --num-layers $L --global-batch-size 8', "give --set 1=a|b"),
    (f'if [ -f x ]; then O="--fp16"; fi\n{RUN.replace("--bf16 ", "")} --num-layers 8 --global-batch-size 8 $O', "give --set if:1=yes|no"),
    (f"for P in 1 2; do\n{RUN} --num-layers 8 --global-batch-size 8 --pipeline-model-parallel-size $P\ndone", "the loop runs Megatron several times, with other --pipeline-model-parallel-size; give --set P=1|2"),
    (f"while read O; do A=\"$A $O\"; done < opts\n{RUN} --num-layers 8 --global-batch-size 8 $A", "${A} may hold arguments, but is assigned in a loop (line 1); give --set A='…'"),
    (f"if [ $A = 1 ]; then X=2; fi\nif [ $B = 1 ]; then O=\"--mtp-num-layers $X\"; fi\n{RUN} --num-layers 8 --global-batch-size 8 $O", "give --set B=1"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), UNDECIDED, ids=[row[1][-40:] for row in UNDECIDED])
def test_what_is_not_decided_and_matters(text: str, message: str) -> None:
    assert message in refused(text)


def test_what_is_not_decided_and_does_not_matter() -> None:
    text = f'if [ -n "$W" ]; then O="--wandb-project $W"; fi\n{RUN} --num-layers 8 --global-batch-size 8 $O $EXTRA "$@"'
    notes = "\n".join(imported(text).notes)
    assert 'not decided, and not needed: `if [ -n "$W" ]` (line 1)' in notes
    assert "$EXTRA (line 2, not assigned in this file)" in notes
    assert "warning: --no-such-option (line 1) isn't known" in "\n".join(
        imported(f"{RUN} --num-layers 8 --global-batch-size 8 --no-such-option").notes
    )


LLAMA = (
    "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
    "--group-query-attention --num-query-groups 8 --ffn-hidden-size 14336 --swiglu --normalization RMSNorm "
    "--disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope --seq-length 8192 "
    "--micro-batch-size 1 --global-batch-size 128 --bf16 --tensor-model-parallel-size 2 --sequence-parallel "
    "--pipeline-model-parallel-size 4 --use-distributed-optimizer --hidden-dropout 0 --recompute-activations "
)
H100 = Machine("h100-80gb")


def test_costs_follow_from_the_model_on_a_device(tmp_path: Path) -> None:
    """LLaMA-3 8B has 8.030 B parameters; 4 stages on 2 GPUs each hold them all in bf16, no milliseconds being given."""
    found = launch.convert(File(LLAMA, "llama.sh", vocabulary=128256), machine=H100)
    made = experiment(found, tmp_path)
    costs = made.problem().costs
    assert made.costs.kind == "transformer"
    assert round(float(sum(costs.weights)) * 2 / 2 / 1e9, 2) == 8.03
    assert (made.pipeline.recompute, made.cluster.devices_per_node) == ("selective", 8)
    assert all(time > 0 for time in (*costs.forward, *costs.backward))
    by_row = ppsim.load(tmp_path / "imported.yaml", {"costs.model": "llama-3-8b"})
    assert by_row.problem().costs.forward == costs.forward


def test_what_costs_from_a_model_need() -> None:
    def refused(text: str) -> str:
        with pytest.raises(FormatError) as error:
            launch.convert(File(text, "llama.sh"), machine=H100)
        return str(error.value)

    assert refused(LLAMA) == "llama.sh: --vocab-size is missing, which costs from the model need"
    again = "--vocab-size 8 --recompute-granularity full --recompute-method block --recompute-num-layers 1"
    assert "some layers of a stage" in refused(LLAMA.replace("--recompute-activations", again))
    assert "'attn' isn't modelled" in refused(f"{LLAMA} --vocab-size 8 --recompute-modules attn")
    undecided = (
        f'if [ -n "$F" ]; then O="--use-flash-attn"; fi\n{LLAMA} --vocab-size 128256 --transformer-impl local $O'
    )
    assert "changes --use-flash-attn" in refused(undecided)
    assert imported(undecided).notes  # with costs per layer it doesn't matter


REFUSED = [
    (DEEPSPEED.replace('"train_batch_size": 2048', '"train_batch_size": 1024'), "the DeepSpeed file says train_batch_size: 1024, --global-batch-size is 2048; both must agree"),
    (DEEPSPEED.replace("transformer|embedding", "block"), "'block' names none of the model's parts: _to_float16, EmbeddingPipe, "),
    (DEEPSPEED.replace("'type:transformer|embedding'", "best"), "'best': uniform, parameters or type:… is due"),
    (f"{RUN} --num-layers 8 --deepspeed --num-layers-per-virtual-pipeline-stage 2 --pipeline-model-parallel-size 2", "DeepSpeed's pipeline doesn't know --num-layers-per-virtual-pipeline-stage"),
    (f"{RUN} --num-layers 8 --enable-zb-runtime --num-layers-per-virtual-pipeline-stage 2 --pipeline-model-parallel-size 2 --global-batch-size 8", "grouped interleaving, which isn't modelled"),
]  # fmt: skip


SETTINGS_REFUSED = [
    ("train.toml", '[parallelism]\npipeline_parallel_schedule = "1F1C"\npipeline_parallel_degree = 2\n', "train.toml:2: pipeline_parallel_schedule: '1F1C' isn't modelled; did you mean '1F1B'?"),
    ("train.toml", '[model]\nflavor = "9B"\n[parallelism]\n', "train.toml:2: flavor: the layers of 'llama3' '9B' aren't known; give --set model.layers=…"),
    ("train.toml", '[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_layers_per_stage = 4\n', "pipeline_parallel_layers_per_stage"),
    ("train.toml", "[parallelism\n", "train.toml: not TOML: "),
    ("train.toml", "[parallelism]\npipeline_parallel_degree = 0\n", "0, where a whole number from 1 on is due"),
    ("exp.yaml", "modules: 3\n", "exp.yaml: no modules: with a trainer"),
    ("exp.yaml", "a: [\n", "exp.yaml:"),
    ("exp.yaml", PRIMUS.replace("framework: megatron", "framework: torchtitan"), "framework 'torchtitan': only megatron is read"),
    ("exp.yaml", PRIMUS + "      patch_primus_pipeline: true\n      pp_algorithm: zero-bubble\n", "exp.yaml:13: pp_algorithm 'zero-bubble' isn't modelled"),
    ("exp.yaml", PRIMUS.replace("${PRIMUS_PP:4}", "${PRIMUS_PP}"), "--pipeline-model-parallel-size depends on ${PRIMUS_PP}, not set in this file; give --set PRIMUS_PP=…"),
]  # fmt: skip


@pytest.mark.parametrize(("label", "text", "message"), SETTINGS_REFUSED, ids=[row[2][:40] for row in SETTINGS_REFUSED])
def test_what_settings_files_are_refused(label: str, text: str, message: str) -> None:
    assert message in refused(text, label, files=PRESETS, name="primus" if label == "exp.yaml" else "torchtitan")


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[row[1][:40] for row in REFUSED])
def test_what_relatives_refuse(text: str, message: str) -> None:
    assert message in refused(text)


PARTS = [
    ("uniform", [3, 6, 5, 1]),  # of 22 parts 6, 6, 5, 5: three functions and embeddings come before, four behind
    ("type:transformer", [4, 4, 4, 3]),
    ("'type:transformer|embedding'", [4, 4, 4, 3]),  # 17 parts that count; 5, 4, 4, 4 with an embedding at each end
    ("parameters", [3, 5, 4, 3]),  # 50 k a layer, 66 k an embedding: 216, 250, 200 and 216 k
]


@pytest.mark.parametrize(("method", "layers"), PARTS)
def test_deepspeed_cuts_a_list_of_parts(method: str, layers: list[int], tmp_path: Path) -> None:
    size = "--vocab-size 1024 --global-batch-size 8 --pipeline-model-parallel-size 4"
    made = experiment(imported(f"{RUN} --num-layers 15 --deepspeed --pp-partition-method {method} {size}"), tmp_path)
    assert [time * 1000 for time in made.problem().costs.forward] == layers


def test_a_launcher_by_name() -> None:
    text = f"{RUN} --num-layers 8 --global-batch-size 8"
    assert imported(text, name="megatron").text == imported(text).text
    assert "no launcher 'megatrom'; did you mean 'megatron'? known: megatron, " in refused(text, name="megatrom")


EXPERTS = f"{LLAMA} --vocab-size 8 --num-experts 8 --moe-router-topk 2"


@pytest.mark.parametrize(
    ("pattern", "key", "value"),
    [
        ("'([0]*3+[1]*29)'", "dense_layers", 3),
        ("[1]*32", None, None),
        ("'([0,1]*16)'", "expert_interval", 2),
        ("'([0]*3+[1])*8'", "expert_interval", 4),
        ("'[0, 0, 1, 1] + [1]*28'", "dense_layers", 2),
        ("4", "expert_interval", 4),
    ],
)
def test_which_layers_have_experts(pattern: str, key: str | None, value: int | None, tmp_path: Path) -> None:
    found = launch.convert(File(f"{EXPERTS} --moe-layer-freq {pattern}", "moe.sh"), machine=H100)
    model = experiment(found, tmp_path).costs.model_dump()["model"]
    assert {k: model[k] for k in ("dense_layers", "expert_interval")} == {
        "dense_layers": 0, "expert_interval": 1, **({key: value} if key else {}),
    }  # fmt: skip


def test_one_expert_is_a_dense_layer(tmp_path: Path) -> None:
    """Megatron-DeepSpeed's default is one expert; top-2 of it would be an error."""
    found = launch.convert(File(f"{LLAMA} --vocab-size 8 --num-experts 1", "x.sh"), machine=H100)
    assert experiment(found, tmp_path).costs.model_dump()["model"]["experts"] is None


def test_what_has_no_costs_from_a_model_is_refused_on_a_device_and_told_without() -> None:
    for option, word in (
        ("--hybrid-override-pattern M-M*", "state-space"),
        ("--moe-layer-freq [1,0]*16", "isn't read"),
    ):
        with pytest.raises(FormatError, match=word):
            launch.convert(File(f"{EXPERTS} {option}", "x.sh"), machine=H100)
        notes = launch.convert(File(f"{EXPERTS} {option}", "x.sh")).notes
        assert any(note.startswith(option.split()[0]) and "the same time" in note for note in notes)


@pytest.mark.parametrize(
    ("strategy", "sharding"), [("optim_grads_params", "weights"), ("optim", "optimizer"), ("", "none")]
)
def test_what_megatron_fsdp_shards(strategy: str, sharding: str, tmp_path: Path) -> None:
    option = f"--data-parallel-sharding-strategy {strategy}" if strategy else ""
    found = launch.convert(File(f"{LLAMA} --vocab-size 8 --use-megatron-fsdp {option}", "x.sh"), machine=H100)
    assert experiment(found, tmp_path).costs.optimizer_sharding == sharding
    assert not any("part of the time per layer" in note for note in found.notes)


def test_an_argument_between_given_ones_is_asked_for() -> None:
    text = f"B=$2\nD=${{4:-8}}\n{RUN.replace('--micro-batch-size 1', '--micro-batch-size $B')} --num-layers $D --$3"
    text = text.replace("--bf16", "")
    assert refused(text, fixed={"1": "dsw", "3": "bf16"}) == (
        "run.sh:3: --micro-batch-size depends on $2, an argument of the script; give --set 2=…"
    )
    assert "micro_batch_size: 4" in imported(text, fixed={"1": "dsw", "2": "4", "3": "bf16"}).text
    twelfth = text.replace("B=$2", "B=${12}").replace("torchrun", "eval torchrun")
    assert "depends on ${12}, an argument" in refused(twelfth, fixed={"1": "dsw", "3": "bf16", "13": "8"})


def test_arguments_in_a_file_that_the_script_writes(tmp_path: Path) -> None:
    text = f"N=8\ncat > ./args.txt <<EOF\n--num-layers $N\n--pipeline-model-parallel-size 4\nEOF\n{RUN}"
    found = imported(f"{text} --global-batch-size 8 $(cat args.txt)\n")
    assert experiment(found, tmp_path).pipeline.ranks == 4
    with pytest.raises(FormatError, match=r"\$\(cat others.txt\), a command, which isn't run|num-layers is missing"):
        imported(f"{text} --global-batch-size 8 $(cat others.txt)\n")


def test_a_command_inside_another_language_is_told_how_to_save() -> None:
    pod = "spec:\n  args:\n    - |\n      torchrun pretrain_gpt.py --num-layers 8 --pipeline-model-parallel-size 4\n"
    assert "of a command within YAML save the command as a script" in refused(pod, "pod.yaml")
    assert "where a program makes the command, save that command" in refused("import subprocess\n", "run.py")
