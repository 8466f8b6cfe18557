"""Commands that are the shell's own and change what follows: ``eval``, ``source``, ``set``, ``read`` and their like."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ppsim.formats.shell.commands import Commands, Flow, Simple
from ppsim.formats.shell.conditions import Undecided, evaluate
from ppsim.formats.shell.grammar import Source
from ppsim.formats.shell.lines import Lines
from ppsim.formats.shell.pieces import Missing, Piece, fields, text_of
from ppsim.formats.shell.state import unknown


def _stripped(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces without the blanks around them."""
    kept = list(pieces)
    while kept and not kept[-1].text.strip():
        kept.pop()
    while kept and not kept[0].text.strip():
        kept.pop(0)
    if kept:
        kept[-1] = kept[-1]._replace(text=kept[-1].text.rstrip())
        kept[0] = kept[0]._replace(text=kept[0].text.lstrip())
    return kept


class Builtins(Commands):
    """A method for each of the shell's own commands."""

    def do_eval(self, texts: list[str], command: Simple) -> Flow:
        """Follow the words as a command."""
        pieces: list[Piece] = []
        for word in command.words[1:]:
            pieces += [*([Piece(" ", word[0].line)] if pieces and word else []), *word]
        starts, at = [(0, pieces[0].line if pieces else 0)], 0
        for piece in pieces:
            starts.append((at, piece.line))
            at += len(piece.text)
        return self.run(Source(text_of(pieces), self.source.label, Lines(starts)))

    def do_source(self, texts: list[str], command: Simple) -> Flow:
        """Follow another file as if it stood here."""
        if len(texts) < 2:
            return None
        source = self.file(texts[1])
        if source is None:
            self.absent.setdefault(texts[1], command.words[0][0].line)
            return None
        arguments = self.state.arguments
        if len(texts) > 2:
            self.state.arguments = command.words[2:]
        flow = self.run(source)
        self.state.arguments = arguments
        return flow if flow == "exit" else None

    def do_exit(self, texts: list[str], command: Simple) -> Flow:
        """End the script."""
        return "exit"

    def do_return(self, texts: list[str], command: Simple) -> Flow:
        """End the function; its status is known if it is a number."""
        self.status = texts[1:] in ([], ["0"])
        return "return"

    def do_break(self, texts: list[str], command: Simple) -> Flow:
        """End the loop."""
        return "break"

    def do_continue(self, texts: list[str], command: Simple) -> Flow:
        """Go on with the loop's next turn."""
        return "continue"

    def do_true(self, texts: list[str], command: Simple) -> Flow:
        """Nothing."""
        return None

    def do_false(self, texts: list[str], command: Simple) -> Flow:
        """Nothing, without success."""
        self.status = False
        return None

    def do_test(self, texts: list[str], command: Simple) -> Flow:
        """A condition as a command."""
        words = command.words[1:]
        if texts[0] == "[" and texts[-1] == "]":
            words = words[:-1]
        self.status = evaluate([text_of(w) if text_of(w) in ("!", "-a", "-o") else w for w in words], False, 0)
        return None

    def do_shift(self, texts: list[str], command: Simple) -> Flow:
        """Drop the first arguments."""
        line = command.words[0][0].line
        known = self.value("@", "$@", line)
        count = int(texts[1]) if len(texts) > 1 and texts[1].isdigit() else 1
        if not isinstance(known, Missing):
            self.state.arguments = list(known)[count:]
        return None

    def do_set(self, texts: list[str], command: Simple) -> Flow:
        """New arguments, after ``--``; ``-a`` exports all that follows."""
        if texts[1:2] == ["--"]:
            self.state.arguments = command.words[2:]
        elif texts[1:2] == ["-a"] or texts[1:] == ["-o", "allexport"]:
            self.exports_all = True
        return None

    def do_export(self, texts: list[str], command: Simple) -> Flow:
        """Show variables to the commands that follow."""
        if texts[1:2] != ["-f"]:
            self.state.exported |= {text for text in texts[1:] if not text.startswith("-")}
        return None

    def do_declare(self, texts: list[str], command: Simple) -> Flow:
        """Variables with attributes; ``-A`` makes a map, ``-x`` exports."""
        flags = "".join(text[1:] for text in texts[1:] if re.fullmatch(r"-[a-zA-Z]+", text))
        names = [text for text in texts[1:] if re.fullmatch(r"[A-Za-z_]\w*", text)]
        for name in names:
            if "A" in flags and name not in self.state.maps:
                self.state.maps[name] = {}
        if "x" in flags:
            self.state.exported |= set(names)
        return None

    def do_local(self, texts: list[str], command: Simple) -> Flow:
        """As ``declare``; the name means what it did before once the function ends."""
        self.locals |= {text for text in texts[1:] if not text.startswith("-")}
        return self.do_declare(texts, command)

    def do_unset(self, texts: list[str], command: Simple) -> Flow:
        """Forget variables."""
        for name in texts[1:]:
            self.state.variables.pop(name, None)
            self.state.maps.pop(name, None)
        return None

    def do_read(self, texts: list[str], command: Simple) -> Flow:
        """Variables from the input: a here-document's where it is read whole, else unknown."""
        line = command.words[0][0].line
        names = [t for t in texts[1:] if re.fullmatch(r"[A-Za-z_]\w*", t)]
        whole = "-d" in texts or any(re.fullmatch(r"-r?d", text) for text in texts)
        known = command.document is not None and (whole or "\n" not in text_of(command.document).rstrip("\n"))
        if known and any(re.fullmatch(r"-r?a", text) for text in texts) and names:
            words = fields(piece._replace(splits=piece.missing is None) for piece in command.document or ())
            self.state.variables[names[-1]] = list(words)
        elif known and len(names) == 1:
            self.state.variables[names[0]] = [_stripped(command.document or ())]
        else:
            self.status = Undecided((Missing("read", line, "what the input holds"),))
            for name in names:
                self.state.variables[name] = unknown(name, line, f"read from the input (line {line})")
        return None

    def do_mapfile(self, texts: list[str], command: Simple) -> Flow:
        """An array from the input, which isn't known."""
        line = command.words[0][0].line
        self.state.variables[texts[-1]] = unknown(texts[-1], line, f"read from the input (line {line})")
        return None

    def do_getopts(self, texts: list[str], command: Simple) -> Flow:
        """An option of the script."""
        line = command.words[0][0].line
        if len(texts) > 2:
            self.state.variables[texts[2]] = unknown(texts[2], line, "an option of the script")
        self.status = Undecided((Missing("getopts", line, "the arguments of the script", "#", unset=True),))
        return None

    def do_let(self, texts: list[str], command: Simple) -> Flow:
        """Arithmetic."""
        for text in texts[1:]:
            self.status = self.calculated(text, command.words[0][0].line)
        return None
