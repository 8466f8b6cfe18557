"""Values of a script's variables at the place that is read, and what plain commands in a word's place print."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

from ppsim.errors import FormatError
from ppsim.formats.shell import parameters
from ppsim.formats.shell.conditions import Truth, Undecided
from ppsim.formats.shell.grammar import Source
from ppsim.formats.shell.pieces import Elements, Missing, Piece, Spot, fields, lost, missing_in, text_of
from ppsim.formats.shell.state import Command, Fork, State
from ppsim.formats.shell.words import Scanner

BUDGET = 1_000_000
"""Characters that all expansions of a file may add up to."""
_ALWAYS_SET = frozenset(
    (
        "HOME", "PWD", "OLDPWD", "USER", "LOGNAME", "HOSTNAME", "PATH", "SHELL", "RANDOM", "SECONDS", "LINENO", "UID",
        "TMPDIR",
    )
)  # fmt: skip
_ASSIGNS = re.compile(r"\s*([A-Za-z_]\w*)\s*(=|[-+*/%]=|\+\+|--)(?!=)\s*(.*)", re.DOTALL)
_DOCUMENT = re.compile(r"\s*cat\s*<<-?\s*(['\"]?)(\w+)\1[ \t]*\n(.*?)\n?[ \t]*\2\s*$", re.DOTALL)
_CUT = re.compile(r"(?=.*-d\s*['\"]?(.)['\"]?)(?=.*-f\s*(\d+)\b)[-\sdf\d'\"]*(?:.)?[-\sdf\d'\"]*")


class Values:
    """The state of a script that is being followed, as its words see it."""

    def __init__(
        self,
        source: Source,
        fixed: Mapping[str, str],
        launches: Callable[[Sequence[str]], bool],
        load: Callable[[str], str | None] | None,
        decisions: Mapping[tuple[str, int], int],
    ) -> None:
        self.source, self.launches, self.load, self.decisions = source, launches, load, decisions
        self.fixed: dict[str, Elements] = {name: [[Piece(value, 0)]] for name, value in fixed.items()}
        self.state = State({name: [[Piece(value, 0)]] for name, value in source.environment().items()})
        self.state.exported = frozenset(self.state.variables)
        self.forks: list[Fork] = []
        self.undecided: list[Undecided] = []
        """Every condition that was met and isn't decided."""
        self.status: Truth = True
        """Whether the last command succeeded."""
        self.asked: set[str] = set()
        self.optional: dict[str, int] = {}
        """Variables that the script's own options may change, and the line of the loop that reads them."""
        self.absent: dict[str, int] = {}
        """Files that the script reads and that aren't there."""
        self.loops: tuple[tuple[str, tuple[str, ...]], ...] = ()
        self.exports_all = False
        self.locals: set[str] = set()
        self.steps = 0
        self.depth = 0
        self._budget = BUDGET

    def value(self, name: str, text: str, line: int) -> Elements | Missing:
        """The elements of a variable, or why they aren't known."""
        if name in self.fixed:
            self.asked.add(name)
            return self.fixed[name]
        if name.isdigit() or name in ("@", "*", "#"):
            return self._argument(name, text, line)
        if name in self.state.variables:
            return self.state.variables[name]
        if name in self.state.maps:
            return list(self.state.maps[name].values())
        if name == "BASH_SOURCE":
            return [[Piece(self.source.label, line)]]
        if not re.match(r"[A-Za-z_]", name):
            return Missing(text, line, "known only when the script runs")
        why = "not assigned in this file"
        if self.absent:
            path, at = next(iter(self.absent.items()))
            why += f" ({path}, which line {at} reads, isn't there)"
        return Missing(text, line, why, name, unset=name not in _ALWAYS_SET)

    def _argument(self, name: str, text: str, line: int) -> Elements | Missing:
        """``$1``, ``$#``, ``$@`` of the script or of the function that is being followed."""
        if name == "0":
            return [[Piece(self.source.label, line)]]
        known = self.state.arguments
        if known is None:
            numbers = [int(given) for given in self.fixed if given.isdigit() and int(given) > 0]
            if not numbers:
                if name == "#":
                    return Missing(text, line, "the number of the script's arguments", "#", unset=True)
                if name in ("@", "*"):
                    return Missing(text, line, "the arguments of the script", unset=True)
                return Missing(text, line, "an argument of the script", name, unset=True)
            self.asked.update(map(str, numbers))
            known = [self._given(number, line) for number in range(1, max(numbers) + 1)]
        if name == "#":
            return [[Piece(str(len(known)), line)]]
        if name in ("@", "*"):
            return known
        if int(name) <= len(known):
            return [known[int(name) - 1]]
        return Missing(text, line, "an argument of the script", name, unset=True)

    def _given(self, number: int, line: int) -> Sequence[Piece]:
        """An argument of the script as the user gives it; one between others that isn't given isn't known."""
        name = str(number)
        if name in self.fixed:
            return self.fixed[name][0]
        text = f"${name}" if number < 10 else f"${{{name}}}"
        missing = Missing(text, line, "an argument of the script", name, unset=True)
        return [Piece(text, line, missing=missing)]

    def element(self, name: str, index: str, text: str, line: int) -> Elements | Missing:
        """What ``${name[index]}`` is."""
        if name in self.state.maps and name not in self.fixed:
            key = Scanner(index, self, line).word("")
            missing = missing_in(key)
            found = self.state.maps[name].get(text_of(key))
            return missing or ([found] if found is not None else self._nothing(text, line))
        elements = self.value(name, text, line)
        if isinstance(elements, Missing):
            return elements
        at = Scanner("", self, line).arithmetic(index, line, text)
        if at.missing is not None:
            return at.missing
        position = int(at.text)
        return [elements[position]] if -len(elements) <= position < len(elements) else self._nothing(text, line)

    def _nothing(self, text: str, line: int) -> Missing:
        return Missing(text, line, "no such element", unset=True)

    def parameter(self, inside: str, spot: Spot) -> Elements | Missing:
        """What ``${inside}`` stands for, but for a plain name."""
        return parameters.parameter(self, inside, spot)

    def assign(self, name: str, value: Elements) -> None:
        """Set a variable."""
        self.state.variables[name] = value

    def spend(self, characters: int, line: int) -> None:
        """Raise FormatError where expansions have added up to more than any launch script needs."""
        self._budget -= characters
        if self._budget < 0:
            raise FormatError(f"{line}: the variables grow to more than {BUDGET:,} characters")

    def calculated(self, text: str, line: int) -> Truth:
        """What ``(( … ))`` does and whether it is other than 0: assignments apart by commas, then a value."""
        truth: Truth = True
        for part in text.split(","):
            assigns = _ASSIGNS.fullmatch(part)
            name, operator, right = assigns.groups() if assigns else ("", "", part)
            if operator in ("++", "--"):
                right = f"{name} {operator[0]} 1"
            elif operator and operator != "=":
                right = f"{name} {operator[0]} ({right})"
            made = Scanner("", self, line).arithmetic(right.strip(), line, text)
            if name:
                self.state.variables[name] = [[made]]
            if made.missing is not None:
                compared = ((made.missing.name, ""),) if made.missing.name else ()
                truth = Undecided((made.missing,), compared)
            else:
                truth = int(made.text) != 0
        return truth

    def output(self, command: str, text: str, line: int) -> Sequence[Piece] | Missing:
        """What ``$(command)`` is, for the few commands whose answer is in their words."""
        unknown = lost(text, line, "a command, which isn't run")
        stages = re.split(r"(?<!\|)\|(?!\|)", command) if "<<" not in command else [command]
        if len(stages) > 1 and not all(re.match(r"\s*(bc|cut|tr|head|xargs)\b", stage) for stage in stages[1:]):
            return unknown
        if re.search(r"&&|;", stages[0]) and not re.fullmatch(r"\s*cd\s[^;&]*(&&|;)\s*pwd(\s+-P)?\s*", stages[0]):
            return unknown
        pieces = self._printed(stages[0], line)
        for stage in stages[1:]:
            pieces = None if pieces is None else self._piped(stage.split(), pieces, line)
        if pieces is None:
            return unknown
        return missing_in(pieces) or pieces

    def _printed(self, command: str, line: int) -> list[Piece] | None:
        """What one command prints, without its last line end."""
        if (
            heredoc := re.match(r"\s*cat\s*<<-?\s*(['\"]?)(\w+)\1[ \t]*\n(.*?)\n?[ \t]*\2\s*$", command, re.DOTALL)
        ) is not None:
            body = heredoc[3]
            return [Piece(body, line, quoted=True)] if heredoc[1] else Scanner(body, self, line).document()
        scanner = Scanner(command, self, line)
        words: list[list[Piece]] = []
        while scanner.at < len(command):
            scanner.blanks()
            if scanner.ahead in ("", "\n", "<", ">", "(", ")"):
                break
            at = scanner.at
            words.extend(fields(scanner.word(" \t\n<>()" if words and text_of(words[0]) != "cd" else " \t\n<>();&")))
            if scanner.at == at:
                break
            if text_of(words[-1]) in (";", "&&", "") and words:
                break
            if scanner.ahead in ";&":
                break
        rest = command[scanner.at :].strip()
        if not words or (rest and not rest.startswith(("2>", ";", "&&"))):
            return None
        return self._answer([text_of(word) for word in words], words, line)

    def _answer(self, texts: list[str], words: list[list[Piece]], line: int) -> list[Piece] | None:
        name, given = texts[0], words[1:]
        if name in ("echo", "printf") and (name == "echo" or len(given) == 1):
            given = given[1:] if name == "echo" and texts[1:2] in (["-n"], ["-e"]) else given
            return [p for i, word in enumerate(given) for p in ([Piece(" ", line), *word] if i else word)]
        if name == "cat" and len(given) == 1:  # a file that the script itself writes
            written = {posixpath.normpath(path): pieces for path, pieces in self.state.files.items()}
            pieces = written.get(posixpath.normpath(texts[1]))
            return None if pieces is None else list(pieces)
        if name in ("cd", "readlink", "realpath") and given and not texts[-1].startswith("-"):
            return given[-1]
        if any(missing_in(word) for word in given):
            return next(word for word in given if missing_in(word)) if name in ("expr", "dirname", "basename") else None
        if name == "expr":
            made = Scanner("", self, line).arithmetic(" ".join(texts[1:]), line, " ".join(texts))
            return None if made.missing else [made]
        if name == "dirname" and len(given) == 1:
            return [Piece(posixpath.dirname(texts[1]) or ".", line)]
        if name == "basename" and given:
            base = posixpath.basename(texts[1])
            return [Piece(base.removesuffix(texts[2]) if len(texts) > 2 else base, line)]
        if name == "seq" and all(re.fullmatch(r"-?\d{1,6}", text) for text in texts[1:]) and 1 <= len(given) <= 3:
            numbers = [int(text) for text in texts[1:]]
            first, step = (1 if len(numbers) == 1 else numbers[0]), (numbers[1] if len(numbers) == 3 else 1)
            found = range(first, numbers[-1] + (1 if step > 0 else -1), step) if step else ()
            return [Piece(" ".join(map(str, found[:1000])), line)]
        return None

    def _piped(self, command: list[str], pieces: list[Piece], line: int) -> list[Piece] | None:
        """What a filter makes of a text; None where that isn't read."""
        text = text_of(pieces)
        if missing_in(pieces):
            return pieces if command[0] in ("bc", "xargs") else None
        if command == ["bc"]:
            made = Scanner("", self, line).arithmetic(text, line, text)
            return None if made.missing else [made]
        flags = " ".join(command[1:])
        if command[0] == "xargs" and not flags:
            return [Piece(text.strip(), line)]
        if command[0] == "cut" and (form := _CUT.fullmatch(flags)):
            parts = text.split(form[1])
            position = int(form[2]) - 1
            return [Piece(parts[position] if position < len(parts) else "" if len(parts) > 1 else text, line)]
        if command[0] == "tr" and flags.replace("'", "").replace('"', "") in ("[:upper:] [:lower:]", "A-Z a-z"):
            return [Piece(text.lower(), line)]
        return None

    def launched_since(self, count: int) -> bool:
        """Whether a command that matters has been met since so many commands."""
        return self.launches_in(self.state, count)

    def launches_in(self, state: State, count: int) -> bool:
        """Whether a state has a command that matters, after so many."""
        return any(self.launches([word.text for word in command.words]) for command in state.commands[count:])

    def add(self, command: Command) -> None:
        """Remember a command."""
        self.state.commands = (*self.state.commands, command)
