"""Layers -> stages: what adds up, what is there once, what bursts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from ppsim.costs.layers import Layer, LayerCosts, transient

F = Fraction

EMBEDDING = Layer(
    "embedding", F(1), F(0), F(2), message=F(10), weights=F(100), gradients=F(200), optimizer_state=F(400)
)
DECODER = Layer(
    "decoder", F(3), F(4), F(5), recompute=F(3), activation=F(30), held_for_weight_grad=F(20), kept=F(10),
    message=F(10), weights=F(7), gradients=F(14), optimizer_state=F(28), optimizer=F(1), transient_backward=F(12),
    buffers=(("a", F(6)), ("b", F(2))),
)  # fmt: skip
HEAD = Layer("head", F(6), F(6), F(6), activation=F(5), transient_forward=F(9), transient_backward=F(50), tied=F(1),
             weights=F(100), gradients=F(200), optimizer_state=F(400), buffers=(("c", F(1)),))  # fmt: skip
MODEL = LayerCosts((EMBEDDING, DECODER, DECODER, DECODER, HEAD))


def test_times_and_sizes_add_up_and_a_message_is_the_last_layers():
    costs = MODEL.stage_costs([2, 3])
    assert costs.forward == (1 + 3, 3 + 3 + 6)
    assert costs.backward == (2 + 4 + 5, 2 * (4 + 5) + 12)
    assert costs.activation == (30, 30 + 30 + 5)
    assert costs.stage_input == (10, 20)  # each recomputed layer keeps its input
    assert costs.message == (10, 0)  # the head sends nothing on
    assert costs.optimizer == (1, 2)


def test_tied_weights_are_there_once_on_one_stage_and_twice_on_two():
    assert MODEL.stage_costs([5]).weights == (100 + 3 * 7,)
    assert MODEL.stage_costs([2, 3]).weights == (107, 2 * 7 + 100)
    assert MODEL.stage_costs([5]).optimizer_state == (400 + 3 * 28,)


def test_buffers_are_there_once_per_device():
    # gradients: 200 + 2·14 and 14 + 200; buffers a and b are 8, c is 1
    assert MODEL.stage_costs([3, 2]).gradients == (228 + 8, 214 + 8 + 1)
    assert MODEL.stage_costs([3, 2], stages_of=[[0, 1]]).gradients == (228 + 8 + 1, 214)


def test_an_earlier_layers_burst_has_the_room_of_what_later_layers_keep():
    # head: 50. The last decoder's 12 comes when the head's 5 are free again, so it adds 7 alone.
    assert transient(MODEL.layers[1:], "transient_backward") == 50
    small = replace(HEAD, transient_backward=F(0))
    assert transient([DECODER, small], "transient_backward") == 12 - 5
    assert transient([DECODER, DECODER], "transient_backward") == 12
    assert transient([], "transient_backward") == 0


@pytest.mark.parametrize("split", [[2, 2], [6, -1], []])
def test_no_layer_is_lost(split):
    with pytest.raises(ValueError, match="not one of 5 layers"):
        MODEL.stage_costs(split)


def test_an_empty_stage_passes_its_input_on():
    costs = MODEL.stage_costs([1, 0, 4])
    assert costs.message == (10, 10, 0)
    assert costs.forward[1] == costs.weights[1] == 0


def test_layer_by_layer_the_inputs_and_one_layers_rest_are_rebuilt():
    # embedding and decoder: 10 kept + 20 of one; two decoders and the head: 20 kept + 20 of one of them
    assert MODEL.stage_costs([2, 3]).rebuilt == (10 + 20, 20 + 20)


def test_gradients_are_summed_as_a_layer_says_or_whole():
    told = replace(DECODER, synced=F(3), flops=F(7))
    costs = LayerCosts((EMBEDDING, told, told)).stage_costs([2, 1])
    assert costs.synced == (200 + 3, 3)
    assert costs.flops == (7, 7)


def test_a_part_of_a_microbatch_takes_its_part_and_holds_the_whole_model():
    whole = MODEL.stage_costs([2, 3])
    half = whole.scaled(F(1, 2))
    for key in ("forward", "backward", "activation", "message", "rebuilt", "transient_backward", "flops"):
        assert getattr(half, key) == tuple(value / 2 for value in getattr(whole, key)), key
    for key in ("weights", "gradients", "optimizer_state", "optimizer", "synced"):
        assert getattr(half, key) == getattr(whole, key), key
