"""Triton's interpreter with every memory access handed to a recorder. Runs in the worker only.

All private names of `triton.runtime.interpreter` that the project relies on stand in this one
file (seen the same in Triton 3.6 to 3.9; tests/selftest/test_interpreter.py notices a move):

* `interpreter_builder.create_masked_load` / `create_masked_store`: plain, block-pointer and
  descriptor accesses all end there. `create_atomic_rmw` / `create_atomic_cas`: atomics.
* `TensorHandle`: one value of a kernel, a numpy array and a Triton dtype.
* `InterpretedFunction.run`: a launch or a warmup. `GridExecutor.__call__`: one launch.
  `interpreter_builder.set_grid_idx`: the next program.
* `ReduceOps.generic_reduce`, `ScanOps.generic_scan`: tl.reduce and tl.associative_scan with a
  function of the kernel's own.
* `FunctionRewriter.ast_transformer` and `.rewrite_ast`: rewrite the source of a kernel before it is
  interpreted.

What the interpreter gets wrong for legal kernels is mended here, so that no right kernel pays for
it: bf16 (kept as fp32 numbers that are rounded to bf16 after every operation, to nearest even),
tl.dot of fp32 (which is TF32 unless told otherwise), lanes that are masked off without `other`
(undefined on a GPU: they read as NaN here, not as a convenient zero), tl.histogram, run-time loop
variables without `.to()`, grids given as lists or computed from scalar arguments, the common
libdevice functions, and `and`, `or`, `not` between blocks, which Python decides by one truth value
and the compiler lane by lane.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import math
import operator
import sys
import types
from collections.abc import Callable

import numpy as np
import triton
import triton.language as tl
import triton.runtime.interpreter as interp
from triton._C.libtriton import ir
from triton.runtime.interpreter import TensorHandle, interpreter_builder

from . import hints, quick
from .recorder import EndOfLaunch

BUILDER = type(interpreter_builder)
NAN_OF_FP16 = np.uint16(0x7FFF).view(np.float16)  # as NVIDIA's chips make it of every NaN


def round_to_bf16(data: np.ndarray) -> np.ndarray:
    """fp32 numbers rounded to the nearest bf16 (ties to even), still held as fp32."""
    return unpack_bf16(pack_bf16(data))


def pack_bf16(data: np.ndarray) -> np.ndarray:
    """fp32 numbers as raw bf16 bit patterns (uint16), rounded to nearest even; NaN stays NaN."""
    data = np.ascontiguousarray(data, dtype=np.float32)
    bits: np.ndarray = data.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> 16
    return np.where(np.isnan(data), np.uint32(0x7FC0), rounded).astype(np.uint16)


def unpack_bf16(bits: np.ndarray) -> np.ndarray:
    """Raw bf16 bit patterns (uint16) as fp32 numbers."""
    return (np.ascontiguousarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def poison(shape: tuple, dtype: np.dtype) -> np.ndarray:
    """What a lane reads that must not be used: NaN. Integers: a large number, and 1 in every other
    lane, which passes for an index or a small count where the large one would be sifted out.
    """
    if dtype.kind == "f":
        return np.full(shape, np.nan, dtype)
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    junk = np.full(shape, np.iinfo(dtype).max // 3, dtype)
    junk.reshape(-1)[1::2] = 1
    return junk


def _is_bf16(dtype) -> bool:
    return getattr(dtype, "name", None) == "bf16"


class _LoopIndex(int):
    """A loop variable over run-time bounds: an int that also answers as a Triton scalar does.

    What is worked out from it by whole numbers is one too, divided as compiled code divides:
    towards zero, where Python rounds down.
    """

    def to(self, dtype, *args, **kwargs):
        return self._tensor().to(dtype)

    @property
    def dtype(self):
        return tl.int32

    def __neg__(self):
        return _LoopIndex(-int(self))

    def __invert__(self):
        return _LoopIndex(~int(self))

    def _tensor(self):
        return interp.interpreter_semantic.to_tensor(int(self), False)


def _divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_WHOLE = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "and": operator.and_,
    "or": operator.or_, "xor": operator.xor, "lshift": operator.lshift,
    "rshift": operator.rshift, "floordiv": _divide, "mod": lambda a, b: a - b * _divide(a, b),
}  # fmt: skip


def _loop_arithmetic() -> None:
    """Give _LoopIndex its operators, either way round."""

    def operator_of(name, function, swapped):
        def apply(self, other):
            other = other.value if isinstance(other, tl.constexpr) else other
            if isinstance(other, int) and not isinstance(other, bool) and function is not None:
                pair = (int(other), int(self)) if swapped else (int(self), int(other))
                return _LoopIndex(function(*pair))
            if isinstance(other, (int, float)):
                return getattr(self._tensor(), name)(other)
            return NotImplemented  # a block knows what to do with a number

        return apply

    for word, function in (_WHOLE | {"truediv": None}).items():
        for prefix in ("", "r"):
            name = f"__{prefix}{word}__"
            setattr(_LoopIndex, name, operator_of(name, function, bool(prefix)))


_loop_arithmetic()


def kernel_range(*args):
    """`range` as kernels see it: loop variables convert like tensors do in compiled code."""
    return (_LoopIndex(i) for i in range(*map(_bound, args)))


def _language_range(start, end=None, step=None, **options):
    """`tl.range`, which is `range` with advice to the compiler."""
    bounds = (0, start) if end is None else (start, end)
    return kernel_range(*bounds, 1 if step is None else step)


def _bound(value):
    """A bound of a range as `range` takes it.

    Triton 3.6 leaves a run-time value in an array of one element, which NumPy 2.4 no longer takes
    for a number.
    """
    data = getattr(getattr(value, "handle", None), "data", None)
    return data.item() if isinstance(data, np.ndarray) and data.size == 1 else value


def install(recorder, file: str) -> None:
    """Route every access of the interpreter in this process through `recorder`.

    `file` is the path of the file under test; a recorded line is the innermost frame in it.
    """

    def line() -> int:
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_filename == file:
                return frame.f_lineno
            frame = frame.f_back
        return 0

    def as_mask(mask, shape):
        data = mask.data if isinstance(mask, TensorHandle) else mask
        data = np.asarray(data, dtype=bool)
        return data if data.shape == shape else np.broadcast_to(data, shape)

    def masked_load(self, ptrs, mask, other, *policy, **named):
        element = ptrs.get_element_ty()
        bf16 = _is_bf16(element)
        dtype = np.dtype(np.uint16) if bf16 else interp._get_np_dtype(element)
        addresses = ptrs.data
        mask = as_mask(mask, addresses.shape)
        full = bool(mask.all())
        inside = recorder.access("load", addresses, mask, full, dtype.itemsize, line())
        if not full:
            recorder.padded(line(), None if other is None else other.data)
        fill = None
        if other is None:
            if inside is not mask or not full:
                fill = poison(addresses.shape, np.dtype(np.float32) if bf16 else dtype)
        elif inside is not mask:
            fill = np.where(mask & ~inside, poison((), other.data.dtype), other.data)
        elif not full:
            fill = np.broadcast_to(other.data, addresses.shape)
        if fill is None:
            fill = np.empty(addresses.shape, dtype)  # every lane is loaded
        elif bf16:
            fill = pack_bf16(fill)
        data = interp._interpreter.load(addresses, inside, fill, dtype)
        return TensorHandle(unpack_bf16(data) if bf16 else data, element)

    def masked_store(self, ptrs, value, mask, *policy, **named):
        element = ptrs.get_element_ty()
        data = pack_bf16(value.data) if _is_bf16(element) else value.data
        addresses = ptrs.data
        if data.shape != addresses.shape:
            data = np.broadcast_to(data, addresses.shape)
        mask = as_mask(mask, addresses.shape)
        full = bool(mask.all())
        inside = recorder.access("store", addresses, mask, full, data.dtype.itemsize, line(), data)
        return interp._interpreter.store(addresses, data, inside)

    def atomic_rmw(self, operation, ptr, val, mask, sem, scope):
        mask = as_mask(mask, ptr.data.shape)
        bf16 = _is_bf16(val.dtype.scalar)
        size = 2 if bf16 else val.data.dtype.itemsize
        inside = recorder.access("atomic", ptr.data, mask, bool(mask.all()), size, line())
        if bf16:  # Triton has atomic_add alone for it
            return TensorHandle(_add_bf16(ptr.data, val.data, inside), val.dtype.scalar)
        operation = self.ir_rmw_op_to_interpreter_rmw_op[operation]
        sem = self.ir_sem_to_interpreter_sem[sem]
        old = interp._interpreter.atomic_rmw(operation, ptr.data, val.data, inside, sem)
        return TensorHandle(old, val.dtype.scalar)

    original_cas = BUILDER.create_atomic_cas

    def atomic_cas(self, ptr, cmp, val, sem, scope):
        mask = np.ones(ptr.data.shape, dtype=bool)
        bf16 = _is_bf16(cmp.dtype.scalar)
        size = 2 if bf16 else val.data.dtype.itemsize
        inside = recorder.access("atomic", ptr.data, mask, True, size, line())
        if not inside.all():
            return TensorHandle(poison(ptr.data.shape, cmp.data.dtype), cmp.dtype.scalar)
        if bf16:
            bits = [TensorHandle(pack_bf16(one.data), tl.uint16) for one in (cmp, val)]
            old = original_cas(self, ptr, *bits, sem, scope).data
            return TensorHandle(unpack_bf16(old), cmp.dtype.scalar)
        return original_cas(self, ptr, cmp, val, sem, scope)

    BUILDER.create_masked_load = masked_load
    BUILDER.create_masked_store = masked_store
    BUILDER.create_atomic_rmw = atomic_rmw
    BUILDER.create_atomic_cas = atomic_cas
    _mend_logic(recorder, file)
    _interpret_library()
    quick.remember_shapes()
    quick.call_directly()
    _patch_language_once()
    _mend_bf16()
    _mend_scalars()
    _mend_dot()
    _mend_reductions()
    _mend_histogram()
    _mend_libdevice()
    _mend_warmup()
    _mend_calls(recorder, file)
    _record_launches(recorder)


def _add_bf16(addresses: np.ndarray, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """An atomic addition of bf16 numbers, one after another where lanes share an address.

    Gives what stood there before each lane's turn.
    """
    flat = addresses.reshape(-1)
    values = np.broadcast_to(values, addresses.shape).reshape(-1)
    old: np.ndarray = np.zeros(flat.shape, np.float32)
    waiting = np.flatnonzero(mask)
    while waiting.size:
        _, first = np.unique(flat[waiting], return_index=True)
        turn = waiting[first]
        at, on = np.ascontiguousarray(flat[turn]), np.ones(turn.shape, bool)
        none = np.zeros(turn.shape, np.uint16)
        before = unpack_bf16(interp._interpreter.load(at, on, none, np.dtype(np.uint16)))
        interp._interpreter.store(at, pack_bf16(before + values[turn]), on)
        old[turn] = before
        waiting = np.delete(waiting, first)
    return old.reshape(addresses.shape)


def _interpret_library() -> None:
    """Swap Triton's own @jit functions (tl.sum, tl.cdiv, ...) for interpreted ones.

    They were decorated when triton was imported, in compiled mode.
    """
    from triton.runtime.jit import JITFunction

    swapped: dict[int, interp.InterpretedFunction] = {}
    owners = [m for name, m in sys.modules.items() if name.startswith("triton.language") and m]
    for owner in [*owners, tl.tensor]:
        for name, value in list(vars(owner).items()):
            if isinstance(value, JITFunction):
                if id(value) not in swapped:
                    swapped[id(value)] = interp.InterpretedFunction(value.fn)
                function = swapped[id(value)]
                setattr(owner, name, function if owner is not tl.tensor else _method(function))


def _method(function: Callable) -> Callable:
    """What gives a function the block that it is asked of, x.sum(axis=0): none of Triton's own does."""

    def call(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    return call


def _mark_methods() -> None:
    """x.exp() needs what tl.exp(x) needs, but Triton marks only the function as a builtin."""
    for name, value in vars(tl.tensor).items():
        is_function = isinstance(value, types.FunctionType)
        if is_function and tl.core.is_builtin(getattr(tl, name, None)):
            setattr(value, tl.core.TRITON_BUILTIN, True)


def _patch_language_once() -> None:
    """Put the interpreted `tl` in place for good.

    Triton patches and restores the whole language around every launch, and once more at every call
    of a device function (tl.sum is one): 20 ms each. This process never runs compiled kernels.
    """

    def everything():
        """Stands in for a kernel whose globals hold the language."""

    class Kept:
        def restore(self) -> None:
            """The patches stay."""

    # Off in compiled code as well, unless asked for; it doubles the time of every integer operation.
    options = interpreter_builder.options
    # What the compiler takes for fp32; the interpreter's own list stops short of it.
    split = [name.lower() for name in dir(ir.INPUT_PRECISION) if name.startswith("BF16x")]
    interpreter_builder.options = dataclasses.replace(
        options,
        sanitize_overflow=False,
        allowed_dot_input_precisions=(*options.allowed_dot_input_precisions, *split),
    )
    scope = types.FunctionType(everything.__code__, {"tl": tl, "core": tl.core})
    _mark_methods()
    interp._patch_lang(scope)
    tl.range = tl.core.range = _language_range
    interp._patch_lang = lambda fn: Kept()


class _Rewriter(interp.ASTTransformer):
    """The interpreter's rewriting of a kernel's source, and the compiler's meaning of its logic.

    `a and b` becomes `kata_logic("logical_and", lambda: a, lambda: b)`, and so on; the functions
    called are found in the kernel's globals, where Triton puts all globals of its interpreter.
    The launcher's own `range` and logic stay Python's.
    """

    def visit_Assign(self, node):  # noqa: N802
        return self.generic_visit(super().visit_Assign(node))

    def visit_BoolOp(self, node):  # noqa: N802
        self.generic_visit(node)
        method = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        return self._call("kata_logic", node, ast.Constant(method), *map(self._later, node.values))

    def visit_UnaryOp(self, node):  # noqa: N802
        self.generic_visit(node)
        return self._call("kata_not", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node):  # noqa: N802
        self.generic_visit(node)
        return self._call("kata_chain", node) if len(node.ops) > 1 else node

    def visit_Call(self, node):  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("max", "min"):
            node.func = self._call("kata_extreme", node.func, node.func)
        elif isinstance(node.func, ast.Name) and node.func.id == "range":
            node.func = ast.copy_location(ast.Name("kata_no_loop", ast.Load()), node.func)
        return node

    def _visit_loop(self, node):
        """What a loop walks through; everywhere else a range is a mistake."""
        self.generic_visit(node)
        function = getattr(node.iter, "func", None)
        if isinstance(function, ast.Name) and function.id == "kata_no_loop":
            function.id = "kata_range"
        return node

    visit_For = visit_comprehension = _visit_loop  # noqa: N815

    @staticmethod
    def _call(name, node, *arguments):
        function = ast.copy_location(ast.Name(name, ast.Load()), node)
        return ast.copy_location(ast.Call(function, list(arguments), []), node)

    @staticmethod
    def _later(node):
        nothing = ast.arguments([], [], None, [], [], None, [])
        return ast.copy_location(ast.Lambda(nothing, node), node)


def _logic(method, *operands):
    """`and` or `or` as the compiler has it: blocks lane by lane, the first constant that decides."""
    blocks, value = [], None
    for operand in operands:
        value = operand()
        if isinstance(value, tl.tensor):
            blocks.append(value)
        elif bool(value) is (method == "logical_or"):
            return value
    while len(blocks) >= 2:
        right = blocks.pop()
        blocks.append(getattr(blocks.pop(), method)(right))
    return blocks[0] if blocks else value


def _not(value):
    return value.__not__() if isinstance(value, tl.tensor) else not value


def _chain():
    raise ValueError(hints.CHAINED)


def _no_loop(*bounds):
    raise TypeError(hints.RANGE)


def _extreme(function):
    """`max` and `min` of two or more values, of which a block or a scalar makes it tl.maximum."""
    elementwise = {builtins.max: tl.maximum, builtins.min: tl.minimum}.get(function)
    if elementwise is None:
        return function

    def call(*values, **named):
        if len(values) < 2 or named or not any(isinstance(v, tl.tensor) for v in values):
            return function(*values, **named)
        result = values[0]
        for value in values[1:]:
            both = any(isinstance(v, tl.tensor) for v in (result, value))
            result = elementwise(result, value) if both else function(result, value)
        return result

    return call


def _mend_logic(recorder, file: str) -> None:
    """`and`, `or`, `not`, `max` and `min` between blocks; a block is no condition in `file`.

    Triton's own code asks blocks, and numbers too, for their truth where it means "is there one".
    """
    transformer = _Rewriter()
    interp.FunctionRewriter.ast_transformer = transformer

    def logic(method, *operands):
        value = _logic(method, *operands)
        if isinstance(value, tl.tensor) and value.type.is_block():
            recorder.logic.add(sys._getframe(1).f_lineno)
        return value

    helpers = {"kata_logic": logic, "kata_not": _not, "kata_chain": _chain}
    helpers |= {"kata_extreme": _extreme, "kata_range": kernel_range, "kata_no_loop": _no_loop}
    for name, helper in helpers.items():
        setattr(interp, name, helper)
    original_rewrite = interp.FunctionRewriter.rewrite_ast

    def rewrite(self):
        """Rewritten, with the annotations as they were: they say what is constexpr, by any name."""
        rewritten = original_rewrite(self)
        rewritten.__annotations__ = {
            name: "constexpr" if isinstance(kind, str) and "constexpr" in kind else kind
            for name, kind in self.fn.__annotations__.items()
        }
        return rewritten

    interp.FunctionRewriter.rewrite_ast = rewrite
    original_patch = interp._patch_lang_tensor
    semantic = "triton.language.semantic"

    def truth(self):
        if sys._getframe(1).f_globals.get("__name__") == semantic:
            return True
        data = self.handle.data
        if data.size == 1:
            return bool(data.reshape(-1)[0])
        if sys._getframe(1).f_code.co_filename == file:
            raise ValueError(hints.ONE_TRUTH)
        return True

    def patch(tensor, scope):
        original_patch(tensor, scope)
        scope.set_attr(tensor, "__bool__", truth)

    interp._patch_lang_tensor = patch


def _mend_bf16() -> None:
    """Make bf16 arithmetic right: fp32 numbers inside, rounded to bf16 after each operation."""
    original_dtype, original_size = interp._get_np_dtype, interp._validate_np_data_size
    original_fabs = BUILDER.create_fabs

    known: dict[str, np.dtype] = {}

    def np_dtype(dtype):
        scalar = dtype.element_ty if isinstance(dtype, tl.block_type) else dtype
        name = getattr(scalar, "name", str(scalar))
        if name not in known:
            bf16 = _is_bf16(scalar)
            known[name] = np.dtype(np.float32) if bf16 else original_dtype(scalar)
        return known[name]

    def fits(data, dtype):
        if _is_bf16(dtype):
            return data.dtype != np.float64
        return original_size(data, dtype)

    def settle(self):
        if _is_bf16(self.dtype) and self.data.dtype.kind == "f":
            self.data = round_to_bf16(self.data)

    def convert(self, src, dst_type, *rounding):
        dst = dst_type.scalar
        if src.dtype.scalar.is_fp8() or dst.is_fp8():
            return original_fp_to_fp(self, src, dst_type, *(rounding or (None,)))
        data = src.data.astype(np_dtype(dst))
        if data.dtype == np.float16 and src.data.dtype != np.float16:  # a NaN loses its own bits
            data = np.where(np.isnan(data), NAN_OF_FP16, data)
        return TensorHandle(data, dst)

    def bitcast(self, src, dst_type):
        data = pack_bf16(src.data) if _is_bf16(src.dtype.scalar) else src.data
        if _is_bf16(dst_type.scalar):
            return TensorHandle(unpack_bf16(data.view(np.uint16)), dst_type.scalar)
        return TensorHandle(data.view(np_dtype(dst_type)), dst_type.scalar)

    def fabs(self, arg):
        if _is_bf16(arg.dtype):
            return TensorHandle(np.abs(arg.data), arg.dtype.scalar)
        return original_fabs(self, arg)

    def bf16_constant(self, value):
        return TensorHandle(np.array([value], dtype=np.float32), tl.bfloat16)

    original_fp_to_fp = BUILDER.create_fp_to_fp
    interp._get_np_dtype = np_dtype
    interp._validate_np_data_size = fits
    TensorHandle.__post_init__ = settle
    BUILDER.cast_impl = convert
    BUILDER.create_fp_to_fp = convert
    BUILDER.create_bitcast = bitcast
    BUILDER.create_fabs = fabs
    BUILDER.get_bf16 = bf16_constant


def _mend_scalars() -> None:
    """Scalars as compiled code has them: a float argument is an fp32 scalar, not a Python number.

    A comparison of scalars stays bool when it is broadcast, and a promise about a scalar (tl.assume,
    tl.multiple_of; of a pointer in bytes) that does not hold is the kernel's fault, whatever the
    compiler makes of it.
    """
    original_convert, original_splat = interp._implicit_cvt, BUILDER.create_splat

    def convert(arg):
        if isinstance(arg, float):
            return tl.tensor(TensorHandle(np.array([arg], np.float32), tl.float32), tl.float32)
        return original_convert(arg)

    def splat(self, ret_ty, arg):
        if arg.data.dtype == np.bool_:
            return TensorHandle(np.full(ret_ty.shape, arg.data.reshape(-1)[0]), arg.dtype.scalar)
        return original_splat(self, ret_ty, arg)

    def assume(self, condition):
        if not np.all(condition.data):
            raise AssertionError("tl.assume promises what is not so")

    original_multiple = tl.multiple_of

    def multiple_of(input, values, **named):
        data, factor = input.handle.data, values
        if isinstance(factor, (list, tuple)) and len(factor) == 1:
            factor = factor[0]
        factor = getattr(factor, "value", factor)
        if data.size == 1 and isinstance(factor, int) and int(data.reshape(-1)[0]) % factor:
            raise AssertionError(f"tl.multiple_of promises a multiple of {factor}, which is not so")
        return original_multiple(input, values, **named)

    tl.multiple_of = tl.core.multiple_of = multiple_of
    interp._implicit_cvt = convert
    BUILDER.create_splat = splat
    BUILDER.create_assume = assume


def _mend_dot() -> None:
    """tl.dot through fp32 BLAS: the same products, summed in fp32, some ten times faster.

    With a narrower accumulator the block's product is rounded to it, as a tensor core would; and
    TF32, fp32's default, has fp32's exponent and no more than the upper bits of its mantissa.
    BF16x3 makes three products of two bf16 halves of each fp32 number, which keep 16 of its 24
    bits; what TF32x3 and BF16x6 lose is too little to tell from another order of the sum.
    """
    original = BUILDER.create_dot
    small = (np.float16, np.float32)

    def upper(data: np.ndarray, bits: int) -> np.ndarray:
        return (data.view(np.uint32) & np.uint32(bits)).view(np.float32)

    def halves(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        high = round_to_bf16(data)
        with np.errstate(invalid="ignore"):  # the lower half of an infinity is NaN
            return high, round_to_bf16(data - high)

    def multiply(a: np.ndarray, b: np.ndarray, precision: str | None) -> np.ndarray:
        fp32 = a.dtype == b.dtype == np.float32
        a, b = (np.ascontiguousarray(data, np.float32) for data in (a, b))
        if precision == "TF32":
            return np.matmul(upper(a, 0xFFFFE000), upper(b, 0xFFFFE000))
        if precision == "BF16x3" and fp32:
            (a, a_low), (b, b_low) = halves(a), halves(b)
            low = np.matmul(a, b_low) + np.matmul(a_low, b)
            return np.matmul(a, b) + np.where(np.isnan(low), 0, low)  # as the compiler does
        return np.matmul(a, b)

    def dot(self, a, b, d, *options):
        if a.data.dtype not in small or b.data.dtype not in small or d.data.dtype.kind != "f":
            return original(self, a, b, d, *options)
        precision = options[0] if options else None
        product = multiply(a.data, b.data, getattr(precision, "name", precision))
        return TensorHandle(product.astype(d.data.dtype) + d.data, d.dtype.scalar)

    BUILDER.create_dot = dot


def _mend_reductions() -> None:
    """tl.reduce and tl.associative_scan call the combining function on whole blocks, not on numbers.

    A block of n takes log2(n) calls: a reduction joins neighbours until one is left, a scan joins
    each element with what stands 1, 2, 4, ... places before it. Both keep the order of operands,
    and all blocks keep sizes that are powers of two.
    """

    def combined(self, left, right, types):
        """The function on two tuples of arrays, in the interpreter's form: arrays of these types."""
        blocks = [self.to_tensor(d, t) for d, t in zip([*left, *right], types * 2, strict=True)]
        results = self.combine_fn.rewrite()(*blocks)
        results = results if isinstance(results, (tuple, tl.core.tuple)) else (results,)
        arrays = []
        for result, data in zip(results, left, strict=True):
            new = result.handle.data if isinstance(result, tl.tensor) else np.asarray(result)
            arrays.append(np.broadcast_to(new, data.shape).astype(data.dtype))
        return arrays

    def reduce(self, input):
        types = [arg.dtype for arg in input]
        axis, shape = self.axis, input[0].handle.data.shape
        arrays = [arg.handle.data.reshape(-1) if axis is None else arg.handle.data for arg in input]
        arrays = [np.moveaxis(data, axis or 0, 0) for data in arrays]
        while len(arrays[0]) > 1:
            left, right = [d[0::2] for d in arrays], [d[1::2] for d in arrays]
            arrays = combined(self, left, right, types)
        arrays = [data[0] for data in arrays]
        if self.keep_dims and axis is None:
            arrays = [data.reshape((1,) * len(shape)) for data in arrays]
        elif self.keep_dims:
            arrays = [np.expand_dims(data, axis) for data in arrays]
        return [self.to_tensor(*one) for one in zip(arrays, types, strict=True)]

    def scan(self, input):
        types = [arg.dtype for arg in input]
        arrays = [np.moveaxis(arg.handle.data, self.axis, 0) for arg in input]
        step = 1
        while step < len(arrays[0]):
            earlier = [np.roll(data, step, axis=0) for data in arrays]
            joined = combined(self, earlier, arrays, types)
            for new, data in zip(joined, arrays, strict=True):
                new[:step] = data[:step]
            arrays = joined
            step *= 2
        arrays = [np.moveaxis(data, 0, self.axis) for data in arrays]
        return [self.to_tensor(*one) for one in zip(arrays, types, strict=True)]

    interp.ReduceOps.generic_reduce = reduce
    interp.ScanOps.generic_scan = scan


def _mend_histogram() -> None:
    """tl.histogram counts in int32 whatever it is given, and a value without a bin has no say.

    What becomes of such a value is nobody's promise: up to Triton 3.8 its low bits alone are looked
    at, so it is counted in some bin, here as well. (Left to itself the interpreter would count a
    value of exactly num_bins in the last bin, drop the others, and store int64 counts of int64.)
    """

    def histogram(self, data, bins, mask):
        values = data.data if mask is None else data.data[np.asarray(mask.data, bool)]
        counts = np.bincount(values.astype(np.int64) % bins, minlength=bins)
        return TensorHandle(counts.astype(np.int32), tl.int32)

    BUILDER.create_histogram = histogram


class Prepared:
    """Stands for the compiled kernel that `kernel.warmup(...)` gives: to look at, and to launch.

    The figures are plausible ones. As in a compiled kernel the constants are those of the warmup.
    """

    def __init__(self, function, arguments: dict, options: dict):
        self.function = function
        executor = interp.GridExecutor(function.rewrite(), function.arg_names, None)
        self.constants = {n: arguments[n] for n in executor.constexprs if n in arguments}
        self.name = function.__name__
        self.n_regs, self.n_spills, self.n_max_threads = 32, 0, 1024
        self.metadata = types.SimpleNamespace(
            name=self.name,
            shared=1024,
            num_warps=options.get("num_warps", 4),
            num_stages=options.get("num_stages", 3),
            num_ctas=1,
        )

    def _init_handles(self) -> None:
        """A compiled kernel is loaded onto the card here."""

    def __getitem__(self, grid):
        if len(grid) != 3:
            raise TypeError(
                f"a kernel from warmup is launched with a grid of three sizes, not {len(grid)}"
            )

        def launch(*args, stream=None):
            named = dict(zip(self.function.arg_names, args, strict=False)) | self.constants
            self.function.run(grid=grid, warmup=False, **named)

        return launch


def _mend_warmup() -> None:
    original = interp.InterpretedFunction.run

    def run(self, *args, grid, warmup, **kwargs):
        if not warmup:
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        named = {k: v for k, v in kwargs.items() if k in self.arg_names}
        return Prepared(self, dict(zip(self.arg_names, args, strict=False)) | named, kwargs)

    interp.InterpretedFunction.run = run


def _mend_calls(recorder, file: str) -> None:
    """A kernel of `file` that is called like a function is refused where the launcher calls it."""
    original = interp.InterpretedFunction.__call__

    def call(self, *args, **kwargs):
        if not recorder.in_kernel and self.fn.__code__.co_filename == file:
            raise TypeError(hints.launched(self.fn.__name__))
        return original(self, *args, **kwargs)

    interp.InterpretedFunction.__call__ = call


def _record_launches(recorder) -> None:
    """Tell the recorder where a launch and each of its programs begin and end."""
    original_call = interp.GridExecutor.__call__
    original_program = BUILDER.set_grid_idx

    def set_program(self, x, y, z):
        original_program(self, *recorder.begin_program((x, y, z)))

    def call(self, *args, **kwargs):
        kernel = getattr(self.fn, "__name__", "kernel")
        own = {k: v for k, v in kwargs.items() if k in self.arg_names}
        bound = inspect.signature(self.fn).bind_partial(*args, **own)
        bound.apply_defaults()
        names = dict(bound.arguments)
        if callable(self.grid):
            try:
                self.grid = self.grid(dict(names))
            except Exception as error:
                text = hints.grid_function(error, list(names), self.arg_names)
                raise TypeError(text) from error
        self.grid = grid = recorder.grid_for(self.grid)
        recorder.begin_launch(kernel, grid, names, hints.defined(self.fn))
        try:
            with np.errstate(all="ignore"):
                return original_call(self, *args, **kwargs)
        except EndOfLaunch:
            return None
        finally:
            recorder.end_launch()

    # Tensors are on the CPU already: hand them to the kernel as they are, without Triton's detour.
    interp.GridExecutor._init_args_hst = lambda self, args, kwargs: (args, kwargs)
    interp.GridExecutor._restore_args_dev = lambda self, *args: None
    BUILDER.set_grid_idx = set_program
    interp.GridExecutor.__call__ = call


# libdevice functions that numpy or the standard library computes as well. In the interpreter
# the stubs of triton.language.extra.libdevice silently return None.
_UNARY = {
    "abs": np.abs, "fabs": np.abs, "acos": np.arccos, "asin": np.arcsin, "atan": np.arctan,
    "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "floor": np.floor, "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "rint": np.rint, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt,
    "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "fast_expf": np.exp, "fast_tanhf": np.tanh, "fast_logf": np.log,
}  # fmt: skip
_BINARY = {
    "atan2": np.arctan2, "fmod": np.fmod, "pow": np.power, "div_rn": np.divide,
    "hypot": np.hypot, "fast_dividef": np.divide, "fast_powf": np.power,
}  # fmt: skip


def _mend_libdevice() -> None:
    def stand_in(function):
        def call(*args, **kwargs):
            arrays = [a.handle.data if isinstance(a, tl.tensor) else a for a in args]
            first = next(a for a in args if isinstance(a, tl.tensor))
            data = np.asarray(function(*arrays)).astype(first.handle.data.dtype)
            return tl.tensor(TensorHandle(data, first.handle.dtype), first.type)

        return call

    modules = []
    for path in ("libdevice", "cuda.libdevice", "hip.libdevice"):
        try:
            module = __import__(f"triton.language.extra.{path}", fromlist=["_"])
        except ImportError:
            continue
        modules.append(module)
    for module in modules:
        for name, function in (_UNARY | _BINARY).items():
            if hasattr(module, name):
                setattr(module, name, stand_in(function))


def version_note() -> str:
    """The Triton version, for messages."""
    return f"Triton {triton.__version__}"
