"""Profiles: our table and PipeDream's graph give the same layers, and say what is wrong with each line."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ppsim.costs.profile import graph, table
from ppsim.errors import ConfigError

MS = Fraction(1, 1000)
TABLE = """\
# a comment
layer,     forward, input_grad, weight_grad, activation, message, parameters
embedding, 0.1 ms,  0 s,        200 us,      32 MiB,     32 MiB,  524 M
block,     3.2 ms,  3.1 ms,     2.9 ms,      700 MB,     32 MiB,  218112000
head,      4 ms,    4 ms,       4 ms,        1 GB,       ,        872.4 MB
"""


def figures(cost: str) -> str:
    forward, backward, activation, parameters = cost.split()
    return (
        f"forward_compute_time={forward}, backward_compute_time={backward}, activation_size={activation}, "
        f"parameter_size={parameters}"
    )


GRAPH = "\n".join([
    f"node3 -- ReLU(inplace) -- {figures('0.5 0.25 200.0 0.0')}",
    f"node2 -- Conv2d(3, 8, kernel_size=(3, 3)) -- {figures('2.0 3.000 200.0 40.0')} -- stage_id=0",
    f"node1 -- Input -- {figures('17.9 0.0 77.0 0.0')}",
    f"node10 -- Add -- {figures('0.1 0.1 100.0 0.0')}",
    f"node4 -- LSTM(8, 8) -- {figures('1.0 0 [100.0;20.0] 80.0').replace(';', '; ')}",
    "\tnode1 -- node2", "\tnode2 -- node3", "\tnode3 -- node4", "\tnode2 -- node10", "\tnode4 -- node10",
])  # fmt: skip
"""A convolution whose output is used twice: by the next operator, and by the last one."""


def test_a_table_has_its_layers_in_order():
    embedding, block, head = table.read(TABLE, "p.csv")
    assert (embedding.name, embedding.forward, embedding.weight_grad) == ("embedding", MS / 10, MS / 5)
    assert (block.input_grad, block.activation, block.message) == (Fraction("3.1") * MS, 700 * 10**6, 32 * 2**20)
    assert (embedding.parameters, block.parameters) == (524 * 10**6, 218_112_000)  # numbers
    assert head.parameters == Fraction(872_400_000) and isinstance(head.parameters, Fraction)  # bytes


def test_a_columns_name_may_end_in_its_unit_and_a_backward_is_halved():
    (layer,) = table.read("Layer,forward_ms,BACKWARD_us,activation_MiB,message_bytes\na,1.5,3000,2,1e3\n", "p.csv")
    assert (layer.forward, layer.input_grad, layer.weight_grad) == (3 * MS / 2,) * 3
    assert (layer.activation, layer.message, layer.halves_assumed) == (2 * 2**20, 1000, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.csv: no rows; the columns are layer, forward"),
        ("layer,forward,backward\n", "p.csv:1: no layers below the columns' names"),
        ("layer,forwards,backward\na,1 ms,1 ms\n", "p.csv:1: unknown column 'forwards'; did you mean 'forward'?"),
        ("layer,forward\na,1 ms\n", "p.csv:1: no column 'backward', nor input_grad and weight_grad"),
        ("layer,forward,input_grad\na,1 ms,1 ms\n", "p.csv:1: a column 'input_grad' alone"),
        (
            "layer,forward,backward,weight_grad\na,1 ms,1 ms,1 ms\n",
            "p.csv:1: columns for the backward and for its halves",
        ),
        ("layer,forward,forward_ms,backward\na,1 ms,1,1 ms\n", "p.csv:1: two columns 'forward'"),
        ("layer,forward,backward\na,1,1 ms\n", "p.csv:2: forward: '1' is a bare number; write the unit"),
        ("layer,forward,backward\na,,1 ms\n", "p.csv:2: forward: an empty value, where a time is due"),
        ("layer,forward,backward\na,nan,1 ms\n", "p.csv:2: forward: 'nan' is not a finite number"),
        ("layer,forward,backward\na,-1 ms,1 ms\n", "p.csv:2: forward: '-1 ms' is negative"),
        ("layer,forward,backward\na,1 ms\n", "p.csv:2: 2 values, where the first row names 3 columns"),
        ("layer,forward,backward,parameters\na,1 ms,1 ms,7 B\n", "p.csv:2: parameters: '7 B': billions, or bytes?"),
        ("layer,forward,backward,parameters\na,1 ms,1 ms,1.5\n", "'1.5' is not a whole number of parameters"),
        ("layer,forward,backward,parameters\na,1 ms,1 ms,many\n", "'many' is neither a number of parameters"),
    ],
)
def test_what_is_wrong_with_a_table_is_told_at_its_line(text, message):
    with pytest.raises(ConfigError) as error:
        table.read(text, "p.csv")
    assert message in str(error.value)


def test_all_mistakes_of_a_table_come_at_once_and_of_very_many_the_first():
    rows = "".join("a,1,2\n" for _ in range(30))
    with pytest.raises(ConfigError) as error:
        table.read(f"layer,forward,backward\n{rows}", "p.csv")
    lines = str(error.value).splitlines()
    assert len(lines) == 21 and lines[-1] == "and 40 more of such lines"  # two a row


def test_a_graph_is_a_chain_whose_cuts_carry_what_is_used_behind_them():
    layers = graph.read(GRAPH, "graph.txt")
    assert [layer.name.split()[0] for layer in layers] == ["node2", "node3", "node4", "node10"]  # 10 comes last
    assert [layer.forward for layer in layers] == [2 * MS, MS / 2, MS, MS / 10]
    assert [layer.input_grad for layer in layers] == [3 * MS / 2, MS / 8, 0, MS / 20]
    # behind node2 its 200 alone; behind node3 its 200 and node2's; behind node4 its 120 and node2's; nothing at the end
    assert [layer.message for layer in layers] == [200, 400, 320, 0]
    assert [layer.activation for layer in layers] == [200, 200, 120, 100]
    assert [layer.parameters for layer in layers] == [40, 0, 80, 0]
    assert graph.recognised(GRAPH) and not graph.recognised(TABLE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "graph.txt: no operators"),
        (f"node1 -- Input -- {figures('1 0 8 0')}", "graph.txt: no operators"),
        ("node1 - ReLU", "graph.txt:1: 'node1 - ReLU' is no node"),
        ("node1 -- ReLU -- forward_compute_time=1.0", "graph.txt:1: node1 lacks backward_compute_time, activation_size"),
        (f"node1 -- ReLU -- {figures('-1 0 8 0')}", "forward_compute_time: '-1' is not a number of 0 or more"),
        (f"node1 -- ReLU -- {figures('nan 0 8 0')}", "forward_compute_time: 'nan' is not a number of 0 or more"),
        (f"node1 -- ReLU -- {figures('1 0 8 0')}\nnode1 -- ReLU -- {figures('1 0 8 0')}", "graph.txt:2: 'node1' is there twice"),
        (f"node1 -- ReLU -- {figures('1 0 8 0')}\n\tnode1 -- node7", "graph.txt:2: there is no 'node7'"),
        (f"node1 -- ReLU -- {figures('1 0 8 0')}\n\tnode1 node7", "graph.txt:2: 'node1 node7' is no edge"),
        (f"node1 -- ReLU -- {figures('1 0 8 0')}\n\tnode1 -- node1", "node1 needs its own output"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_graph_is_told_at_its_line(text, message):
    with pytest.raises(ConfigError) as error:
        graph.read(text, "graph.txt")
    assert message in str(error.value)
