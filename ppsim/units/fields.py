"""Fields of a pydantic model that read and write a value with its unit, or a plain factor."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from pydantic_core import core_schema

from ppsim.units.text import KINDS, NUMBER, Dimension, number_of, parse, parse_factor, show


@dataclass(frozen=True)
class UnitField:
    """Makes ``Annotated[Fraction, UnitField(dimension)]`` a pydantic field that reads and writes text with a unit.

    ``zero`` says why zero is refused, where it is.
    """

    dimension: Dimension
    zero: str | None = None

    def _read(self, text: object) -> Fraction:
        value = parse(text, self.dimension)
        if self.zero and not value:
            raise ValueError(self.zero)
        return value

    def _write(self, value: Fraction) -> str:
        return show(value, self.dimension)

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                self._write, return_schema=core_schema.str_schema()
            ),
        )

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        kind = KINDS[self.dimension]
        units = "|".join(sorted(kind.accepted, key=len, reverse=True))
        return {"type": "string", "pattern": rf"^ *\+?{NUMBER} *({units}) *$", "examples": [f"10 {kind.example}"]}


class FactorField:
    """Makes ``Annotated[Fraction, FactorField()]`` a pydantic field that reads and writes a plain positive number."""

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            parse_factor, serialization=core_schema.plain_serializer_function_ser_schema(number_of)
        )

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        text = {"type": "string", "pattern": rf"^ *\+?{NUMBER} *$"}
        return {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, text], "examples": [0.8]}


Time = Annotated[Fraction, UnitField("time")]
Size = Annotated[Fraction, UnitField("size")]
Bandwidth = Annotated[Fraction, UnitField("bandwidth")]
Rate = Annotated[Fraction, UnitField("rate")]
Flops = Annotated[Fraction, UnitField("flops")]
PositiveBandwidth = Annotated[
    Fraction, UnitField("bandwidth", "zero bandwidth carries nothing; write 'free' for a link without cost")
]
PositiveRate = Annotated[Fraction, UnitField("rate", "a rate of zero never computes anything")]
Factor = Annotated[Fraction, FactorField()]
