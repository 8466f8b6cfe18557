"""YAML files: plain data, positions, limits, overrides, and the text that is written."""

from __future__ import annotations

import itertools
import math
import os
import random
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from ppsim.config.load import load
from ppsim.config.schema import json_schema
from ppsim.config.yamlfile import Document, dump, override, read
from ppsim.errors import ConfigError

QUICKSTART = """\
# a comment
name: quickstart
schedule: 1f1b
pipeline: {ranks: 4, microbatches: 8}
cluster:
  device: a100-80gb
  links:
    - {ranks: [3, 4], bandwidth: 10 Gbit/s}
    - ranks: [1, 2]
      bandwidth: 5 GB/s
  empty:
sweep:
  grid: {pipeline.ranks: [2, 4]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.yaml"


def written(file: Path, text: str | bytes) -> Document:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(file)


def error(file: Path, text: str | bytes) -> str:
    """The message for a file of ``text``, with 'x.yaml' for its path."""
    with pytest.raises(ConfigError) as caught:
        written(file, text)
    assert caught.value.args == (str(caught.value),)
    return str(caught.value).replace(str(file), "x.yaml")


# What is read


@pytest.mark.parametrize(
    ("scalar", "value", "reason"),
    [
        ("8", 8, "int"),
        ("010", 10, "1.2: octal is written 0o"),
        ("0o17", 15, "1.2 octal"),
        ("0x1F", 31, "1.2 hexadecimal"),
        ("+5", 5, "a sign"),
        ("1_000", "1_000", "1.2 has no underscores in numbers"),
        ("0b11", "0b11", "1.2 has no binary"),
        ("1:30", "1:30", "1.2 has no base 60"),
        ("1e9", 1e9, "1.2 needs no dot (1.1 reads text)"),
        ("5e-3", 0.005, "1.2 needs no dot (1.1 reads text)"),
        (".5", 0.5, "no leading digit"),
        ("0.1", 0.1, "whose str is '0.1', so exact"),
        ("no", "no", "1.2: text (1.1 reads false)"),
        ("off", "off", "1.2: text"),
        ("yes", "yes", "1.2: text"),
        ("on", "on", "1.2: text"),
        ("true", True, "bool"),
        ("False", False, "bool"),
        ("null", None, "null"),
        ("~", None, "null"),
        ("", None, "an empty value"),
        ("'8'", "8", "quoted: text"),
        ('"true"', "true", "quoted: text"),
        ("2024-01-01", "2024-01-01", "1.2 core has no dates"),
        ("10 ms", "10 ms", "text"),
        (".inf", math.inf, "refused where a number is due, by the field's type"),
        ("-.inf", -math.inf, "the same"),
        ("1f1b", "1f1b", "a schedule is text"),
    ],
)
def test_scalars_are_yaml_1_2(file: Path, scalar: str, value: Any, reason: str) -> None:
    read_value = written(file, f"a: {scalar}\n").data["a"]
    assert (read_value, type(read_value)) == (value, type(value)), reason


def test_nan_is_read_as_nan(file: Path) -> None:
    assert math.isnan(written(file, "a: .nan\n").data["a"])


def test_collections_aliases_and_block_text(file: Path) -> None:
    text = "a: &x {k: [1, two]}\nb: *x\nc:\n- *x\n- |\n  12\n  no\n"
    shared = {"k": [1, "two"]}
    assert written(file, text).data == {"a": shared, "b": shared, "c": [shared, "12\nno\n"]}


def test_windows_files_are_fine(file: Path) -> None:
    """Notepad writes a byte-order mark and CR LF."""
    assert written(file, b"\xef\xbb\xbfa: 1\r\nb: 2\r\n").data == {"a": 1, "b": 2}


# Where it was written


@pytest.mark.parametrize(
    ("loc", "position", "reason"),
    [
        ((), (2, 1), "the top: the first key"),
        (("pipeline",), (4, 1), "a key"),
        (("pipeline", "ranks"), (4, 12), "a key in a flow mapping"),
        (("pipeline", "steps"), (4, 1), "a missing key: its parent"),
        (("nothing", "at", "all"), (2, 1), "nothing of it is there: the top"),
        (("cluster", "links", 0), (8, 7), "an item of a list, after '- '"),
        (("cluster", "links", 1, "bandwidth"), (10, 7), "a key within an item"),
        (("cluster", "links", 0, "ranks", 1), (8, 19), "an item of a flow list"),
        (("cluster", "links", 7), (7, 3), "an item that isn't there: the list's key"),
        (("cluster", "list[Link]", "links", 0), (8, 7), "pydantic's name for a branch of a union is passed over"),
    ],
)
def test_locate(file: Path, loc: tuple[str | int, ...], position: tuple[int, int], reason: str) -> None:
    document = written(file, QUICKSTART)
    assert document.locate(loc) == position, reason
    assert document.where(loc) == f"{file}:{position[0]}:{position[1]}"


def test_an_alias_is_where_it_is_used_and_its_keys_where_they_are_written(file: Path) -> None:
    document = written(file, "a: &x\n  k: 1\nb: *x\n")
    assert (document.locate(("b",)), document.locate(("b", "k"))) == ((3, 1), (2, 3))


# What is refused

WRONG: list[tuple[str | bytes, str]] = [
    ("", "x.yaml: empty; there are no settings in it"),
    ("# only a comment\n", "x.yaml: empty; there are no settings in it"),
    ("- a\n", "x.yaml:1:1: a list, where a mapping of settings is due"),
    ("just text\n", "x.yaml:1:1: 'just text', where a mapping of settings is due"),
    ("a: 1\n\tb: 2\n", "x.yaml:2:1: a tab; YAML takes only spaces here"),
    ("a:\t1\n", "x.yaml:1:3: a tab; YAML takes only spaces here"),
    ("a: 1\nb: 2\na: 3\n", "x.yaml:3:1: duplicate key 'a'; line 1 has it, too"),
    (
        "a: 1\nb:\n  c: 1\n  c: 2\na: 3\n",
        "x.yaml:4:3: duplicate key 'c'; line 3 has it, too\nx.yaml:5:1: duplicate key 'a'; line 1 has it, too",
    ),
    ("a:\n  1: x\n", "x.yaml:2:3: the key is 1; a key is text, in quotes where it looks like something else"),
    ("~: x\n", "x.yaml:1:1: the key is an empty value; a key is text, in quotes where it looks like something else"),
    ("[1]: x\n", "x.yaml:1:1: the key is a list; a key is text, in quotes where it looks like something else"),
    ("a: 1\n---\nb: 2\n", "x.yaml:2:1: a second document ('---'); a file holds one"),
    ("<<: {a: 1}\n", "x.yaml:1:1: a merge key ('<<') belongs to YAML 1.1; write the keys out"),
    ("a: !!int '5'\n", "x.yaml:1:4: the tag 'tag:yaml.org,2002:int'; settings are YAML without tags"),
    ("a: !!python/object:os.system x\n",
     "x.yaml:1:4: the tag 'tag:yaml.org,2002:python/object:os.system'; settings are YAML without tags"),
    ("%YAML 1.1\n---\na: no\n", "x.yaml:2:1: a %YAML directive of another version than 1.2"),
    ("a: b: c\n", "x.yaml:1:5: not valid YAML: no ': ' can stand here; quote text that holds one, or indent"),
    ("a: 1\n- b\n",
     "x.yaml:2:1: not valid YAML: this doesn't line up with the lines above; check the indentation "
     "(while parsing a block mapping that begins on line 1)"),
    ("a:\n  b: [1,\n  2\nc: 1\n",
     "x.yaml:4:2: not valid YAML: expected ',' or ']', but got ':' "
     "(while parsing a flow sequence that begins on line 2)"),
    ('a: "abc\n', "x.yaml:2:1: not valid YAML: found unexpected end of stream "
     "(while scanning a quoted scalar that begins on line 1)"),
    ("a: @b\n", "x.yaml:1:4: not valid YAML: found character '@' that cannot start any token"),
    ('a: "\\U00110000"\n', "x.yaml:1:1: not valid YAML: chr() arg not in range(0x110000)"),
    ('a: "\\ud800"\n', "x.yaml:1:4: half of a surrogate pair, which is no character"),
    ("a: *x\n", "x.yaml:1:4: no finished anchor &x before this alias"),
    ("a: &x [*x]\n", "x.yaml:1:8: no finished anchor &x before this alias"),
    ("a: 1\nb: \x1b[31m\n", r"x.yaml:2:4: a control character (\x1b)"),
    ("\0", r"x.yaml:1:1: a control character (\x00)"),
    (b"a: 1\nb: \xff\n", "x.yaml:2:4: not UTF-8 text (byte 0xff)"),
    ("a: 1\n".encode("utf-16"), "x.yaml:1:1: not UTF-8 text (byte 0xff)"),
    ("a: 1" + "0" * 5000, "x.yaml:1:4: a number of 5001 characters; the limit is 100"),
    ('"a\\e[0m": 1\n"a\\e[0m": 2\n', r"x.yaml:2:1: duplicate key 'a\x1b[0m'; line 1 has it, too"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_wrong_files_are_answered(file: Path, text: str | bytes, message: str) -> None:
    assert error(file, text) == message


def test_many_mistakes_are_cut_short(file: Path) -> None:
    lines = error(file, "a: 1\n" * 200).splitlines()
    assert len(lines) == 21, "20 mistakes and the line that says there are more"
    assert lines[-1] == "x.yaml:22:1: more mistakes follow; these come first"


LETTERS = "abcdefghi"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in itertools.pairwise(LETTERS)
)
"""The 'billion laughs': nine lines that expand to 10^9 values. Up to line 5's bracket there are 12,351, counting keys
and lists; each ``*d`` is 11,111 more, so the eighth, in column 7 + 7 * 4 + 1, goes over 100,000."""

LIMITS: list[tuple[str, str, str]] = [
    ("bomb of aliases", BOMB, "x.yaml:5:36: more than 100,000 values with aliases expanded; that is the limit"),
    ("many aliases", f"a: [&x 1{', *x' * 101}]", "x.yaml:1:411: more than 100 aliases; that is the limit"),
    ("many values", f"a: [{'1,' * 100_001}]",
     "x.yaml:1:199999: more than 100,000 values with aliases expanded; that is the limit"),
    ("deep flow", "a: " + "[" * 51, "x.yaml:1:53: nested deeper than 50 levels"),
    ("very deep flow", "[" * 10_000, "x.yaml:1:51: nested deeper than 50 levels"),
    ("deep block", "- " * 10_000 + "a", "x.yaml:1:101: nested deeper than 50 levels"),
    ("deep mappings", "{a: " * 1000, "x.yaml:1:198: nested deeper than 50 levels"),
    ("deep by aliases", f"a: &a {'[' * 40}{']' * 40}\nb: {'[' * 20}*a{']' * 20}",
     "x.yaml:2:24: nested deeper than 50 levels"),
]  # fmt: skip


LONG = ("many values",)
"""Texts that are read for some seconds before they are refused."""


@pytest.mark.parametrize(
    ("text", "message"),
    [pytest.param(*row[1:], id=row[0], marks=[pytest.mark.slow] * (row[0] in LONG)) for row in LIMITS],
)
def test_limits(file: Path, text: str, message: str) -> None:
    """What a bomb of aliases would expand to is never built."""
    tracemalloc.start()
    try:
        assert error(file, text) == message
        assert tracemalloc.get_traced_memory()[1] < 256 << 20
    finally:
        tracemalloc.stop()


def test_within_the_limits(file: Path) -> None:
    """100 aliases; 50 levels: the top mapping, 48 lists and the number."""
    assert len(written(file, f"a: [&x 1{', *x' * 100}]").data["a"]) == 101
    assert written(file, f"a: {'[' * 48}1{']' * 48}").data["a"][0]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    for path, message in [
        (tmp_path, "a directory, where a YAML file is due"),
        (pipe, "not a regular file, but a pipe, device or socket"),
        (Path("/dev/zero"), "not a regular file, but a pipe, device or socket"),
        (tmp_path / "pip.yaml", "no such file; did you mean 'pipe.yaml'?"),
        (tmp_path / "nowhere" / "x.yaml", "no such file"),
        (pipe / "x.yaml", "can't be read: Not a directory"),
        (tmp_path / ("x" * 300), "can't be read: File name too long"),
    ]:
        with pytest.raises(ConfigError) as caught:
            read(path)
        assert str(caught.value) == f"{path}: {message}"


def test_a_name_with_control_characters_is_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        read(Path("no\n\x1b[31m\0.yaml"))
    assert str(caught.value) == r"no\n\x1b[31m\x00.yaml: can't be read: a NUL character in its name"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(file: Path) -> None:
    file.write_text("a: 1\n")
    file.chmod(0)
    with pytest.raises(ConfigError, match=r"can't be read: Permission denied$"):
        read(file)


def test_a_large_file_is_refused_unread(file: Path) -> None:
    """100 MB (sparse) and one byte over the limit are refused, the limit itself is read."""
    with file.open("wb") as stream:
        stream.truncate(100 * 10**6)
    with pytest.raises(ConfigError, match=r"x\.yaml: larger than 1 MiB, the limit for a YAML file$"):
        read(file)
    padding = "a: 1\n#" + "x" * (1024**2 - 6)
    assert written(file, padding).data == {"a": 1}
    assert error(file, padding + "x") == "x.yaml: larger than 1 MiB, the limit for a YAML file"


def test_any_mutation_of_a_file_is_read_or_answered(file: Path) -> None:
    """A few hundred random edits: anything but data or one-line ConfigErrors would be a traceback for a user."""
    pieces = [
        *"[]{}:,-?&*!|>%@\"'#\n \t\\~0.\r\0\x1b\x85\u2028\ufeffé", "\n- ", "\n  ", ": ", "<<: ", "&a ", "*a", "!!str ",
        "|\n", "---\n", "...\n", "%YAML 1.2\n", "%TAG ! !\n", "{a: ", "[1, ", "\\U0011ffff", "|2", "!<x>", "'",
        '"\\\n', ".nan",
    ]  # fmt: skip
    rng = random.Random(20)
    answered = 0
    for _ in range(300):
        text = QUICKSTART
        for _ in range(rng.randint(1, 5)):
            at, cut = rng.randrange(len(text) + 1), rng.choice([0, 0, 0, 1, 5, 1000])
            text = text[:at] + rng.choice(pieces) + text[at + cut :]
        try:
            written(file, text)
        except ConfigError as mistake:
            answered += 1
            for line in str(mistake).splitlines():
                assert line.startswith(f"{file}:"), line
                assert line.isprintable(), line
    assert 50 < answered < 300, "both outcomes are exercised"


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_answered(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "bytes.yaml"
    file.write_bytes(raw)
    try:
        assert isinstance(read(file).data, dict)
    except ConfigError as mistake:
        assert str(mistake).startswith(f"{file}:")


# Overrides


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("pipeline.ranks=8", ("pipeline", "ranks"), 8),
        (" pipeline.ranks = 8", ("pipeline", "ranks"), 8),
        ("pipeline.steps=2", ("pipeline", "steps"), 2),
        ("costs.forward=[1 ms, 2 ms]", ("costs", "forward"), ["1 ms", "2 ms"]),
        ("schedule={name: gpipe}", ("schedule",), {"name": "gpipe"}),
        ("schedule.warmup=4", ("schedule",), {"name": "1f1b", "warmup": 4}),
        ("cluster.links.1.bandwidth=10 GB/s", ("cluster", "links", 1), {"ranks": [1, 2], "bandwidth": "10 GB/s"}),
        ("cluster.empty.a=1", ("cluster", "empty"), {"a": 1}),
        ("cluster=null", ("cluster",), None),
        ("sweep.grid.pipeline.ranks=[8]", ("sweep", "grid"), {"pipeline.ranks": [8]}),
        ("name=a=b", ("name",), "a=b"),
        ("name='1_000'", ("name",), "1_000"),
    ],
)
def test_set(file: Path, assignment: str, path: tuple[str | int, ...], value: Any) -> None:
    document = written(file, QUICKSTART)
    changed = override(document, [assignment])
    found: Any = changed.data
    for part in path:
        found = found[part]
    assert found == value
    assert read(file).data == document.data, "the document itself stays as it was"


def test_what_was_set_is_located_at_the_command_line(file: Path) -> None:
    document = override(written(file, QUICKSTART), ["pipeline.ranks=0", "schedule.warmup={a: 1}"])
    assert document.where(("pipeline", "ranks")) == "--set 'pipeline.ranks=0'"
    assert document.where(("schedule", "warmup", "a")) == "--set 'schedule.warmup={a: 1}'"
    assert document.where(("schedule", "name")) == f"{file}:3:1", "the rest keeps its place"
    assert document.where(("pipeline", "microbatches")) == f"{file}:4:22"


def test_later_assignments_win(file: Path) -> None:
    document = override(written(file, QUICKSTART), ["pipeline.ranks=8", "pipeline={ranks: 2}", "pipeline.steps=3"])
    assert document.data["pipeline"] == {"ranks": 2, "steps": 3}


def test_overrides_from_python(file: Path) -> None:
    document = override(written(file, QUICKSTART), {"pipeline.ranks": 8, "costs.forward": ("1 ms", "2 ms")})
    assert document.data["pipeline"]["ranks"] == 8
    assert document.data["costs"] == {"forward": ["1 ms", "2 ms"]}
    assert document.where(("pipeline", "ranks")) == "override 'pipeline.ranks'"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("pipeline.ranks", "no '='; write KEY=VALUE, e.g. pipeline.ranks=8"),
        ("=8", "'' is not a key such as 'pipeline.ranks'"),
        ("a..b=8", "'a..b' is not a key such as 'pipeline.ranks'"),
        ("name=", "no value after '='; write null to unset a key"),
        ("name=[1", "not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("name={a: 1, a: 2}", "duplicate key 'a'"),
        ("name=*x", "no finished anchor &x before this alias"),
        ("pipeline.ranks.x=1", "'pipeline.ranks' is 4, which has no key 'x'; set 'pipeline.ranks' whole"),
        ("cluster.links.2.bandwidth=1", "'cluster.links' is a list of 2, which has no item '2'; they count from 0"),
        ("cluster.links.-1=1", "'cluster.links' is a list of 2, which has no item '-1'; they count from 0"),
        ("name=\x1b[31m", r"a control character (\x1b)"),
        ("name=\udcff", r"a control character (\udcff)"),
        ("a" + ".a" * 10_000 + "=1", f"'{('a.' * 30)}…' is not a key such as 'pipeline.ranks'"),
    ],
)  # fmt: skip
def test_wrong_assignments(file: Path, assignment: str, message: str) -> None:
    document = written(file, QUICKSTART)
    with pytest.raises(ConfigError) as caught:
        override(document, [assignment])
    text = assignment if len(assignment) <= 60 else assignment[:60] + "…"
    label = text.replace("\x1b", r"\x1b").replace("\udcff", r"\udcff")
    assert str(caught.value) == f"--set '{label}': {message}"


def test_every_wrong_assignment_is_reported(file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        override(written(file, QUICKSTART), ["x", "pipeline.ranks=8", "=1"])
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["--set 'x'", "--set '=1'"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"a": {1: 2}}, "notebook: the key 1 is not text"),
        ({"a": [[{None: 2}]]}, "notebook: the key an empty value is not text"),
    ],
)
def test_settings_from_python(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Document.from_mapping(settings, "notebook")
    assert str(caught.value) == message


def test_settings_from_python_have_a_label_for_a_place() -> None:
    document = Document.from_mapping({"a": {"b": (1, 2)}}, "notebook")
    assert document.data == {"a": {"b": [1, 2]}}
    assert document.where(("a", "b", 0)) == "notebook"
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(ConfigError, match=r"^notebook: nested deeper than 50 levels$"):
        Document.from_mapping(loop, "notebook")


# What is written


def test_dump_is_readable() -> None:
    shared = ["1 ms", "2 ms"]
    data = {
        "name": "x", "costs": {"forward": shared, "backward": shared, "message": "56 MiB"}, "answer": "no",
        "text": "1e9", "none": None, "links": [{"ranks": [0, 1]}, {"ranks": [1, 2]}], "long": "word " * 40 + "end",
    }  # fmt: skip
    comments: dict[tuple[str | int, ...], str] = {
        ("costs", "message"): "58.720256 MB = 56 MiB",
        ("links", 1, "ranks"): "two\nlines",
    }
    assert dump(data, comments) == (
        "name: x\n"
        "costs:\n"
        "  forward: [1 ms, 2 ms]\n"
        "  backward: [1 ms, 2 ms]\n"
        "  message: 56 MiB # 58.720256 MB = 56 MiB\n"
        "answer: no\n"
        "text: '1e9'\n"
        "none: null\n"
        "links:\n"
        "- ranks: [0, 1]\n"
        "- ranks: [1, 2] # two\\nlines\n"
        f"long: {'word ' * 40}end\n"
    )


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(allow_nan=False), st.text(),
    st.sampled_from(["1_000", "010", "no", "~", "", "<<", "=", "0o7", "1e9", ".inf", "a: b", "- a", "?a", "#", "a\n "]),
)  # fmt: skip
DATA = st.dictionaries(
    st.text().filter(lambda key: not key.startswith("x-")),  # at the top, such a key is the user's own and left out
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)),
    min_size=1,
    max_size=4,
)


@given(DATA)
def test_what_is_dumped_reads_back(tmp_path_factory: pytest.TempPathFactory, data: dict[str, Any]) -> None:
    file = tmp_path_factory.getbasetemp() / "dumped.yaml"
    file.write_bytes(dump(data).encode())
    assert read(file).data == data


def test_what_is_no_path_is_no_config() -> None:
    with pytest.raises(ConfigError, match="load takes the path of a YAML file, not 3"):
        load(3)  # type: ignore[arg-type]


OWN = "x-costs: &c {forward: 1 ms, backward: 2 ms}\nschedule: 1f1b\npipeline: {ranks: 2, microbatches: 2}\n"


@pytest.mark.slow  # importing jsonschema takes seconds where its formats' grammars are installed
def test_the_schema_lets_keys_of_ones_own_stand(file: Path) -> None:
    import jsonschema

    file.write_text(f"{OWN}costs: *c\n")
    assert list(jsonschema.Draft202012Validator(json_schema()).iter_errors(read_plain(file))) == []


def test_keys_of_ones_own_at_the_top(file: Path) -> None:
    """``x-…`` holds what settings take up by their aliases; elsewhere, and with another name, it is a mistake."""
    file.write_text(f"{OWN}costs: *c\n")
    experiment = load(file)
    assert (experiment.costs.forward, experiment.name) == (Fraction(1, 1000), "x")
    for wrong, message in [
        (f"{OWN}costs: {{forward: 1 ms, backward: 2 ms, x-note: a}}\n", "costs.x-note: unknown key"),
        (f"{OWN}costs: *c\nxcosts: 1\n", "xcosts: unknown key"),
        (f"x-a: &a {{b: 1, b: 2}}\n{OWN}costs: *c\n", "x.yaml:1:16: duplicate key 'b'; line 1 has it, too"),
    ]:
        file.write_text(wrong)
        with pytest.raises(ConfigError) as caught:
            load(file)
        assert message in str(caught.value)


def read_plain(file: Path) -> Any:
    return YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
