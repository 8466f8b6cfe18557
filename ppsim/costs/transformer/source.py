"""Where a model's sizes come from: a row of the catalog, a config.json, one of them with changes, or inline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from ppsim.costs.transformer import huggingface
from ppsim.costs.transformer.model import TransformerModel
from ppsim.errors import ConfigError
from ppsim.hardware import catalog

NOT_SIZES = {"source", "note"}


def is_path(name: str, folder: Path = Path()) -> bool:
    """Whether a model's name is that of a file, or of a folder that lies there and no row of the catalog."""
    if name.endswith(".json") or "/" in name or "\\" in name:
        return True
    return name not in catalog.models() and (folder / name).is_dir()


def expand(value: object) -> object:
    """A name or a path, or {like: …} with changes, into sizes. Raises ValueError."""
    if isinstance(value, str):
        value = {"like": value}
    if not isinstance(value, dict) or not isinstance(value.get("like"), str):
        return value
    name = value["like"]
    if is_path(name):
        try:
            base: dict[str, Any] = huggingface.read(Path(name))
        except ConfigError as error:
            raise ValueError(str(error)) from None
        value = {key: item for key, item in value.items() if key != "like"}  # its sizes say it all
    else:
        base = {key: item for key, item in catalog.row("model", name).items() if key not in NOT_SIZES}
    return {**base, **value}


ModelField = Annotated[TransformerModel, BeforeValidator(expand, json_schema_input_type=str | TransformerModel)]
"""A model, by its name, its file or its sizes."""
