"""The command of a script that runs Megatron, and what it depends on that the script doesn't tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ppsim.errors import FormatError, did_you_mean, shown
from ppsim.formats._launch import File, Mistake
from ppsim.formats.megatron.arguments import Arguments
from ppsim.formats.megatron.options import MARKS, OLD, PRINTS, PROGRAMS
from ppsim.formats.shell.conditions import Undecided
from ppsim.formats.shell.grammar import Source
from ppsim.formats.shell.lines import Line
from ppsim.formats.shell.outcomes import outcomes
from ppsim.formats.shell.pieces import Word, fields, joined, text_of
from ppsim.formats.shell.script import Script, followed
from ppsim.formats.shell.state import Command, Fork


def read(file: File, idle: frozenset[str] = frozenset()) -> Arguments:
    """The arguments that a script gives Megatron; what is wrong with the script is a mistake of theirs.

    Of ``idle`` arguments it doesn't matter which values they have.
    """
    found: Arguments | None = None
    first: Script | None = None
    asked: set[str] = set()
    names: set[str] = set()
    apart: dict[tuple[str, int], tuple[Fork, list[str]]] = {}
    needless: dict[tuple[str, int], Fork] = {}
    met: list[Undecided] = []
    matter: set[str | None] = set()
    try:
        source = Source(file.text, file.label)
        follow = partial(followed, source, file.fixed, runs_megatron, file.load)
        for script, forks in outcomes(source, follow, matter):
            asked |= script.asked
            names |= script.state.variables.keys()
            met += script.undecided
            if found is None or first is None:
                first, found = script, _arguments(script, idle)
                continue
            try:
                other = _arguments(script, idle)
            except FormatError:
                continue  # a way on which nothing is run isn't meant
            if other.key(idle) == found.key(idle):
                needless.update({fork.key: fork for fork in forks[-1:]})
                continue
            if len(forks) > 1 and any(fork.key in apart for fork in forks):
                continue  # that it matters is told already
            together = len(forks) > 1 and len(forks) == len(first.forks)
            for fork in forks if together else forks[-1:]:
                matter |= {missing.name for missing in fork.why.missing if missing.name}
                apart.setdefault(fork.key, (fork, other.differs_from(found, idle)))
    except FormatError as error:
        broken = Arguments()
        broken.readable = False
        line, _, message = str(error).partition(": ")
        number, _, label = line.partition(" of ")
        broken.mistakes.append(Mistake(Line(int(number), label) if label else int(number), message))
        return broken
    if found is None or first is None:
        raise AssertionError("a script has one way at least")
    found.job = first.source.job
    found.files = {name: text_of(pieces) for name, pieces in first.state.files.items()}
    _tell(found, first)
    if listed := [f"`{shown(f.text)[1:-1]}` (line {f.line})" for f in needless.values() if f.key not in apart]:
        found.notes.append(f"not decided, and not needed: {', '.join(listed)}")
    found.mistakes += [_undecided(fork, met, changed) for fork, changed in apart.values()]
    for name in sorted(set(file.fixed) - asked):
        hint = did_you_mean(name, [*names, *(m.name for m in found.missing if m.name)])
        found.mistakes.append(Mistake(0, f"--set {name}: nothing in the file depends on it{hint}"))
    return found


def runs_megatron(texts: Sequence[str]) -> bool:
    """Whether the words are those of a command that runs Megatron."""
    marked = any(text.partition("=")[0].replace("_", "-") in MARKS for text in texts)
    return marked and texts[0] not in PRINTS and not texts[0].startswith("--")


def _arguments(script: Script, idle: frozenset[str]) -> Arguments:
    """Of the command that runs Megatron, or of a file that holds arguments alone."""
    commands = script.state.commands
    plain = [c for c in commands if c.words[0].text.startswith("--")]
    launches = [c for c in commands if runs_megatron([word.text for word in c.words])]
    if launches:
        found = _one_of(launches, idle)
        for word in (command.words[0] for command in plain):
            found.spoilt.add(OLD.get(word.text, word.text))
            why = "isn't part of the command, which the line above ends: a comment there, or no \\ at its end"
            found.mistakes.append(Mistake(word.line, f"{shown(word.text)[1:-1]} {why}"))
        return found
    if plain:
        return Arguments([word for command in plain for word in command.words])
    values = list(_words_of_variables(script))
    if any(word.text.partition("=")[0].replace("_", "-") in MARKS for word in values):
        found = Arguments(values)
        found.notes.append("no command uses the arguments; they are taken from the variables that hold them")
        return found
    raise FormatError(
        "0: no arguments of Megatron's: neither a command with --num-layers, nor a list of arguments; where a program "
        "makes the command, save that command"
    )


def _one_of(launches: Sequence[Command], idle: frozenset[str]) -> Arguments:
    """The arguments of all commands that run Megatron, which have to be the same."""
    found = [Arguments(command.words) for command in launches]
    differ = next((i for i, arguments in enumerate(found) if arguments.key(idle) != found[0].key(idle)), None)
    if differ is None:
        return found[0]
    one, other = launches[0], launches[differ]
    changed = ", ".join(found[differ].differs_from(found[0], idle)[:4]) or "their arguments"
    if one.loops and one.words[0].line == other.words[0].line:
        loops = dict((*one.loops, *other.loops))
        given = " ".join(f"--set {name}={'|'.join(dict.fromkeys(values))}" for name, values in loops.items())
        text = f"the loop runs Megatron several times, with other {changed}; give {given}"
    else:
        lines = " and ".join(dict.fromkeys(str(command.words[0].line) for command in launches[:4]))
        text = f"the commands of lines {lines} both run Megatron; keep one of them"
    raise FormatError(f"{other.words[0].line}: {text}")


def _words_of_variables(script: Script) -> Iterator[Word]:
    """What all variables would be without quotes, word by word."""
    for value in script.state.variables.values():
        for element in value:
            yield from map(joined, fields(piece._replace(splits=piece.missing is None) for piece in element))


def _tell(found: Arguments, script: Script) -> None:
    """What a user should know of how the script was read, and what spoils its command."""
    program = next((word for word in found.words if word.text.endswith(".py")), None)
    parts = set(program.text.rsplit("/", 1)[-1].removesuffix(".py").split("_")) if program is not None else set()
    if program is not None and (kinds := parts & PROGRAMS.keys()):
        found.mistakes.append(Mistake(program.line, f"{program.text.rsplit('/', 1)[-1]}: {PROGRAMS[min(kinds)]}"))
    for word in found.words:  # a whole word that isn't known may hold any argument
        missing = word.missing[0] if len(word.missing) == 1 and word.text == word.missing[0].text else None
        if missing is not None and missing.name and not missing.unset and "assigned" in missing.why:
            text = f"{missing.text} may hold arguments, but is {missing.why}; give --set {missing.name}='…'"
            if not any(given[1] == missing for given in found.unknown.values()) and not _is_value(found, word):
                found.mistakes.append(Mistake(word.line, text))
    if optional := script.optional:
        listed = ", ".join(sorted(optional))
        line = min(optional.values())
        found.notes.append(f"read as run without arguments: {listed} may be changed by the script's own (line {line})")
    for path, line in script.absent.items():
        found.notes.append(f"{path}, which line {line} reads, isn't there: what it sets isn't known")


def _is_value(found: Arguments, word: Word) -> bool:
    """Whether a word follows an option that takes a value."""
    at = next(i for i, other in enumerate(found.words) if other is word)
    return at > 0 and found.words[at - 1].text.startswith("--")


def _undecided(fork: Fork, met: Sequence[Undecided], changed: Sequence[str]) -> Mistake:
    """That a condition has to be decided, and how."""
    names = dict.fromkeys(missing.name for missing in fork.why.missing if missing.name)
    given = []
    for name in names:
        compared = [value for why in met for at, value in why.compared if at == name]
        values = [value for value in dict.fromkeys(compared) if value]
        given.append(f"--set {name}={'|'.join(values)}" if values else f"--set {name}=… (or {name}= for an empty one)")
    because = "; ".join(dict.fromkeys(f"{m.text} is {m.why}" for m in fork.why.missing))
    what = ", ".join(changed[:6]) or "the command"
    how = " ".join(given) or f"--set if:{int(fork.line)}=yes|no"
    return Mistake(
        fork.line, f"`{shown(fork.text)[1:-1]}` isn't decided ({because}), and it changes {what}; give {how}"
    )
