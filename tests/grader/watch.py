"""Which PyTorch operations a launcher used: it may allocate and view, not compute. Worker side.

A TorchDispatchMode sees every operation that reaches PyTorch's dispatcher. In the trace lane it
also moves new allocations into guarded memory (`memory`).
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

EMPTY = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
FILLED = {
    "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like",
    "new_full", "zero_", "fill_", "zero", "fill",
}  # fmt: skip
COPY = {"clone", "copy_", "contiguous", "copy"}
QUERY = {"is_pinned", "sym_size", "sym_stride", "sym_numel", "is_contiguous", "dim", "numel",
         "is_strides_like_format", "is_non_overlapping_and_dense", "device", "layout",
         "stride", "size", "storage_offset", "record_stream", "_unsafe_view"}  # fmt: skip
ZEROS = {"zeros", "zeros_like", "new_zeros"}
LOOKS = {"tolist", "numpy", "__array__", "__dlpack__", "item"}  # Python gets what a tensor holds

WHOLE = " of whole numbers"
# The names of operators that nobody writes, and what people write to get them.
WRITTEN = {
    "_to_copy": ".to()",
    "_local_scalar_dense": ".item()",
    "_unique2": "unique",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
}


def as_written(operator: str) -> str:
    """An operator's name as it stands in a launcher's source."""
    return WRITTEN.get(operator, operator)


class Watch(TorchDispatchMode):
    """Notes foreign operations while active. `memory` moves allocations into guarded buffers.

    `allowed`: further operator names that a kata's contract permits, such as "sort"; or "sort of
    whole numbers", where it may sort and count ids but not do arithmetic: then what the operator
    takes, or what it gives, must be whole numbers or booleans alone. And then such tensors may come
    from Python lists, even after a look at what other tensors hold.
    """

    def __init__(self, file: str, memory=None, recorder=None, allowed=()):
        super().__init__()
        self.file = file
        self.memory: Any = memory
        self.recorder = recorder
        self.allowed = {name for name in allowed if not name.endswith(WHOLE)}
        self.counting = {name.removesuffix(WHOLE) for name in allowed} - self.allowed
        self.foreign: dict[str, dict] = {}
        self.copies: list[dict] = []
        self.allocations: list[dict] = []
        self.paused = False
        self.seen = 0
        self._looks = _Looks(memory)

    def __enter__(self):
        super().__enter__()
        self._looks.__enter__()
        return self

    def __exit__(self, *exc):
        self._looks.__exit__(*exc)
        return super().__exit__(*exc)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # there is nothing to compile here, and asking loads all of torch._dynamo

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.seen += 1
        if self.paused:
            return func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        in_kernel = self.recorder is not None and self.recorder.in_kernel
        if in_kernel:
            self._note(name + " (inside the kernel)")
            return func(*args, **kwargs)
        if name in EMPTY:
            return self._allocate(func(*args, **kwargs), "empty")
        if name in FILLED:
            looked = self.memory is not None and getattr(self.memory, "looked", False)
            out = func(*args, **kwargs)
            ids = self.counting and (name in ZEROS or _whole(out))
            kind = "filled" if not looked or ids or self.memory.few(1) else "foreign"
            if name.endswith("_"):
                self._settle(args[0], kind)
                return out
            return self._allocate(out, kind)
        if name == "lift_fresh":  # the end of torch.tensor, torch.as_tensor and their like
            out = func(*args, **kwargs)
            ids = self.counting and _whole(out) and self._known(out) is None
            return self._allocate(out, "filled") if ids or self._few(out) else out
        if name in COPY or (name == "_to_copy" and self._same(args[0], kwargs)):
            kind = "copy" if self._own(args[1 if name in ("copy_", "copy") else 0]) else "foreign"
            out = func(*args, **kwargs)
            self._note_copy(name, out)
            if name == "copy_":
                self._settle(args[0], kind)
                return out
            return self._allocate(out, kind)
        if name in QUERY or _is_view(func):
            return func(*args, **kwargs)
        body = _python_body(name, args)
        if body is not None:
            with self:  # it is Python once more, and seen as the launcher is
                return body(*args, **kwargs)
        out = func(*args, **kwargs)
        names = {name, f"{name}.{func._overloadname}"}
        counts = names & self.counting and (_whole((args, kwargs)) or _whole(out, some=True))
        if counts or names & self.allowed:
            if func._schema.is_mutable:
                for leaf in tree_leaves(out):
                    self._settle(leaf, "copy")
            elif isinstance(out, torch.Tensor):
                self._note_copy(name, out)
            return self._allocate_all(out)
        # Without a tensor it asks something, or marks the place for a profiler.
        if any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((args, kwargs, out))):
            self._note(name)
        return out

    @staticmethod
    def _same(tensor, kwargs) -> bool:
        dtype, device = kwargs.get("dtype"), kwargs.get("device")
        return dtype in (None, tensor.dtype) and device in (None, tensor.device)

    def _allocate_all(self, out):
        if isinstance(out, torch.Tensor):
            return self._allocate(out, "copy")
        if isinstance(out, (tuple, list)):
            return type(out)(self._allocate_all(o) for o in out)
        return out

    def _allocate(self, out, kind: str):
        self.allocations.append({"kind": kind, "bytes": out.numel() * out.element_size()})
        if self.memory is None or out.device.type != self.memory.device or out.numel() == 0:
            return out
        if self.memory.of(out) is not None:
            return out
        placed = self.memory.place(tuple(out.shape), tuple(out.stride()), out.dtype, "", kind)
        if kind != "empty":
            placed.copy_(out)
            self.memory.of(placed).resync()
        return placed

    def _settle(self, tensor, kind: str) -> None:
        """Take what an allowed operation wrote to this tensor as what belongs there."""
        buffer = self._known(tensor)
        if buffer is None:
            return
        buffer.settle(tensor)
        if kind == "foreign" or buffer.kind == "empty":
            buffer.kind = kind
        elif buffer.kind == "kept" and tensor.numel():
            buffer.filled[buffer.places(tensor)] = True

    def _known(self, tensor):
        """The buffer of this tensor, an earlier call's too (the card's memory knows only its own)."""
        if self.memory is None or not isinstance(tensor, torch.Tensor):
            return None
        return getattr(self.memory, "known", self.memory.of)(tensor)

    def _few(self, tensor) -> bool:
        if not hasattr(self.memory, "few") or not tensor.numel():
            return False
        return self._known(tensor) is None and self.memory.few(tensor.numel())

    def _own(self, tensor) -> bool:
        """Whether what a tensor holds was put there in this call, by kernels or allocations."""
        if not hasattr(self.memory, "few") or not isinstance(tensor, torch.Tensor):
            return True
        if tensor.numel() == 0 or tensor.device.type != self.memory.device:
            return True
        buffer = self._known(tensor)
        if buffer is None:
            return self.memory.few(tensor.untyped_storage().nbytes() // tensor.element_size())
        if buffer.kind == "kept":
            return not buffer.stale(buffer.places(tensor))
        return buffer.kind != "foreign"

    def _note(self, name: str) -> None:
        self.foreign.setdefault(name, {"op": name, "line": self._line()})

    def _note_copy(self, name: str, out) -> None:
        nbytes = out.numel() * out.element_size()
        self.copies.append({"op": name, "line": self._line(), "bytes": nbytes})

    def _line(self) -> int:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.file:
                return frame.f_lineno
            frame = frame.f_back
        return 0


class _Looks(TorchFunctionMode):
    """Notes in the memory when Python gets at what a tensor holds."""

    def __init__(self, memory):
        super().__init__()
        self.memory = memory

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in LOOKS and hasattr(self.memory, "looked"):
            self.memory.looked = True
        return func(*args, **(kwargs or {}))


def _python_body(name: str, args):
    """The function behind an operator made with custom_op or triton_op of PyTorch, or None."""
    library = sys.modules.get("torch._library.custom_ops")
    made = library.OPDEFS.get(name) if library is not None and "::" in name else None
    if made is None:
        return None
    device = next((a.device.type for a in args if isinstance(a, torch.Tensor)), None)
    bodies = made._backend_fns  # private, as OPDEFS is: seen the same in PyTorch 2.5 to 2.13
    return bodies.get(device, bodies.get(None))


def _whole(tree, some: bool = False) -> bool:
    """Whether all tensors in this hold whole numbers or booleans; `some`: and there are any."""
    tensors = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    whole = (not (t.is_floating_point() or t.is_complex()) for t in tensors)
    return all(whole) and bool(tensors or not some)


def _is_view(func) -> bool:
    """True for operators that return an alias of an argument and write to none."""
    returns = func._schema.returns
    if not returns or func._schema.is_mutable:
        return False
    return all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
