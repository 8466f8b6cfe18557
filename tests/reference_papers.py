"""Make the README's tables of published experiments: ``python -m tests.reference_papers``.

They are what ``ppsim reproduce`` has left in ``results/reference/papers.csv``, no more; nobody writes into them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator

from ppsim.papers.paper import named
from tests import readme

BEGIN, END = "<!-- `ppsim reproduce`, then `python -m tests.reference_papers` -->\n", "<!-- end of that -->\n"
CHOSEN = {
    (
        "vocabulary",
        "iterations",
    ): "iterations on 8 A100, 1F1B, a last stage of up to 3.5 times the others (Vocabulary Parallelism)",
    ("straggler", "steps_st"): "steps of ByteDance's job ST, p = 4, a last stage too long (StragglerAnalysis)",
    ("straggler", "steps_ar"): "steps of ByteDance's job AR, p = 4, one slow worker of 64 (the same)",
    ("primus", "pp8_steps"): "steps on 8 AMD GPUs, 1F1B (Primus)",
    ("b200", "memory_first"): "peak memory, LLaMA-3 70B and 405B layers on 8 B200, Megatron (SimuMax)",
    ("b200", "memory_last_moe"): "peak memory, DeepSeek-V2 layers, last stage (the same)",
    ("b200", "steps"): "steps of the LLaMA runs, sequences of 4,096 and 32,768 (the same)",
    ("ds3lab", "slopes"): "a further microbatch, GPipe on 8 machines, 1 to 10 Gbit/s (DS3Lab)",
    ("megatron", "table1"): "GPT of 1.7B to 1T, 32 to 3,072 A100 (Megatron-LM, Table 1)",
    ("megatron", "figure13"): "GPT 162B, (p, t) from (2, 32) to (32, 2) (Megatron-LM, Figure 13)",
    ("megatron", "figure17"): "GPT 145B, with and without recomputation (Megatron-LM, Figure 17)",
    ("korthikanti", "table5"): "iterations of GPT 22B to 1T, two ways to recompute (Korthikanti et al.)",
    ("varuna", "table7"): "mini-batches of GPT 2.5B and 8.3B on spot V100, 10 Gbit/s (Varuna, Table 7)",
    ("zero_bubble", "table4"): "1F1B, interleaved, ZB-1p and ZB-2p, 1.5B to 28.3B (Zero Bubble, Table 4)",
    ("chimera", "bert"): "Bert-48 under GPipe, DAPPLE and Chimera on 16 to 64 P100 (Chimera, Figures 10, 13, 14, 17)",
    ("pipedream", "speed_2018"): "VGG-16 and Inception-v3 on 4 to 16 machines over one (PipeDream 2018, Table 1)",
}
"""Of what was measured, what the README shows, in words; all of it is in the documentation."""
Row = dict[str, str]


def kept() -> list[Row]:
    """The rows of the last run."""
    with (readme.ROOT / readme.REFERENCE / "papers.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def tables(rows: list[Row]) -> str:
    """Both tables: some measured figures, and how many targets of each tier are met."""
    return "\n".join([*_figures(rows), "", *_tiers(rows)]) + "\n"


def _figures(rows: list[Row]) -> Iterator[str]:
    yield "| what | rows | measured | ppsim | from |"
    yield "|---|---|---|---|---|"
    for (name, of), words in CHOSEN.items():
        (figure,) = (figure for figure in named(name).figures if figure.name == of)
        mine = [row for row in rows if (row["paper"], row["figure"], row["judged"]) == (name, of, "True")]
        measured = _range(
            _number(float(row["published"])) for row in sorted(mine, key=lambda row: float(row["published"]))
        )
        errors = _range(_signed(error) for error in sorted(100 * float(row["error"]) for row in mine))
        known = "its inputs alone" if figure.kind == "measured" else "constants fitted on other rows"
        yield f"| {words} | {len(mine)} | {f'{measured} {figure.unit}'.strip()} | {errors} % | {known} |"


def _range(sorted_texts: Iterable[str]) -> str:
    texts = [*sorted_texts]
    first, last = texts[0], texts[-1]
    return first if first == last else f"{first} … {last}"


def _signed(percent: float) -> str:
    return f"{round(percent, 1) + 0:+.1f}".replace("+0.0", "0.0").replace("-", "−")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _tiers(rows: list[Row]) -> Iterator[str]:
    yield "| tier | targets met | mean error |"
    yield "|---|---|---|"
    tiers: dict[str, list[Row]] = {}
    kinds = {
        (name, figure.name): figure.tier or figure.kind for name in _papers(rows) for figure in named(name).figures
    }
    for row in rows:
        if row["judged"] == "True":
            tiers.setdefault(kinds[row["paper"], row["figure"]], []).append(row)
    for tier, mine in sorted(tiers.items()):
        errors = [abs(float(row["error"])) for row in mine if row["error"] and row["kind"] != "order"]
        mean = f"{sum(errors) / len(errors):.2%}".replace("%", " %") if errors else "–"
        yield f"| {tier} | {sum(row['met'] == 'True' for row in mine)} of {len(mine)} | {mean} |"


def _papers(rows: list[Row]) -> Iterable[str]:
    return dict.fromkeys(row["paper"] for row in rows)


def main() -> None:
    """Write them into the README."""
    before, _, rest = readme.README.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.README.write_text(f"{before}{BEGIN}{tables(kept())}{END}{after}", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
