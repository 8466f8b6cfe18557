"""The command line: its commands, and how what goes wrong is told. The only room that prints."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from threading import Event
from typing import Annotated

import typer

from ppsim.cli import (
    calibrate,
    compare,
    explain,
    export,
    fit,
    import_,
    listing,
    plot,
    report,
    reproduce,
    run,
    search,
    streams,
    sweep,
)
from ppsim.cli.cases import INTERRUPTED

DEADLOCK, WRONG_INPUT, BUG = 1, 2, 3
REFUSED = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP, errno.EROFS, errno.EIO, errno.ESTALE)
"""What the system says of a path whatever is asked of it."""
RARELY = (100_000, 20, 20)
"""When garbage is looked for: what is imported stays, and looking through it again and again is a tenth of `check`."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        from ppsim._version import __version__

        typer.echo(f"ppsim {__version__}")
        raise typer.Exit


@app.callback()
def _ppsim(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show it and exit.")
    ] = False,
) -> None:
    """A discrete-event simulator of pipeline-parallel training."""


app.command()(run.run)
app.command()(run.check)
app.command()(reproduce.reproduce)
app.command("list")(listing.list_)
app.command()(plot.plot)
app.command()(export.export)
app.command()(listing.schema)
app.command()(compare.compare)
app.command()(report.report)
app.command()(explain.explain)
app.command()(fit.fit)
app.command()(sweep.sweep)
app.command()(sweep.collect)
app.command()(search.search)
app.command()(calibrate.calibrate)
app.command("import", no_args_is_help=True)(import_.import_)


_asked_to_stop = Event()


def _interrupted(*_: object) -> None:
    _asked_to_stop.set()
    typer.echo("interrupted; nothing is half-written", err=True)
    raise SystemExit(INTERRUPTED)


def _said_by_the_system(error: OSError) -> str | None:
    """A full disk, or a path that the system refuses wherever it is looked at, as a line; None for what is a bug."""
    from ppsim.errors import printable

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the output can't be written: {error.strerror}"
    if error.errno in REFUSED and error.filename is not None:
        return f"{printable(os.fsdecode(error.filename))}: can't be opened: {error.strerror}"
    return None


def main() -> None:
    """Entry point: a wrong input is one line per mistake and exit code 2, a deadlock 1, a bug says that it is one."""
    from ppsim.errors import DeadlockError, PpsimError

    gc.set_threshold(*RARELY)
    streams.prepare()
    _asked_to_stop.clear()
    signal.signal(signal.SIGINT, _interrupted)
    try:
        app()
    except DeadlockError as error:
        typer.echo(str(error), err=True)
        sys.exit(DEADLOCK)
    except PpsimError as error:
        typer.echo(str(error), err=True)
        sys.exit(WRONG_INPUT)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except SystemExit as exits:
        if isinstance(exits.__context__, BrokenPipeError):  # click's own answer to a reader that has gone is a 1
            sys.exit(0)
        raise
    except MemoryError:
        typer.echo("not enough memory for so many ops; fewer ranks, microbatches or steps need less", err=True)
        sys.exit(WRONG_INPUT)
    except Exception as error:
        if _asked_to_stop.is_set():  # amid a call from pydantic, which makes it an error of its own
            sys.exit(INTERRUPTED)
        if isinstance(error, OSError) and (said := _said_by_the_system(error)):
            typer.echo(said, err=True)
            sys.exit(WRONG_INPUT)
        import traceback

        typer.echo(traceback.format_exc(), err=True)
        typer.echo("this is a bug in ppsim, not in your input: please report it with the lines above", err=True)
        sys.exit(BUG)
