"""The command line of other frameworks' launch files: ``ppsim import FILE``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

MAX_BYTES = 1 << 20


def import_(
    names: Annotated[
        list[str],
        typer.Argument(metavar="[LAUNCHER] FILE", help="A launch script, a list of arguments, a settings file."),
    ],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File (default: standard output).")] = None,
    as_: Annotated[
        str | None,
        typer.Option("--as", metavar="LAUNCHER", help="Whose file it is (default: whichever it looks like)."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A variable of the script, as in --set NNODES=4. Repeatable."),
    ] = None,
    world_size: Annotated[
        int | None, typer.Option(min=1, help="GPUs in all (default: as the file gives it).", show_default=False)
    ] = None,
    layer_forward: Annotated[
        str | None, typer.Option(metavar="TIME", help="A layer's forward (default: 1 ms).", show_default=False)
    ] = None,
    layer_backward: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="A layer's backward (default: twice its forward).", show_default=False),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="A row of `ppsim list devices`: costs follow from the model on it.", show_default=False),
    ] = None,
    intra_node: Annotated[
        str | None, typer.Option(metavar="LINK", help="With --device: the link within a node.", show_default=False)
    ] = None,
    inter_node: Annotated[
        str | None, typer.Option(metavar="LINK", help="With --device: the link between nodes.", show_default=False)
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option(min=1, help="With --device: the tokenizer's words.", show_default=False)
    ] = None,
) -> None:
    """Make an experiment of another framework's launch file. The file is parsed, never run."""
    from ppsim import _textfile as textfile
    from ppsim.errors import ConfigError, printable
    from ppsim.formats import launch

    if len(names) > 2 or (len(names) == 2 and as_ is not None):
        raise ConfigError(f"{printable(names[-1])}: one file at a time, as in ppsim import megatron args.sh")
    path = Path(names[-1])
    times = launch.Times(_time("--layer-forward", layer_forward), _time("--layer-backward", layer_backward))
    text = textfile.read(path, "a launch file", MAX_BYTES)
    machine = None if device is None else launch.Machine(device, intra_node, inter_node)
    _check(machine is not None, [intra_node, inter_node, vocab_size], [layer_forward, layer_backward])
    file = launch.File(text, str(path), _fixed(set_ or ()), world_size, _beside(path), vocabulary=vocab_size)
    found = launch.convert(file, as_ if len(names) == 1 else names[0], times, machine)
    if output is None:
        typer.echo(found.text, nl=False)
    else:
        _write(output, path, found.text)
    for note in found.notes:
        typer.echo(printable(note), err=True)


def _check(costed: bool, of_model: Sequence[object], of_layers: Sequence[object]) -> None:
    """Raise ConfigError for options that need the other way to costs."""
    from ppsim.errors import ConfigError

    if not costed and any(value is not None for value in of_model):
        raise ConfigError("--intra-node, --inter-node, --vocab-size: for costs from the model; give --device, too")
    if costed and any(value is not None for value in of_layers):
        raise ConfigError("--device contradicts --layer-forward and --layer-backward: its times are the model's")


def _fixed(settings: Sequence[str]) -> dict[str, str]:
    from ppsim.errors import ConfigError, printable

    fixed: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set {printable(setting)}: write NAME=VALUE, e.g. NNODES=4")
        fixed[name] = value
    return fixed


def _beside(script: Path) -> Callable[[str], str | None]:
    """Reads what a script names, where it is a file: seen from here, or from the script's folder."""
    from ppsim import _textfile as textfile
    from ppsim.errors import ConfigError

    def load(name: str) -> str | None:
        for path in (Path(name), script.parent / name):
            try:
                if path.is_file():
                    return textfile.read(path, "a script that is read along", MAX_BYTES)
            except (ConfigError, OSError, ValueError):
                continue
        return None

    return load


def _time(option: str, text: str | None) -> Fraction | None:
    from ppsim.errors import ConfigError
    from ppsim.units import parse

    if text is None:
        return None
    try:
        return parse(text, "time")
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def _write(output: Path, source: Path, text: str) -> None:
    from ppsim.errors import ConfigError, printable

    label = printable(str(output))
    try:
        if output.exists() and output.samefile(source):
            raise ConfigError(f"{label}: is the file that is read; name another one for the experiment")
        output.write_text(text, encoding="utf-8", newline="\n")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{label}: can't be written: {getattr(error, 'strerror', None) or error}") from None
