"""Sizes: a model's share on one device, for one microbatch, and how its terms are computed there."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from ppsim.costs.transformer.model import TransformerModel
from ppsim.costs.transformer.terms import Exchange, Group, Work

FP32 = 4
"""Bytes of a number in single precision: norm statistics, router scores, log-sum-exp."""


@dataclass(frozen=True)
class Sizes:
    """One device's share of a model. Its defaults are a whole model on one device, for one token.

    Source of the ways to cut: Megatron-LM, SC 2021 (tensor); Korthikanti et al. 2022 (sequence); Megatron-LM core 0.17
    (context, expert, expert tensor parallelism).
    """

    model: TransformerModel
    sequence: int = 1
    batch: int = 1
    tensor: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1
    sequence_parallel: bool = False
    element: int = 2
    """Bytes of an element of an activation."""
    padding: int = 1
    """The vocabulary is padded to a multiple of this, times ``tensor``."""
    flash: bool = True
    fused_cross_entropy: bool = True
    fused_accumulation: bool = True
    dropout: bool = False
    capacity: Fraction | None = None
    """Tokens that an expert takes, over the mean (None: it gets the mean)."""
    context_by_ring: bool = False

    @property
    def tokens(self) -> Fraction:
        """Tokens of a microbatch on a device, where only context parallelism cuts them."""
        return Fraction(self.batch * self.sequence, self.context)

    @property
    def spread(self) -> int:
        """Devices over which norms, residuals and messages are spread: sequence parallelism."""
        return self.tensor if self.sequence_parallel else 1

    @property
    def hidden(self) -> Fraction:
        """Bytes of the hidden state of all of a device's tokens, gathered."""
        return self.element * self.model.hidden * self.tokens

    @property
    def hidden_part(self) -> Fraction:
        """Bytes of the hidden state where sequence parallelism spreads it."""
        return self.hidden / self.spread

    @property
    def vocabulary(self) -> int:
        """Words on a device, padded."""
        multiple = self.padding * self.tensor
        return -(-self.model.vocabulary // multiple) * multiple // self.tensor

    @property
    def heads(self) -> Fraction:
        """Query heads on a device."""
        return Fraction(self.model.heads, self.tensor)

    @property
    def groups(self) -> Fraction:
        """Key and value heads on a device; every device has at least one."""
        return max(Fraction(self.model.groups, self.tensor), Fraction(1))

    @property
    def experts(self) -> int:
        """Experts on a device."""
        return (self.model.experts or 0) // self.expert

    @property
    def routed(self) -> Fraction:
        """Tokens that a device's experts compute, counted once for each expert that a token is sent to."""
        mine = self.tokens / self.spread
        sent = mine * (self.model.top_k or 0)
        if self.capacity is not None and self.model.experts:
            sent = Fraction(ceil(sent / self.model.experts * self.capacity) * self.model.experts)
        return sent * self.expert_tensor

    def into_columns(self) -> tuple[Work, Work]:
        """Collectives before a column-parallel product, in the forward and in the backward.

        With sequence parallelism an all-gather; its backward sums and scatters the input's gradient, and gathers the
        input again for the weights'. Without: the backward sums.
        Source: Korthikanti et al. 2022, section 4.2.2.
        """
        if self.tensor == 1:
            return Work(), Work()
        if self.sequence_parallel:
            back = (self._tensor("reduce_scatter"), self._tensor("all_gather"))
            return Work(exchanges=(self._tensor("all_gather"),)), Work(exchanges=back)
        return Work(), Work(exchanges=(self._tensor("all_reduce"),))

    def out_of_rows(self) -> tuple[Work, Work]:
        """Collectives behind a row-parallel product, in the forward and in the backward."""
        if self.tensor == 1:
            return Work(), Work()
        if self.sequence_parallel:
            return Work(exchanges=(self._tensor("reduce_scatter"),)), Work(exchanges=(self._tensor("all_gather"),))
        return Work(exchanges=(self._tensor("all_reduce"),)), Work()

    def _tensor(self, pattern: str) -> Exchange:
        return Exchange(pattern, "tensor", self.hidden)  # type: ignore[arg-type]

    def members(self, group: Group, data_parallel: int = 1) -> int:
        """Devices in a group."""
        return {
            "tensor": self.tensor,
            "context": self.context,
            "expert": self.expert,
            "data": data_parallel * self.context,
        }[group]
