"""Megatron's arguments as a launch script gives them: which were given, their values, and where.

The words are found by ``formats.shell``; nothing is run. Of Megatron's several hundred arguments those are read that
shape a pipeline; the others are remembered by name.
Source: megatron/training/arguments.py and torchrun's options; old spellings from Megatron-LM 1.0 to 3.0.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ppsim.errors import FormatError, did_you_mean, shown
from ppsim.formats.megatron.layers import FIRST, LAST, LAYOUT
from ppsim.formats.shell.script import Script, inner
from ppsim.formats.shell.words import Missing, Word

NUMBERS = (
    "--num-layers", "--hidden-size", "--seq-length", "--micro-batch-size", "--global-batch-size",
    "--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--context-parallel-size",
    "--expert-model-parallel-size", "--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank",
    FIRST, LAST, "--microbatch-group-size-per-virtual-pipeline-stage", "--recompute-num-layers", "--mtp-num-layers",
)  # fmt: skip
SWITCHES = (
    "--bf16", "--fp16", "--sequence-parallel", "--account-for-embedding-in-pipeline-split",
    "--account-for-loss-in-pipeline-split", "--overlap-p2p-communication", "--no-overlap-p2p-communication",
    "--overlap-p2p-communication-warmup-flush", "--overlap-moe-expert-parallel-comm", "--delay-wgrad-compute",
    "--overlap-grad-reduce", "--recompute-activations", "--checkpoint-activations",
)  # fmt: skip
CHOICES: Mapping[str, tuple[str, ...]] = {
    "--recompute-granularity": ("full", "selective"),
    "--recompute-method": ("uniform", "block"),
}
LAUNCHER = ("--nproc-per-node", "--nnodes")
OLD = {
    "--encoder-num-layers": "--num-layers",
    "--encoder-seq-length": "--seq-length",
    "--batch-size": "--micro-batch-size",
    "--model-parallel-size": "--tensor-model-parallel-size",
    "--moe-expert-parallel-size": "--expert-model-parallel-size",
    "--checkpoint-num-layers": "--recompute-num-layers",
    "--activations-checkpoint-num-layers": "--recompute-num-layers",
    "--activations-checkpoint-method": "--recompute-method",
}
"""Earlier names, and today's."""
MEANT = {
    "--virtual-pipeline-model-parallel-size": "--num-virtual-stages-per-pipeline-rank",
    "--tensor-parallel-size": "--tensor-model-parallel-size",
    "--pipeline-parallel-size": "--pipeline-model-parallel-size",
    "--tp-size": "--tensor-model-parallel-size",
    "--pp-size": "--pipeline-model-parallel-size",
}
"""Names that Megatron doesn't have, though other frameworks do."""
REFUSED = {
    "--standalone-embedding-stage": f"say what it does with {LAYOUT}, as in 'E|t*4|t*4|t*4L'",
    "--pipeline-model-parallel-split-rank": "models of an encoder and a decoder aren't read",
    "--decoder-num-layers": "models of an encoder and a decoder aren't read",
    "--encoder-pipeline-model-parallel-size": "models of an encoder and a decoder aren't read",
    "--yaml-cfg": "what a YAML file of Megatron's says isn't read; give the arguments themselves",
}
"""Arguments that change the pipeline in a way that isn't read: better no answer than a wrong one."""
OTHERS = (
    "--recompute-modules", "--expert-tensor-parallel-size", "--rampup-batch-size", "--num-experts", "--train-iters",
    "--max-position-embeddings", "--num-attention-heads", "--ffn-hidden-size", "--moe-ffn-hidden-size", "--num-workers",
    "--decoder-seq-length", "--num-query-groups", "--eval-micro-batch-size", "--eval-global-batch-size",
    "--num-layers-at-start-in-bf16", "--num-layers-at-end-in-bf16", "--fp8-format", "--no-bf16", "--tp-comm-overlap",
)  # fmt: skip
"""Names near those above that are right as they are."""
KNOWN = frozenset((*NUMBERS, *SWITCHES, *CHOICES, LAYOUT, *OLD, *REFUSED))
MARKS = frozenset(("--num-layers", "--encoder-num-layers", "--pipeline-model-parallel-size", "--micro-batch-size"))
"""By one of these a command is known as Megatron's."""
PRINTS = ("echo", "printf", ":")
LARGEST = 10**9


