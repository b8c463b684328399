"""What a suite states about its kata, once: the lanes, benchmarks and pictures all read this.

>>> KATA = Kata(launcher="add", parameters=("x", "y"), inputs=inputs, reference=reference, ...)

A case is a dict of keyword arguments for `inputs`, plus a group name. Sizes in a case may be
functions of the block that the kernel under test was seen to use, so that BLOCK - 1, BLOCK and
BLOCK + 1 mean the learner's own block.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

SMALL = 32  # sizes up to here are cases of their own
TARGETS = ("sm_90", "sm_80", "sm_89", "sm_100", "gfx942")  # the first compiles every case

# What it may take to sort, count and scan ids, and to move things about by them: operators that do
# arithmetic are allowed on whole numbers alone (see `watch`).
MOVING = (
    "index",
    "index_select",
    "gather",
    "take",
    "masked_select",
    "scatter_.src",
    "ceil",
    "floor",
)
COUNTING = MOVING + tuple(
    f"{name} of whole numbers"
    for name in (
        "sort argsort topk unique_consecutive unique_dim _unique2 bincount histc searchsorted bucketize "
        "isin cumsum cumsum_ sum any all count_nonzero max min amax amin aminmax argmax argmin nonzero diff "
        "flip roll cat stack repeat repeat_interleave constant_pad_nd where masked_fill masked_fill_ "
        "tril triu arange eq ne lt le gt ge logical_and logical_or logical_not bitwise_and bitwise_or "
        "bitwise_not bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ add add_ sub sub_ rsub "
        "mul mul_ neg abs div div_ floor_divide floor_divide_ remainder fmod scalar_tensor maximum minimum "
        "clamp clamp_ clamp_min clamp_max scatter scatter_ scatter_add scatter_add_ scatter_reduce "
        "index_add index_add_ index_put index_put_ index_copy_ index_fill_ put_ _to_copy "
        "_local_scalar_dense"
    ).split()
)


@dataclass(frozen=True)
class Case:
    """One call of the launcher: the group that a check asks for, and arguments for `inputs`.

    Lengths of dimensions are called n or in capitals (R, C, D_IN): they may be drawn anew where a
    class is graded, see `drawn_size`. Other arguments stay as they are.

    `launcher`: which one, where a kata has several; "" for the main one.
    """

    group: str
    sizes: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    launcher: str = ""

    @property
    def tuned(self) -> bool:
        """Is the call an autotuner's own, which tunes? Otherwise it has one config by itself."""
        return "tuned" in self.group.split(", ")

    @property
    def again(self) -> bool:
        """Is it called twice, with other numbers in the same tensors? The second call counts."""
        return "again" in self.group.split(", ")

    def settled(self, block: Sequence[int], seed: str = "") -> Case:
        """The same case with sizes that depend on the block worked out; with a seed, others drawn."""
        sizes = {k: v(block) if callable(v) else v for k, v in self.sizes.items()}
        for name, stated in self.sizes.items():
            if seed and type(stated) in (int, Longest) and (name == "n" or name.isupper()):
                sizes[name] = drawn_size(stated, seed)
        shown = ", ".join(f"{k}={_short(v)}" for k, v in sizes.items())
        shown = f"{self.launcher}: {shown}" if self.launcher else shown
        return Case(self.group, sizes, self.name or shown, self.launcher)


class Longest(int):
    """A size that is the largest which the contract allows: others are drawn below it, none above."""


def case(group: str, *, name: str = "", launcher: str = "", **sizes) -> Case:
    """A case in `group`; a size may be a function of the kernel's block (a sequence of ints)."""
    return Case(group, sizes, name, launcher)


