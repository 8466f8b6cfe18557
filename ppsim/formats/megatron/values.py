"""Arguments on their way to settings: values that are needed, and how the machine is cut."""

from __future__ import annotations

from math import lcm
from pathlib import PurePosixPath

from ppsim.costs.partition.layout import multiples
from ppsim.formats._launch import File, Mistake, Sizes
from ppsim.formats.megatron.arguments import Arguments
from ppsim.formats.megatron.options import (
    CONTEXT,
    EXPERT,
    EXPERT_TENSOR,
    GLOBAL,
    LAUNCHER,
    MICRO,
    NO_PIPELINE,
    PIPELINE,
    TENSOR,
)


class Values:
    """Reads values of arguments; what is wrong becomes a mistake of theirs."""

    def __init__(self, arguments: Arguments, file: File) -> None:
        self.arguments, self.file = arguments, file
        self.said: list[str] = []
        self.per_node: int | None = None
        """GPUs of a node, where the file tells."""

    def number(self, name: str, default: int | None = None) -> int | None:
        """A value that is needed: where it depends on something missing, that is a mistake."""
        if name in self.arguments.unknown:
            line, missing = self.arguments.unknown[name]
            give = f"--set {missing.name}=…" if missing.name else "the number in its place"
            other = " or --world-size" if name in LAUNCHER else ""
            text = f"{name} depends on {missing.text}, {missing.why}; give {give}{other}"
            self.arguments.mistakes.append(Mistake(line, text))
            self.arguments.spoilt.add(name)
            return None
        return self.arguments.number(name) if self.arguments.has(name) else default

    def required(self, name: str) -> int | None:
        """A value without a default."""
        if not self.arguments.names(name):
            self.arguments.mistakes.append(Mistake(0, f"{name} is missing"))
        return self.number(name)

    def sizes(self) -> Sizes | None:
        """How the model and its batch are cut, if that can be."""
        ranks, tensor, context = self.number(PIPELINE, 1), self.number(TENSOR, 1), self.context()
        expert, micro, given = self.expert(), self.required(MICRO), self.number(GLOBAL)
        world = self._world()
        if ranks is None or tensor is None or context is None or expert is None or micro is None:
            return None
        if ranks > 1 and self.arguments.has(NO_PIPELINE):
            self.arguments.wrong(NO_PIPELINE, f"contradicts {PIPELINE} {ranks}; give 1, or leave it out")
            return None
        model = tensor * ranks * context
        if world is not None and not self._world_fits(
            world, model, f"tensor {tensor} x pipeline {ranks} x context {context}"
        ):
            return None
        expert_tensor = self.number(EXPERT_TENSOR, tensor)
        if expert_tensor is None:
            return None
        own = f"expert tensor {expert_tensor} x expert {expert} x pipeline {ranks}"
        if world is not None and not self._world_fits(world, expert_tensor * expert * ranks, own, model):
            return None
        data = 1 if world is None else world // model
        total = self.global_batch(micro * data, given)
        needed = {GLOBAL, *(LAUNCHER if self.file.world_size is None else ())}
        if total is None or any(self.arguments.names(name) and not self.arguments.number(name) for name in needed):
            return None
        if total % (micro * data):
            near = " or ".join(map(str, multiples(total, micro * data)))
            self.arguments.wrong(
                GLOBAL,
                f"isn't a multiple of micro-batch size {micro} x {data} data-parallel replicas = {micro * data}; "
                f"{near} works",
            )
            return None
        return Sizes(ranks, tensor, context, expert, world, data, micro, total, total // (micro * data))

    def global_batch(self, at_once: int, given: int | None) -> int | None:
        """Samples of a step, where ``at_once`` are in one microbatch of all replicas."""
        return at_once if given is None else given

    def context(self) -> int | None:
        """Into how many parts a sequence is cut over GPUs that aren't those of tensor parallelism."""
        return self.number(CONTEXT, 1)

    def expert(self) -> int | None:
        """Over how many GPUs the experts are spread."""
        size, experts = self.number(EXPERT, 1), self.arguments.text("--num-experts")
        if size is not None and size > 1 and experts.isdigit() and (int(experts) % size or int(experts) < size):
            self.arguments.wrong(EXPERT, f"{experts} experts can't be spread evenly over {size} ranks")
            return None
        return size

    def _world_fits(self, world: int, group: int, what: str, also: int = 1) -> bool:
        if world % group == 0:
            return True
        near = " or ".join(map(str, multiples(world, lcm(group, also))))
        text = f"world size {world} isn't a multiple of {what} = {group} GPUs; {near} GPUs work"
        if self.per_node and lcm(group, also) % self.per_node == 0:
            text += f", as by --nnodes {lcm(group, also) // self.per_node}"
        self.arguments.mistakes.append(Mistake(self.arguments.line("--nproc-per-node"), text))
        return False

    def _world(self) -> int | None:
        """GPUs in all, or None where the file doesn't tell."""
        if self.file.world_size is not None:
            return self.file.world_size
        words = [word.text for word in self.arguments.words]
        if any(PurePosixPath(text).name == "deepspeed" for text in words[:12]):
            self.per_node = self.number("--num-gpus")
            nodes = self.number("--num-nodes", None if {"--hostfile", "-H"} & {*words} else 1)
        else:
            self.per_node = self.number("--nproc-per-node")
            nodes = self.number("--nnodes", 1)
        if self.per_node is None and not any(self.arguments.names(name) for name in LAUNCHER):
            return self._tasks(words)
        return None if self.per_node is None or nodes is None else self.per_node * nodes

    def _tasks(self, words: list[str]) -> int | None:
        """GPUs by the tasks that srun or mpirun starts, one for each; srun's are also those of the job's header."""
        program = next((i for i, text in enumerate(words) if PurePosixPath(text).name.startswith("python")), 0)
        starter = next((i for i, t in enumerate(words[:program]) if PurePosixPath(t).name in _STARTERS), None)
        if starter is None:
            return None
        given: dict[str, str] = {}
        for word, after in zip(words[starter:program], words[starter + 1 : program + 1], strict=False):
            name, equals, value = word.partition("=")
            given[name] = value if equals else after
        srun = PurePosixPath(words[starter]).name == "srun"
        header = self.arguments.job if srun else {}

        def count(*names: str) -> int | None:
            text = next((given[name] for name in names if name in given), header.get(names[0], ""))
            return int(text) if text.isdigit() and int(text) > 0 else None

        if not srun:
            return count("-np", "-n", "--n", "--np")
        tasks, nodes, per_node = count("--ntasks", "-n"), count("--nodes", "-N"), count("--ntasks-per-node")
        self.per_node = per_node
        return tasks if tasks is not None else nodes * per_node if nodes and per_node else None


_STARTERS = ("srun", "mpirun", "mpiexec", "orterun")