class Given(NamedTuple):
    """An argument: how it was spelt, its value if it takes one, and the line."""

    spelt: str
    value: str
    line: int


class Mistake(NamedTuple):
    """What is wrong, and the line (0: of the file as a whole)."""

    line: int
    text: str


class Arguments:
    """What a file gives: ``given`` by today's name, ``others`` by name, ``mistakes``, ``missing``, ``notes``."""

    def __init__(self, text: str, fixed: Mapping[str, str]) -> None:
        self.given: dict[str, Given] = {}
        self.others: dict[str, int] = {}
        self.mistakes: list[Mistake] = []
        self.notes: list[str] = []
        self.unknown: dict[str, tuple[int, Missing]] = {}
        """Arguments whose value the file doesn't tell."""
        self.spoilt: set[str] = set()
        """Arguments that are there, but wrong."""
        self.readable = False
        """Whether the file's text is that of a shell at all, and has arguments."""
        try:
            script = Script(text, fixed)
            words = list(self._words(script))
        except FormatError as error:
            line, _, message = str(error).partition(": ")
            self.mistakes.append(Mistake(int(line), message))
            self.missing: tuple[Missing, ...] = ()
            return
        self.readable = True
        self._take(words)
        self.missing = tuple(dict.fromkeys(missing for word in words for missing in word.missing))
        for name in sorted(set(fixed) - script.asked):
            hint = did_you_mean(name, [*script.variables, *(m.name for m in self.missing if m.name)])
            self.mistakes.append(Mistake(0, f"--set {name}: nothing in the file depends on it{hint}"))
        if script.skipped:
            skipped = ", ".join(f"{word.text} (line {word.line})" for word in _flags(script.skipped))
            self.notes.append(f"left out, because it stands under a condition: {skipped or 'text without arguments'}")

    def number(self, name: str) -> int | None:
        """A whole number; None where it wasn't given or is wrong, which is then a mistake."""
        given = self.given.get(name)
        if given is None or name in self.spoilt:
            return None
        least = 0 if name == "--mtp-num-layers" else 1
        value = int(given.value) if re.fullmatch(r"[+-]?[0-9]{1,12}", given.value) else None
        if value is None or not least <= value <= LARGEST:
            self.wrong(name, f"{shown(given.value)}, where a whole number from {least} on is due")
            return None
        return value

    def has(self, name: str) -> bool:
        """Whether it was given."""
        return name in self.given

    def names(self, name: str) -> bool:
        """Whether it is there at all, be it wrong or unknown."""
        return name in self.given or name in self.unknown or name in self.spoilt

    def line(self, name: str) -> int:
        """The line that it was given on."""
        return self.given[name].line if name in self.given else 0

    def place(self, name: str) -> str:
        """As in '--num-layers 24, line 12'."""
        given = self.given[name]
        value = f" {shown(given.value)[1:-1]}" if given.value else ""
        return f"{given.spelt}{value}, line {given.line}"

    def wrong(self, name: str, text: str) -> None:
        """Remember a mistake at an argument."""
        given = self.given.get(name)
        self.spoilt.add(name)
        self.mistakes.append(Mistake(given.line if given else 0, f"{given.spelt if given else name}: {text}"))

    def _words(self, script: Script) -> Iterator[Word]:
        """The words that Megatron is given: of its command, or of a file that holds arguments alone."""
        plain = [command for command in script.commands if command.words[0].text.startswith("--")]
        plain = [command for command in plain if not command.conditional]
        running = [c for c in script.commands if not c.words[0].text.startswith("-") and c.words[0].text not in PRINTS]
        launches = [inner(command.words) for command in running]
        launches = [words for words in launches if any(word.text.partition("=")[0] in MARKS for word in words)]
        if len(launches) > 1:
            lines = " and ".join(str(words[0].line) for words in launches[:4])
            raise FormatError(
                f"{launches[1][0].line}: the commands of lines {lines} both run Megatron; keep one of them"
            )
        if launches:
            yield from launches[0]
            for word in (command.words[0] for command in plain):
                self.spoilt.add(OLD.get(word.text, word.text))
                why = "isn't part of the command, which the line above ends: a comment there, or no \\ at its end"
                self.mistakes.append(Mistake(word.line, f"{shown(word.text)[1:-1]} {why}"))
            return
        if plain:
            yield from (word for command in plain for word in command.words)
            return
        values = list(script.words_of_variables())
        if any(word.text.partition("=")[0] in MARKS for word in values):
            self.notes.append("no command uses the arguments; they are taken from the variables that hold them")
            yield from values
            return
        raise FormatError("0: no arguments of Megatron's: neither a command with --num-layers, nor a list of arguments")

    def _take(self, words: list[Word]) -> None:
        index = 0
        strict = False
        while index < len(words):
            word = words[index]
            index += 1
            if not word.text.startswith("--"):
                if strict and not word.missing and not re.fullmatch(r".*\.py", word.text):
                    self.mistakes.append(Mistake(word.line, _stray(word, words[index - 2])))
                continue
            spelt, equals, text = word.text.partition("=")
            name = spelt.replace("_", "-") if spelt.replace("_", "-") in LAUNCHER else spelt
            strict = name in KNOWN
            if name in REFUSED:
                self.mistakes.append(Mistake(word.line, f"{name}: {REFUSED[name]}"))
                strict = False
            elif name in SWITCHES:
                if equals:
                    self.mistakes.append(Mistake(word.line, f"{name} takes no value; {shown(text)} is given"))
                self._add(name, Given(spelt, "", word.line))
            elif name in KNOWN or name in LAUNCHER:
                value = word._replace(text=text) if equals else None
                if value is None and index < len(words) and not words[index].text.startswith("--"):
                    value = words[index]
                    index += 1
                self._value(name, spelt, word.line, value)
            elif " " in name and name.split()[0] in KNOWN:
                self.spoilt.add(OLD.get(name.split()[0], name.split()[0]))
                text = f"{shown(name)} is one word, because of its quotes; leave them out"
                self.mistakes.append(Mistake(word.line, text))
            elif meant := _meant(name):
                self.spoilt.update(meant)
                hint = f"{shown(name)[1:-1]}: no argument of Megatron's; {' or '.join(meant)} is meant?"
                self.mistakes.append(Mistake(word.line, hint))
            else:
                self.others.setdefault(shown(name)[1:-1], word.line)

    def _value(self, name: str, spelt: str, line: int, value: Word | None) -> None:
        today = OLD.get(name, name)
        mistakes = len(self.mistakes)
        if value is None or not value.text:
            self.mistakes.append(Mistake(line, f"{spelt}: its value is missing"))
        elif value.missing:
            self.unknown[today] = (line, value.missing[0])
        elif today in CHOICES and value.text not in CHOICES[today]:
            hint = did_you_mean(value.text, CHOICES[today]) or ";"
            known = " or ".join(CHOICES[today])
            self.mistakes.append(Mistake(line, f"{spelt}: {shown(value.text)} is unknown{hint} {known} is due"))
        elif today == LAYOUT and value.cut:
            self.mistakes.append(
                Mistake(line, f"{spelt}: without quotes the shell takes | and ( for operators; write {spelt} 'Et|…|tL'")
            )
        else:
            self._add(today, Given(spelt, value.text, line))
            if today in NUMBERS:
                self.number(today)
        if len(self.mistakes) > mistakes:
            self.spoilt.add(today)

    def _add(self, name: str, given: Given) -> None:
        before = self.given.get(name)
        if before is not None and before.value != given.value:
            self.notes.append(
                f"{name} is given twice, line {before.line} ({before.value}) and line {given.line} ({given.value}): "
                "the last counts, as for Megatron"
            )
        self.unknown.pop(name, None)
        self.given[name] = given


def _flags(words: list[Word]) -> list[Word]:
    return [word for word in words if word.text.startswith("--")]


def _stray(word: Word, before: Word) -> str:
    if not word.text.strip():
        return "a backslash with a blank after it doesn't continue the line; nothing may follow it"
    return f"{shown(word.text)} belongs to no argument; {shown(before.text)[1:-1]} before it takes no further value"


def _meant(name: str) -> list[str]:
    """What may be meant by a name that is nearly one that is read."""
    if name in MEANT:
        return [MEANT[name]]
    if name in OTHERS:
        return []
    candidates = [other for other in KNOWN if other not in OLD]
    longer = sorted(other for other in candidates if len(name) > 6 and other.startswith(name))
    return longer[:3] or difflib.get_close_matches(name.replace("_", "-").lower(), candidates, n=1, cutoff=0.93)