@dataclass(frozen=True)
class Cost:
    """The fewest bytes that must move and the arithmetic to be done, for one call."""

    read: int  # bytes
    written: int  # bytes
    flops: int = 0


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What every suite states, whatever it asks for: a kernel (`Kata`) or an agent (see `talk`).

    launcher    name of the function that a suite calls, the main one if there are several
    parameters  its parameter names, for messages
    cases       the cases, in the order in which they are run
    """

    launcher: str
    parameters: tuple[str, ...]
    cases: tuple[Case, ...]

    def of(self, launcher: str) -> Statement:
        """What holds for one of the launchers; "" is the main one."""
        return self


AnyStatement = TypeVar("AnyStatement", bound=Statement)


def shortened(statement: AnyStatement, most: Mapping[str, int], others: int = 0) -> AnyStatement:
    """The same with fewer cases: the first ones of each group, as many as `most` says or `others`."""
    left = {case.group: most.get(case.group, others) for case in statement.cases}
    kept = []
    for case in statement.cases:
        if left[case.group]:
            left[case.group] -= 1
            kept.append(case)
    return replace(statement, cases=tuple(kept))


@dataclass(frozen=True, kw_only=True)
class Kata(Statement):
    """Everything the engine needs to know about a kata that asks for a kernel.

    launcher, parameters   as for every statement
    others      further launchers in the same file, each with the fields that it states otherwise;
                a case names the one that it calls
    inputs      inputs(draw, **sizes) -> list of arguments (tensors and plain values)
    reference   reference(*arguments in fp64) -> fp64 result, or a tuple of them
    bound       bound(want, *arguments) -> absolute error allowed per element, beyond nothing; for
                several results one function for all, or a tuple with one for each
    returns     names of the results, where there are several or one is updated in place: a result
                named like a parameter is that very tensor, with new values
    result      result(*arguments) -> list of (shape, dtype) expected; default: like the parameter
                that is updated, or like the first
    cases       the cases, the first of group "probe" being the one that shows the block
    widen       widen(block, *arguments) -> a grid large enough, to judge offsets without the grid
    usual_block the block to size cases by when the kernel's own cannot be seen
    cost        cost(*arguments) -> Cost
    baseline    PyTorch's own operation with the same arguments, for the speed check
    speed_case  sizes for the speed check; marks: (pass, distinction) as shares, see `speed`
    bench_sizes sizes for benchmarks, small ones first; default: the speed case and halves of it
    figures     sizes that solutions/README.md shows, 64 MiB and more; default: the speed case
    show        sizes that `nox -s show-N` draws, functions of the block among them: small, and with a
                ragged edge; default: the smallest ragged case of several programs
    suspects    (concept, sentence, formula): usual mistakes, recognised by the numbers they give;
                for several results a formula may give a tuple, with None for what it leaves open
    choice      where the contract leaves a choice to the kernel, such as what it drops:
                choice(got, *arguments) -> what is wrong with the choice as a whole, in a sentence,
                or "". Reference and suspects then take the result first too, (got, *arguments), and
                tell what it must be, given that choice. `got` is the result, a list of several, in
                fp64 or as it is; NaN stands where no kernel has written.
    allowed     PyTorch operators the contract lets the launcher use beyond allocating and viewing;
                COUNTING has those that sort and count ids
    """

    inputs: Callable
    reference: Callable
    bound: Callable | tuple[Callable, ...]
    widen: Callable
    cost: Callable
    baseline: Callable
    speed_case: dict
    marks: tuple[float, float] = (0.8, 0.95)
    bench_sizes: tuple[dict, ...] = ()
    figures: tuple[dict, ...] = ()
    show: dict = field(default_factory=dict)
    returns: tuple[str, ...] = ()
    result: Callable | None = None
    usual_block: tuple[int, ...] = (1024,)
    targets: tuple[str, ...] = TARGETS
    allowed: tuple[str, ...] = ()
    suspects: tuple[tuple[str, str, Callable], ...] = ()
    others: dict[str, dict[str, Any]] = field(default_factory=dict)
    choice: Callable | None = None

    @property
    def launchers(self) -> tuple[str, ...]:
        """The names of all functions that a suite calls, the main one first."""
        return (self.launcher, *self.others)

    @property
    def tiled(self) -> bool:
        """Is a block of this kata usually a tile, of more than one row and column?"""
        return len(self.usual_block) > 1 and min(self.usual_block[:2]) > 1

    def of(self, launcher: str) -> Kata:
        """What holds for one of the launchers; "" is the main one."""
        if launcher in ("", self.launcher):
            return self
        return replace(self, launcher=launcher, others={}, **self.others[launcher])

    def asked(self, arguments: list, results: list[torch.Tensor]) -> list:
        """What `reference` takes: the arguments, behind the results where these hold a choice."""
        if self.choice is None:
            return arguments
        return [results if len(results) > 1 else results[0], *arguments]

    def expected(self, arguments: list) -> list[tuple[tuple[int, ...], torch.dtype]]:
        """Shape and dtype of each result."""
        if self.result is not None:
            return self.result(*arguments)
        named = dict(zip(self.parameters, arguments, strict=False))
        like = [named.get(name, arguments[0]) for name in self.returns or ("",)]
        return [(tuple(one.shape), one.dtype) for one in like]

    def allowed_error(self, part: int, want: torch.Tensor, arguments: list) -> torch.Tensor:
        """What `bound` says of one result."""
        bound = self.bound[part] if isinstance(self.bound, tuple) else self.bound
        return bound(want, *arguments)

    @property
    def updates(self) -> tuple[str, ...]:
        """The parameters that a call updates in place."""
        return tuple(name for name in self.returns if name in self.parameters)

    def restorer(self, arguments: list) -> Callable[[], None]:
        """A function that gives the arguments back what calls have updated in place since."""
        named = zip(self.parameters, arguments, strict=False)
        kept = [(tensor, tensor.clone()) for name, tensor in named if name in self.updates]

        def restore() -> None:
            for tensor, before in kept:
                tensor.copy_(before)

        return restore


def drawn_size(size: int, seed: str) -> int:
    """Another size that shows the same: within an eighth of it, and for every seed a different one.

    It needs the same block, the next power of two, and is a multiple of the same powers of two, so
    what was ragged stays ragged and what was aligned stays aligned. Sizes that a case exists for stay
    as they are: small ones, powers of two, and what lies next to these. Equal sizes are drawn equal.
    """
    above = 1 << (size - 1).bit_length()
    if size <= SMALL or min(size - above // 2, above - size) <= 1:
        return size
    step = 2 * (size & -size)  # from one multiple of exactly that power of two to the next
    fewer = min(size // 8, size - above // 2 - 2) // step
    more = 0 if isinstance(size, Longest) else min(size // 8, above - 2 - size) // step
    digest = hashlib.sha256(f"{seed}|size {size}".encode()).digest()
    return size + step * (int.from_bytes(digest[:8], "big") % (fewer + more + 1) - fewer)


class Draw:
    """Seeded inputs. The same seed and case give the same numbers on every machine."""

    def __init__(self, seed: str, label: str):
        digest = hashlib.sha256(f"{seed}|{label}".encode()).digest()
        self.generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    def normal(self, shape, dtype=torch.float32, mean=0.5, std=1.0, layout="contiguous"):
        """Normal numbers; the mean is not zero, so that a lost term shows."""
        values = torch.randn(shape, generator=self.generator, dtype=torch.float64) * std + mean
        return lay_out(values.to(dtype), layout)

    def integers(self, shape, dtype=torch.int32, low=-4, high=5, layout="contiguous"):
        """Whole numbers from low to high - 1."""
        values = torch.randint(low, high, shape, generator=self.generator, dtype=torch.int64)
        return lay_out(values.to(dtype), layout)

    def number(self, low: int, high: int) -> int:
        """One whole number from low to high - 1."""
        return int(torch.randint(low, high, (), generator=self.generator))


class Drawn:
    """Arguments that were drawn before, so that the next file of a class need not draw them anew.

    A copy, which is cheaper than drawing, is what everybody gets: strides and the gaps
    between them included, to be written to at will. The oldest go beyond `most` bytes.
    """

    def __init__(self, most: int):
        self.most, self.held = most, 0
        self._kept: OrderedDict[tuple, list] = OrderedDict()
        self._lock = threading.Lock()

    def arguments(self, kata: Kata, seed: str, case: Case, salt: str = "") -> list:
        """Seeded arguments for a settled case of this launcher; `salt` gives others."""
        label = f"{kata.launcher}|{case.group}|{case.name}|{salt}"
        key = kata.inputs, seed, label, repr(case.sizes)
        with self._lock:
            drawn = self._kept.get(key)
        if drawn is None:
            drawn = kata.inputs(Draw(seed, label), **case.sizes)
            with self._lock:
                self._keep(key, drawn)
        return copied(drawn)

    def _keep(self, key: tuple, drawn: list) -> None:
        self.held += 0 if key in self._kept else held_by(drawn)
        self._kept[key] = drawn
        while self.held > self.most:
            self.held -= held_by(self._kept.popitem(last=False)[1])


def held_by(arguments: list) -> int:
    """Bytes of these tensors' memory."""
    return sum(x.untyped_storage().nbytes() for x in arguments if isinstance(x, torch.Tensor))


