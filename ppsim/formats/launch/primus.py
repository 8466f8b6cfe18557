"""AMD's Primus: a YAML file whose presets ``extends`` joins, with the environment's variables in it.

Source: AMD-AGI/Primus, primus/core/config/yaml_loader.py, primus/configs/modules/megatron/*.yaml,
primus/backends/megatron/core/pipeline_parallel/primuspipe/pipeline_launcher.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ppsim.config.yamltree import Builder, Node
from ppsim.errors import ConfigError, FormatError, did_you_mean, printable, shown
from ppsim.formats._launch import File, Mistake, Settings
from ppsim.formats.launch.base import launcher
from ppsim.formats.megatron.arguments import Arguments
from ppsim.formats.megatron.options import (
    CHUNKS,
    GROUP,
    KNOWN,
    NOT_MODELLED,
    REFUSED,
    V_MEMORY,
    V_SCHEDULE,
    without_effect,
)
from ppsim.formats.megatron.reader import Reader, settled
from ppsim.formats.shell.pieces import Missing, Word

_VARIABLE = re.compile(r"\$\{(\w+)(?::([^}]*))?\}")
_NAMES = {
    "microbatch_group_size_per_vp_stage": GROUP,
    "num_moe_experts": "--num-experts",
    "expert_tensor_parallel_size": "--expert-tensor-parallel-size",
    "overlap_p2p_comm": "--overlap-p2p-communication",
}
_ALGORITHMS = {"zbv-formatted": "zb", "v-half": "half", "v-min": "min"}
"""Primus' names of schedules over a V, and their memory."""
_OWN = re.compile(r"(patch_|pp_|zero_bubble|enable_zb|enable_zero|offload|communication_method|interleave_group)")
_MAX_DEPTH = 12


@launcher(
    "primus",
    "AMD's Primus: YAML files for its Megatron",
    marks=(r"^modules:", r"^\s+framework:\s*megatron", r"^\s+overrides:", r"\bPRIMUS_\w+"),
    suffixes=(".yaml", ".yml"),
)
def read(file: File) -> Settings:
    """Its settings; values of ``--set`` are variables of the environment, or keys of ``overrides``."""
    return settled(_Preset(file).arguments(), file, Primus)


class Primus(Reader):
    """Megatron, started by Primus."""

    launcher = "primus"


