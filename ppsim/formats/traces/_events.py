"""The events of a Chrome trace as a stream: never more than one of them in memory, whatever the file's size."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from ppsim.engine.watch import Watch
from ppsim.errors import FormatError, printable
from ppsim.formats.traces._files import CUT_SHORT, label, opened

_KEPT = 1 << 16
_CHUNK = 1 << 18


class Events:
    """Iterate for the events; after that ``header`` has the file's other keys, ``broken`` why it ended early, if so."""

    def __init__(self, path: Path, watch: Watch | None = None) -> None:
        self.path = path
        self.header: dict[str, Any] = {}
        self.broken: str | None = None
        self.count = 0
        self._watch = watch

    def __iter__(self) -> Iterator[dict[str, Any]]:
        ijson = imported(self.path)
        try:
            with opened(self.path) as stream:
                self._show(stream)
                kept = _Kept(stream)
                start = kept.peek()
                prefix = "item" if start.lstrip()[:1] == b"[" else "traceEvents.item"
                self.header = _before(ijson, start)
                for event in ijson.items(kept, prefix, use_float=True, buf_size=_CHUNK):
                    self.count += 1
                    if isinstance(event, dict):
                        yield event
                self.header.update(_after(kept.tail))
        except (ijson.JSONError, *CUT_SHORT, UnicodeDecodeError) as error:
            self.broken = printable(str(error).splitlines()[0])[:120] if str(error) else type(error).__name__

    def _show(self, stream: BufferedIOBase) -> None:
        if self._watch is None:
            return
        raw: Any = getattr(stream, "fileobj", stream)
        size = max(self.path.stat().st_size, 1)
        self._watch.at(f"reading {self.path.name}", lambda: 1.0 if raw.closed else raw.tell() / size)


def imported(path: Path) -> Any:
    """ijson. Raises FormatError where it isn't installed."""
    try:
        import ijson
    except ImportError:
        raise FormatError(f"{label(path)}: reading traces needs ijson: pip install 'ppsim[traces]'") from None
    return ijson


class _Kept:
    """A stream that keeps its last bytes, and whose first ones can be looked at before they are read."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream
        self._first = b""
        self._error: BaseException | None = None
        self.tail = b""

    def _read(self, size: int) -> bytes:
        """Some bytes; where the file is damaged all before that, and then the error."""
        if self._error is not None:
            raise self._error
        return self._stream.read1(size)

    def peek(self) -> bytes:
        try:
            while len(self._first) < _KEPT and (more := self._read(_KEPT - len(self._first))):
                self._first += more
        except CUT_SHORT as error:
            self._error = error
        return self._first

    def read(self, size: int = -1) -> bytes:
        if size == 0:  # ijson asks whether it gets bytes or text
            return b""
        found = self._first or self._read(size)
        self._first = b""
        self.tail = (self.tail + found)[-_KEPT:] if len(found) < _KEPT else found[-_KEPT:]
        return found


def _before(ijson: Any, start: bytes) -> dict[str, Any]:
    """The keys before the events."""
    found: dict[str, Any] = {}
    key, builder = "", None
    try:
        for prefix, event, value in ijson.parse(io.BytesIO(start), use_float=True):
            if prefix == "" and event == "map_key":
                key, builder = value, ijson.ObjectBuilder()
                if key == "traceEvents":
                    break
            elif builder is not None and key:
                builder.event(event, value)
                if prefix == key and event in ("string", "number", "boolean", "null", "end_map", "end_array"):
                    found[key] = builder.value
    except (ijson.JSONError, UnicodeDecodeError):
        pass
    return found


def _after(tail: bytes) -> dict[str, Any]:
    """The keys behind the events: what stands after the end of their list, the longest that is an object."""
    text = tail.decode("utf-8", "replace")
    for place in (i for i, letter in enumerate(text) if letter == "]"):
        rest = text[place + 1 :].lstrip()
        if rest.startswith(","):
            try:
                found = json.loads("{" + rest[1:])
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                return found
    return {}
