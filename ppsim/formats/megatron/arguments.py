"""Megatron's arguments as words give them: which were given, their values, and where.

Of Megatron's several hundred arguments those are read that shape a pipeline; of the others it is known by name whether
they matter.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from ppsim.errors import did_you_mean, shown
from ppsim.formats._launch import Mistake
from ppsim.formats.megatron.layers import LAYOUT
from ppsim.formats.megatron.options import (
    CHOICES,
    CONFIG,
    EXTRA,
    KNOWN,
    LAUNCHER,
    MEANT,
    MODEL_NUMBERS,
    NOT_MODELLED,
    NUMBERS,
    OLD,
    OTHERS,
    PER_LAYER,
    RECOMPUTED_LAYERS,
    REFUSED,
    SWITCHES,
    TEXTS,
    without_effect,
)  # fmt: skip
from ppsim.formats.shell.pieces import Missing, Word

LARGEST = 10**9


class Given(NamedTuple):
    """An argument: how it was spelt, its value if it takes one, and the line."""

    spelt: str
    value: str
    line: int


class Arguments:
    """What words give: ``given`` by today's name, ``others`` by name, ``mistakes``, ``missing``, ``notes``."""

    def __init__(self, words: Sequence[Word] = ()) -> None:
        self.given: dict[str, Given] = {}
        self.others: dict[str, int] = {}
        """Options that are known to change nothing."""
        self.strange: dict[str, int] = {}
        """Options that aren't known."""
        self.mistakes: list[Mistake] = []
        self.notes: list[str] = []
        self.unknown: dict[str, tuple[int, Missing]] = {}
        """Arguments whose value the file doesn't tell."""
        self.spoilt: set[str] = set()
        """Arguments that are there, but wrong."""
        self.readable = True
        """Whether the file's text is that of a shell at all, and has arguments."""
        self.words = words
        self.job: Mapping[str, str] = {}
        """What the script's header says to Slurm."""
        self.files: Mapping[str, str] = {}
        """Files that the script writes."""
        self.missing = tuple(dict.fromkeys(missing for word in words for missing in word.missing))
        self._take(words)

    def key(self, idle: frozenset[str] = frozenset()) -> Hashable:
        """What tells apart arguments that lead to different experiments, where those of ``idle`` names don't."""
        given = {(name, found.value) for name, found in self.given.items() if name not in idle}
        unknown = {(name, missing.text) for name, (_, missing) in self.unknown.items() if name not in idle}
        return frozenset(given | unknown | {("", mistake.text) for mistake in self.mistakes})

    def differs_from(self, other: Arguments, idle: frozenset[str] = frozenset()) -> list[str]:
        """The names of the arguments that aren't the same."""
        names = dict.fromkeys((*self.given, *other.given, *self.unknown, *other.unknown))
        changed = [n for n in names if n not in idle and self._value_of(n) != other._value_of(n)]
        return changed or sorted((self.spoilt | other.spoilt) - (self.spoilt & other.spoilt))

    def _value_of(self, name: str) -> str | None:
        found = self.given.get(name)
        return found.value if found is not None else self.unknown[name][1].text if name in self.unknown else None

    def number(self, name: str) -> int | None:
        """A whole number; None where it wasn't given or is wrong, which is then a mistake."""
        given = self.given.get(name)
        if given is None or name in self.spoilt:
            return None
        least = 0 if name in (EXTRA, RECOMPUTED_LAYERS) else 1
        value = int(given.value) if re.fullmatch(r"[+-]?[0-9]{1,12}", given.value) else None
        if value is None or not least <= value <= LARGEST:
            self.wrong(name, f"{shown(given.value)}, where a whole number from {least} on is due")
            return None
        return value

    def has(self, name: str) -> bool:
        """Whether it was given."""
        return name in self.given

    def text(self, name: str) -> str:
        """Its value as text; empty where it wasn't given."""
        return self.given[name].value if name in self.given else ""

    def names(self, name: str) -> bool:
        """Whether it is there at all, be it wrong or unknown."""
        return name in self.given or name in self.unknown or name in self.spoilt

    def mentions(self, name: str) -> bool:
        """Whether it is there, read or not."""
        return name in self.given or name in self.others

    def words_after(self, name: str) -> list[str]:
        """The values of an option that may take several, or that isn't read."""
        at = next((i for i, w in enumerate(self.words) if _spelling(w.text.partition("=")[0]) == name), None)
        if at is None:
            return []
        _, equals, first = self.words[at].text.partition("=")
        found = [first] if equals else []
        for word in self.words[at + 1 :]:
            if word.text.startswith("--") or equals:
                break
            found.append(word.text)
        return found

    def word_after(self, name: str) -> str:
        """The first of these, or an empty text."""
        return next(iter(self.words_after(name)), "")

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

    def _take(self, words: Sequence[Word]) -> None:
        index = 0
        strict = False
        while index < len(words):
            word = words[index]
            index += 1
            if not word.text.startswith("--"):
                if strict and not word.missing and not re.fullmatch(r".*\.py|[|&].*", word.text):
                    self.mistakes.append(Mistake(word.line, _stray(word, words[index - 2])))
                strict = strict and bool(word.missing)
                continue
            spelt, equals, text = word.text.partition("=")
            name = _spelling(spelt)
            strict = name in NUMBERS or name in SWITCHES or name in CHOICES
            if name in REFUSED:
                self.spoilt.add(name)
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
            else:
                self._unread(name, word)

    def _unread(self, name: str, word: Word) -> None:
        """An option that isn't read: known to change nothing, meant for another, or strange."""
        if " " in name and name.split()[0] in KNOWN:
            self.spoilt.add(OLD.get(name.split()[0], name.split()[0]))
            text = f"{shown(name)} is one word, because of its quotes; leave them out"
            self.mistakes.append(Mistake(word.line, text))
        elif name in OTHERS or name in NOT_MODELLED or name in PER_LAYER or name in without_effect():
            self.others.setdefault(name, word.line)
        elif meant := _meant(name):
            self.spoilt.update(meant)
            hint = f"{shown(name)[1:-1]}: no argument of Megatron's; {' or '.join(meant)} is meant?"
            self.mistakes.append(Mistake(word.line, hint))
        elif name != "--":
            self.strange.setdefault(shown(name)[1:-1], word.line)

    def _value(self, name: str, spelt: str, line: int, value: Word | None) -> None:
        today = OLD.get(name, name)
        mistakes = len(self.mistakes)
        if value is None or not value.text:
            if today not in MODEL_NUMBERS and today not in TEXTS:
                self.mistakes.append(Mistake(line, f"{spelt}: its value is missing"))
        elif value.missing and today != CONFIG:  # a path that the script writes to is the same wherever it is
            self.given.pop(today, None)
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


def _spelling(spelt: str) -> str:
    """A name with hyphens, if it is known so."""
    name = spelt.replace("_", "-")
    return name if spelt not in KNOWN and (name in KNOWN or name in LAUNCHER or name in without_effect()) else spelt


def _stray(word: Word, before: Word) -> str:
    if not word.text.strip():
        return "a backslash with a blank after it doesn't continue the line; nothing may follow it"
    return f"{shown(word.text)} belongs to no argument; {shown(before.text)[1:-1]} before it takes no further value"


def _meant(name: str) -> list[str]:
    """What may be meant by a name that is nearly one that is read."""
    if name in MEANT:
        return [MEANT[name]]
    candidates = [other for other in KNOWN if other not in OLD]
    longer = sorted(other for other in candidates if len(name) > 6 and other.startswith(name))
    return longer[:3] or difflib.get_close_matches(name.replace("_", "-").lower(), candidates, n=1, cutoff=0.93)