def copied(arguments: list) -> list:
    """The same arguments in memory of their own, laid out as they were."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        memory = tensor.untyped_storage().clone()
        empty = torch.empty(0, dtype=tensor.dtype)
        return empty.set_(memory, tensor.storage_offset(), tensor.shape, tensor.stride())

    return [copy(x) if isinstance(x, torch.Tensor) else x for x in arguments]


def size_text(sizes: dict[str, Any]) -> str:
    """A size in a few words: "n=2^20", "R=16384 C=4096"; equal ones together."""
    by_value: dict[str, list[str]] = {}
    for name, value in sizes.items():
        text = str(value).removeprefix("torch.")
        if isinstance(value, int) and value >= 1 << 17 and value & (value - 1) == 0:
            text = f"2^{value.bit_length() - 1}"
        by_value.setdefault(text, []).append(name)
    return " ".join(f"{'='.join(names)}={value}" for value, names in by_value.items())


def lay_out(values: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values in another memory layout; the gaps between them hold NaN (or junk).

    contiguous | one row (every row is the first, stride 0) | one column (likewise)
    transposed (last two dimensions swapped in memory) | columns apart (transposed, with gaps) |
    padded (rows apart) | spread (every second element of a padded row) |
    shifted (contiguous, one element in)
    """
    shape = list(values.shape)
    if layout == "one row" and values.numel():
        return values[:1].contiguous().expand(shape)
    if layout == "one column" and values.numel():
        return values[..., :1].contiguous().expand(shape)
    if layout == "contiguous" or values.numel() == 0:
        return values.contiguous()
    strides, step = [0] * len(shape), 1
    order = list(range(len(shape)))[::-1]
    if layout in ("transposed", "columns apart") and len(shape) > 1:
        order[0], order[1] = order[1], order[0]
    if layout == "spread":
        step = 2
    for place, dim in enumerate(order):
        strides[dim] = step
        step *= shape[dim]
        if place == 0 and layout in ("padded", "spread", "columns apart"):
            step += 5
    offset = 1 if layout == "shifted" else 0
    length = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    junk = float("nan") if values.dtype.is_floating_point else 77
    storage = torch.full((length,), junk, dtype=values.dtype)
    view = torch.as_strided(storage, shape, strides, offset)
    view.copy_(values)
    return view


def _short(value) -> str:
    return str(value).removeprefix("torch.").replace(" ", "")