class _Preset:
    """A Primus file on its way to Megatron's arguments."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.asked: set[str] = set()
        self.notes: list[str] = []
        self.lines: dict[str, int] = {}
        self.missing: dict[str, Missing] = {}

    def arguments(self) -> Arguments:
        """What Megatron is given. Raises FormatError for what is no Primus file."""
        values = self._values()
        words: list[Word] = []
        for key, value in self._translated(values).items():
            line = self.lines.get(key, 0)
            name = _NAMES.get(key, "--" + key.replace("_", "-"))
            if key == "overlap_p2p_comm" and value is False:
                name, value = "--no-overlap-p2p-communication", True
            idle = value is None or value is False or (name in REFUSED and value == 0)
            if idle and key not in self.missing:
                continue
            words.append(Word(name, line))
            if key in self.missing:
                words.append(Word(self.missing[key].text, line, (self.missing[key],)))
            elif value is not True:
                words += [Word(str(part), line) for part in (value if isinstance(value, list) else [value])]
        arguments = Arguments([Word("primus", 0), *words])
        arguments.notes += self.notes
        known = {*values, *self.asked}
        for name in sorted(set(self.file.fixed) - self.asked):
            hint = did_you_mean(name, known)
            arguments.mistakes.append(Mistake(0, f"--set {name}: nothing in the file depends on it{hint}"))
        return arguments

    def _values(self) -> dict[str, Any]:
        """All keys, presets first, the file's own overrides last."""
        whole = self._parsed(self.file.text, self.file.label)
        modules = whole.get("modules")
        module = next((m for m in modules.values() if isinstance(m, dict)), None) if isinstance(modules, dict) else None
        if module is None:
            inside = re.search(r"--(num[-_]layers|pipeline[-_]model)", self.file.text)
            hint = "; of a command within YAML save the command as a script" if inside else ""
            raise FormatError(f"{printable(self.file.label)}: no modules: with a trainer, as a Primus file has{hint}")
        framework = self._resolved("framework", module.get("framework", "megatron"))
        if framework != "megatron":
            raise FormatError(f"{printable(self.file.label)}: framework {shown(framework)}: only megatron is read")
        values: dict[str, Any] = {"micro_batch_size": 2, "bf16": True}
        for kind, folder in (("config", "modules"), ("model", "models")):
            name = self._resolved(kind, module.get(kind))
            if isinstance(name, str):
                found = self._preset(f"primus/configs/{folder}/megatron/{name}", 0)
                if found is None and kind == "model":
                    self.notes.append(f"the preset {shown(name)[1:-1]} isn't there: what it sets isn't known")
                values |= found or {}
        own = module.get("overrides")
        values |= {k: self._resolved(k, v) for k, v in own.items()} if isinstance(own, dict) else {}
        for name in self.file.fixed:
            if name in values or f"--{name.replace('_', '-')}" in KNOWN:
                values[name] = _scalar(self.file.fixed[name])
                self.missing.pop(name, None)
                self.asked.add(name)
        return values

    def _preset(self, path: str, depth: int) -> dict[str, Any] | None:
        """A preset's keys, those of the presets that it extends below them; None where it isn't there."""
        ways = [path, *("../" * up + path for up in range(1, 8)), path.rsplit("/", 1)[-1]]
        text = next((text for way in ways if (text := self.file.load(way)) is not None), None)
        if text is None or depth > _MAX_DEPTH:
            return None
        whole = self._parsed(text, path)
        values: dict[str, Any] = {}
        extends, includes = whole.pop("extends", None), whole.pop("includes", None)
        for name in [*(extends or []), *(includes or [])]:
            values |= self._preset(f"{path.rsplit('/', 1)[0]}/{name}", depth + 1) or {}
        return values | {key: self._resolved(key, value) for key, value in whole.items()}

    def _parsed(self, text: str, label: str) -> dict[str, Any]:
        label = printable(label)
        try:
            root = Builder(label).build(text)
        except ConfigError as error:
            raise FormatError(str(error)) from None
        if root is None or not isinstance(root.value, dict):
            raise FormatError(f"{label}: not a mapping, which a Primus file is")
        if label == printable(self.file.label):
            self._note_lines(root)
        return dict(root.plain())

    def _note_lines(self, node: Node) -> None:
        for key, inside in node.value.items() if isinstance(node.value, dict) else ():
            if isinstance(inside.place, tuple):
                self.lines[key] = inside.place[0]
            self._note_lines(inside)

    def _resolved(self, key: str, value: Any) -> Any:
        """A value with the environment's variables in it."""
        self.missing.pop(key, None)
        if isinstance(value, list):
            return [self._resolved(key, part) for part in value]
        if not isinstance(value, str) or "${" not in value:
            return value

        def replaced(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            if name in self.file.fixed:
                self.asked.add(name)
                return self.file.fixed[name]
            if default is None:
                self.missing[key] = Missing(found[0], self.lines.get(key, 0), "not set in this file", name)
            return default or ""

        return _scalar(_VARIABLE.sub(replaced, value))

    def _translated(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Keys that are Megatron's arguments, or mean one."""
        own = {key: value for key, value in values.items() if _OWN.match(key)}
        found = {key: value for key, value in values.items() if key not in own and _is_argument(key)}
        if own.get("patch_zero_bubble"):
            bubbles = {"enable_zero_bubble": True, "zero_bubble_v_schedule_mem_setup": "half"} | own
            found |= {
                k: v for k, v in bubbles.items() if k.startswith(("zero_bubble", "enable_zero")) and _is_argument(k)
            }
            if not found.get("zero_bubble_v_schedule"):
                found.pop("zero_bubble_v_schedule_mem_setup", None)
        else:
            found.pop("allow_padding_num_layers", None)
        if own.get("patch_primus_pipeline"):
            algorithm = str(own.get("pp_algorithm", "1f1b-interleaved"))
            if algorithm in _ALGORITHMS:
                found |= {V_SCHEDULE[2:]: True, V_MEMORY[2:]: _ALGORITHMS[algorithm]}
            elif algorithm not in ("1f1b", "1f1b-interleaved"):
                known = ", ".join(("1f1b", "1f1b-interleaved", *_ALGORITHMS))
                raise FormatError(
                    f"{printable(self.file.label)}:{self.lines.get('pp_algorithm', 0)}: pp_algorithm "
                    f"{shown(algorithm)} isn't modelled; {known} are"
                )
        v_shaped = found.get(V_SCHEDULE[2:]) or found.get("zero_bubble_v_schedule")
        if v_shaped and found.get(CHUNKS[2:].replace("-", "_")) == 2:
            del found[CHUNKS[2:].replace("-", "_")]  # a V has two stages per rank
        return found


def _is_argument(key: str) -> bool:
    name = _NAMES.get(key, "--" + key.replace("_", "-"))
    return name in KNOWN or name in NOT_MODELLED or name in without_effect()


def _scalar(text: str) -> Any:
    """A number, true, false or null, or the text itself."""
    lowered = text.lower()
    if lowered in ("true", "false", "null", ""):
        return {"true": True, "false": False}.get(lowered)
    return int(text) if re.fullmatch(r"-?\d+", text) else text
