"""Words of shell scripts: what bash would make of them (each expectation was checked against bash 5), and what isn't known."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppsim.errors import FormatError
from ppsim.formats.shell import script
from ppsim.formats.shell.arithmetic import value_of
from ppsim.formats.shell.grammar import Source
from ppsim.formats.shell.script import Script


def followed(text: str, launches: Callable[[Sequence[str]], bool] = lambda _: True, **fixed: str) -> Script:
    return script.followed(Source(text, "x.sh"), fixed, launches)


def words(text: str, **fixed: str) -> list[str]:
    """The words of the last command."""
    return [word.text for word in followed(text, **fixed).state.commands[-1].words]


KNOWN = [
    ("plain words", "run a  b\t c", ["run", "a", "b", "c"]),
    ("quotes", """run 'a b' "c d" e\\ f x'y'"z" '' "" """, ["run", "a b", "c d", "e f", "xyz", "", ""]),
    ("continuation", "run a \\\n  b\\\nc", ["run", "a", "bc"]),
    ("comments", "# no\nrun a # b\n# c", ["run", "a"]),
    ("a # inside a word is none", "run a#b", ["run", "a#b"]),
    ("variable", "A=1\nrun $A ${A}2 \"$A\" '$A' \\$A", ["run", "1", "12", "1", "$A", "$A"]),
    ("unquoted text splits, quoted doesn't", "A='x  y'\nrun $A \"$A\" -$A-", ["run", "x", "y", "x  y", "-x", "y-"]),
    ("empty vanishes, quoted empty stays", 'A=\nrun $A "$A" b', ["run", "", "b"]),
    ("append", "A=1\nA+=2\nL=(a)\nL+=(b c)\nrun $A ${L[@]}", ["run", "12", "a", "b", "c"]),
    ("array", "L=(\n a # x\n 'b c'\n)\nrun \"${L[@]}\" ${L[@]}", ["run", "a", "b c", "a", "b", "c"]),
    ("array as one word, its first element", 'L=(a b)\nrun "${L[*]}" $L', ["run", "a b", "a"]),
    ("empty array", 'L=()\nrun "${L[@]}" x', ["run", "x"]),
    ("array inside a word", 'L=(a b)\nrun "x${L[@]}y"', ["run", "xa", "by"]),
    ("defaults", "B=\nrun ${A:-1} ${B:-2} ${B-3} ${C:-$D${E:-4 5}}", ["run", "1", "2", "$D4", "5"]),
    ("positional default", "run ${1:-8}", ["run", "8"]),
    ("alternative", "A=1\nrun ${A:+yes} ${B:+no} x", ["run", "yes", "x"]),
    ("arithmetic", "A=7\nrun $((A * (2 + 3) - 8 / 3 % 2)) $(($A*2)) $((-7 / 2))", ["run", "35", "14", "-3"]),
    ("two on one line", "A=1; B=2\nrun $A$B", ["run", "12"]),
    ("assignment before a command", "A=1 run x", ["run", "x"]),
    ("exported", "export A=1 B=2\nrun $A $B", ["run", "1", "2"]),
    ("here-document", "cat <<EOF\nit's $( not a word\nEOF\nrun a", ["run", "a"]),
    ("redirections", "run a > log 2>&1 b < in", ["run", "a", "b"]),
    ("a dollar alone", 'run $ "a$"', ["run", "$", "a$"]),
    ("same assignment under a condition", "A=1\nif x; then A=1; fi\nrun $A", ["run", "1"]),
    ("${A%x}", "A=a.b.c\nrun ${A%.*} ${A%%.*} ${A#*.} ${A##*.} ${A/./-} ${A//./-} ${A:2:3} ${#A} ${A^^}", ["run", "a.b", "a", "b.c", "c", "a-b.c", "a-b-c", "b.c", "5", "A.B.C"]),
    ("elements", 'L=(a b)\nrun ${L[1]} ${#L[@]} "${L[-1]}"', ["run", "b", "2", "b"]),
    ("a map", 'declare -A M=([x]=1 [y]=2)\nK=y\nM[z]=3\nrun ${M[x]} ${M[$K]} ${M[z]}', ["run", "1", "2", "3"]),
    ("indirection", "A=B\nB=1\nrun ${!A}", ["run", "1"]),
    ("more arithmetic", "A=7\nrun $((2 ** 3)) $((A > 3 && A <= 7)) $((A == 7 ? 1 : 2)) $((1 << 4 | 1)) $(expr $A \\* 2)", ["run", "8", "1", "1", "17", "14"]),
    ("decided if", "A=1\nif [ $A = 1 ] && [[ $A != 2* ]]; then B=x; elif y; then B=z; else B=w; fi\nrun $B", ["run", "x"]),
    ("decided case", 'A=ab\ncase "$A" in a) B=1;; b|a?) B=2;; *) B=3;; esac\nrun $B', ["run", "2"]),
    ("numbers", "A=3\nif [ $A -ge 3 -a $A -lt 4 ] && (( A % 2 == 1 )); then B=1; fi\nrun $B", ["run", "1"]),
    ("or", "A=\n[ -n \"$A\" ] || A=2\nrun $A", ["run", "2"]),
    ("loop", "A=\nfor i in 1 2 3; do A=$A$i; done\nfor ((i=0; i<2; i++)); do A=${A}x; done\nrun $A", ["run", "123xx"]),
    ("function", "f() { local x=$1; A=$x$2; }\nx=0\nf 1 2\nrun $A $x", ["run", "12", "0"]),
    ("set", "set -- a 'b c'\nshift\nrun \"$@\" $#", ["run", "b c", "1"]),
    ("a default as a condition", 'if [ -z "$A" ]; then A=4; fi\n[ -z "${B}" ] && B=5\nrun $A $B', ["run", "4", "5"]),
    ("an argument's default", 'if [ -n "$1" ]; then A=$1; else A=4; fi\nB=$2\nrun $A ${B:-6}', ["run", "4", "6"]),
    ("assigned by an expansion", ': ${A:=4}\nrun $A', ["run", "4"]),
    ("document as a value", "read -r -d '' A <<E\nx y\nE\nB=$(cat <<E\n$A\nE\n)\nrun $A \"$B\"", ["run", "x", "y", "x y"]),
    ("subshell", "A=1\n(A=2; cd x)\necho y | A=3\nrun $A", ["run", "1"]),
    ("eval", 'A=B\neval "$A=5"\nrun $B', ["run", "5"]),
    ("a comment inside a list", "L=(a # it's $( b\n b)\nrun ${L[@]}", ["run", "a", "b"]),
    ("what prints plainly", 'A=/x/y.sh\nrun $(basename $A .sh) $(dirname $A) $(echo "2*3" | bc)', ["run", "y", "/x", "6"]),
    ("a later assignment settles it", "if x; then A=1; fi\nA=2\nrun $A", ["run", "2"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in KNOWN], ids=[row[0] for row in KNOWN])
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash to ask")
@pytest.mark.parametrize("text", [row[1] for row in KNOWN if "$D" not in row[1]], ids=lambda text: repr(text)[:30])
def test_bash_makes_the_same_words(text: str, tmp_path: Path) -> None:
    """``run`` prints its words, each ended by a NUL; to bash ``x`` succeeds, so that conditions hold."""
    script = "run() { printf '%s\\0' run \"$@\"; }\nx() { :; }\n: > in\n" + text.replace("> log", "")
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split("\0")[:-1] == words(text)


UNKNOWN = [
    ("run $1", "$1", "an argument of the script"),
    ("run $HOME/x", "$HOME", "not assigned in this file"),
    ("run $(date)", "$(date)", "a command, which isn't run"),
    ("run `date`", "`date`", "a command, which isn't run"),
    ("A=x\nrun ${A@Q}", "${A@Q}", "an expansion that isn't read"),
    ("run $((16#ff))", "$((16#ff))", "arithmetic that isn't read"),
    ("run {a,b}", "{a,b}", "braces that make several words, which isn't read"),
    ("run $((1 / 0))", "$((1 / 0))", "arithmetic that isn't read"),
    ("run $((N * 2))", "$N", "not assigned in this file"),
    ("A=$1\nB=$A\nrun $B", "$1", "an argument of the script"),
    ("while read A; do B=$A; done < x\nrun $B", "${B}", "assigned in a loop (line 1)"),
    ("for A in *.txt; do x; done\nrun $A", "${A}", "takes values (line 1) that aren't known"),
    (
        "while [ $# -gt 0 ]; do case $1 in -a) A=$2;; esac; shift; done\nrun $A",
        "${A}",
        "assigned by the script's options (line 1)",
    ),
    ("read A\nrun $A", "${A}", "read from the input (line 1)"),
]


@pytest.mark.parametrize(("text", "named", "why"), UNKNOWN, ids=[row[0][:30] for row in UNKNOWN])
def test_what_the_text_does_not_tell(text: str, named: str, why: str) -> None:
    (missing,) = followed(text).state.commands[-1].words[-1].missing
    assert (missing.text, missing.why) == (named, why)


def test_a_user_can_tell_it() -> None:
    assert words("if x; then A=1; fi\nrun $A ${2:-3}", **{"A": "5", "2": "6"}) == ["run", "5", "6"]


def test_words_know_their_line() -> None:
    script = followed('A="x\ny"\nL=(\n p\n q\n)\nrun $A \\\n ${L[@]} z')
    assert [(word.text, word.line) for word in script.state.commands[-1].words] == [
        ("run", 7), ("x", 1), ("y", 2), ("p", 4), ("q", 5), ("z", 8),
    ]  # fmt: skip


INSIDE = [
    "srun bash -c 'run --a \"b c\"'",
    "C='run --a \"b c\"'\neval $C",
    "sbatch --wrap='run --a \"b c\"'",
    'C=\'run --a "b c" 2>&1 | tee log\'\neval "$C"',
    "f() { run --a \"$1\"; }\nf 'b c'",
    "cat > x.sh <<'E'\nrun --a \"$1\"\nE\nbash x.sh 'b c'",
    "echo 'run --a \"b c\"' > x.sh; sbatch x.sh",
    "bash <<E\nrun --a 'b c'\nE",
    'C=\'run --a "b c"\'\nbash -lc "$C"',
    "C=(run --a 'b c')\nnohup \"${C[@]}\" > log 2>&1 &",
    "cd $(dirname $0) && exec run --a 'b c'",
    "while true; do run --a 'b c' && break; done",
]


@pytest.mark.parametrize("text", INSIDE)
def test_a_command_inside_another(text: str) -> None:
    (command,) = followed(text, lambda texts: texts[0] == "run").state.commands
    assert [word.text for word in command.words] == ["run", "--a", "b c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nrun 'b", "2: the quote ' that opens here never ends"),
        ('a\nrun "b\n\n', '2: the quote " that opens here never ends'),
        ("L=(\na", "1: the list that '(' opens here is never closed"),
        (
            "L=(\na|b )",
            "2: '|' stands in a list without quotes, where the shell takes it for an operator; quote the word",
        ),
        ("run $(a", "1: '(' opens here and is never closed"),
        ("A=" + "${A:-" * 41 + "}" * 41, "1: expansions are nested deeper than 40 levels"),
        ("A=xxxxxxxxxx\n" + "A=$A$A\n" * 60, "1,000,000 characters"),
        ("A=''\n" + "A=$A$A\n" * 60, "1,000,000 characters"),
    ],
)
def test_no_shell_text(text: str, message: str) -> None:
    with pytest.raises(FormatError) as error:
        followed(text)
    assert message in str(error.value)


Tree = int | tuple["Tree", str, "Tree"]
TREES = st.recursive(st.integers(0, 99), lambda tree: st.tuples(tree, st.sampled_from("+-*/%"), tree), max_leaves=12)


def as_text(tree: Tree) -> str:
    return str(tree) if isinstance(tree, int) else f"({as_text(tree[0])} {tree[1]}{as_text(tree[2])})"


def as_value(tree: Tree) -> int:
    """C's arithmetic: a quotient is cut towards zero, and the remainder is what is left."""
    if isinstance(tree, int):
        return tree
    left, operator, right = as_value(tree[0]), tree[1], as_value(tree[2])
    cut = int(Fraction(left, right)) if operator in "/%" else 0
    return {"+": left + right, "-": left - right, "*": left * right, "/": cut, "%": left - cut * right}[operator]


@given(TREES)
def test_arithmetic_is_that_of_c(tree: Tree) -> None:
    """What divides by zero, or exceeds 64 bits, isn't read."""
    try:
        expected = as_value(tree)
    except ZeroDivisionError:
        assert value_of(as_text(tree), str) is None
        return
    assert value_of(as_text(tree), str) in ((expected,) if "*" not in as_text(tree) else (expected, None))


def test_operators_bind_as_usual() -> None:
    """2 + 3·4 - 20/6%2 = 14 - 1 = 13; equal ones from the left: 10-4-3 = 3."""
    assert value_of("2+3*4-20/6%2", str) == 13
    assert value_of("10-4-3", str) == 3
