"""The experiment's schedule: its name, or a mapping with its name and settings."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, SerializeAsAny
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from ppsim.schedules import Schedule, known
from ppsim.schedules.registry import PYTORCH_NAMES, nearest


class _ScheduleField:
    """A schedule's name, or a mapping with its name and settings, into that schedule."""

    @staticmethod
    def __get_pydantic_core_schema__(_: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        choices = {f"<{name}>": handler.generate_schema(schedule) for name, schedule in known().items()}
        choices["<own>"] = core_schema.is_instance_schema(Schedule)

        def by_name(value: Any) -> Any:
            if isinstance(value, str):
                value = {"name": value}
            if isinstance(value, Schedule):
                return value
            if not isinstance(value, dict):
                raise ValueError("must be a schedule's name, or a mapping with its name and settings")
            name = value.get("name")
            if name is None:
                raise ValueError(f"lacks its name, as in {{name: 1f1b}}; known: {', '.join(sorted(known()))}")
            if isinstance(name, str) and name not in known() and name in PYTORCH_NAMES:
                return {**value, "name": PYTORCH_NAMES[name]}
            if not isinstance(name, str) or name not in known():
                hint = nearest(str(name)) or ";"
                raise ValueError(f"unknown schedule '{name}'{hint} known: {', '.join(sorted(known()))}")
            return value

        def which(value: Any) -> str:
            if isinstance(value, Schedule):
                return f"<{value.name}>" if type(value) is known().get(value.name) else "<own>"
            return f"<{value['name']}>"

        union = core_schema.tagged_union_schema(choices, discriminator=which)
        return core_schema.no_info_before_validator_function(by_name, union)

    @staticmethod
    def __get_pydantic_json_schema__(_: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        names = [*sorted(known()), *PYTORCH_NAMES]
        shorthand = {"enum": names, "description": "A schedule by name, with its default settings."}
        forms = []
        for schedule in known().values():
            form = handler(schedule.__pydantic_core_schema__)
            forms.append(form)
        return {"anyOf": [shorthand, *forms]}


ScheduleField = Annotated[SerializeAsAny[Schedule], _ScheduleField]
