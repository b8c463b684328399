"""The trace lane computes what the hardware would, where the bare interpreter does not."""

from __future__ import annotations

import math
import time

import pytest
import torch
import triton.runtime.interpreter as interp
from grader.interpreter import pack_bf16, round_to_bf16, unpack_bf16

OPERATIONS = """
from triton.language.extra import libdevice

@triton.jit
def doubled(x):
    return x + x

@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    if OP == "add":
        r = x + y
    elif OP == "subtract":
        r = x - y
    elif OP == "multiply":
        r = x * y
    elif OP == "divide":
        r = x / y
    elif OP == "add a number":
        r = x + 0.1
    elif OP == "negate":
        r = -x
    elif OP == "absolute":
        r = tl.abs(x)
    elif OP == "maximum":
        r = tl.maximum(x, y)
    elif OP == "where":
        r = tl.where(x > y, x, y * 2)
    elif OP == "exp":
        r = tl.exp(x.to(tl.float32)).to(tl.bfloat16)
    elif OP == "cast":
        r = x.to(tl.bfloat16)
    elif OP == "cast up":
        r = x.to(tl.float32)
    elif OP == "cast to int":
        r = x.to(tl.int32)
    elif OP == "bits":
        r = x.to(tl.int16, bitcast=True)
    elif OP == "from bits":
        r = x.to(tl.bfloat16, bitcast=True)
    elif OP == "device function":
        r = doubled(x)
    elif OP == "store":
        r = x
    elif OP == "running sum":
        r = tl.cumsum(x, 0)
    elif OP == "flip":
        r = tl.flip(x, 0)
    elif OP == "softmax":
        r = tl.softmax(x)
    elif OP == "sigmoid":
        r = tl.sigmoid(x)
    elif OP == "sort":
        r = tl.sort(x)
    elif OP == "erf":
        r = libdevice.erf(x)
    elif OP == "tanh":
        r = libdevice.tanh(x)
    elif OP == "pow":
        r = libdevice.pow(x, y)
    elif OP == "methods":
        r = x.exp().log2().rsqrt()
    elif OP == "methods of the library":
        r = x - x.max() + x.sum(axis=0) + x.min(axis=0, keep_dims=True) + x.cumsum(0) + x.sigmoid()
    elif OP == "rsqrt":
        r = libdevice.rsqrt(x)
    elif OP == "log1p":
        r = libdevice.log1p(x)
    elif OP == "sum":
        r = tl.zeros((BLOCK,), x.dtype) + tl.sum(x, 0)
    elif OP == "largest":
        r = tl.zeros((BLOCK,), x.dtype) + tl.max(x, 0)
    elif OP == "smallest":
        r = tl.zeros((BLOCK,), x.dtype) + tl.min(x, 0)
    elif OP == "place of the largest":
        r = tl.zeros((BLOCK,), tl.int32) + tl.argmax(x, 0)
    elif OP == "cdiv":
        r = tl.zeros((BLOCK,), tl.int32) + tl.cdiv(n, 3)
    elif OP == "loop variable":
        r = tl.zeros((BLOCK,), tl.int64)
        for i in range(0, n):
            r += i.to(tl.int64)
    elif OP == "loop variable type":
        r = tl.zeros((BLOCK,), tl.int32)
        for i in range(tl.program_id(0), tl.cdiv(n, 2)):
            r += i.to(tl.int32) * 10
    elif OP == "loop variable of the language":
        r = tl.zeros((BLOCK,), tl.int64)
        for i in tl.range(tl.program_id(0), n, num_stages=2):
            r += i.to(tl.int64)
    elif OP == "masked without other":
        r = tl.load(x_ptr + offsets, mask=offsets < 2)
    tl.store(out_ptr + offsets, r, mask=mask)

def run(x, y, op, dtype, block):
    out = torch.empty(x.shape, dtype=getattr(torch, dtype))
    kernel[(1,)](x, y, out, x.numel(), OP=op, BLOCK=block)
    return out
"""
B16, F32, I32 = torch.bfloat16, torch.float32, torch.int32


@pytest.fixture(scope="module")
def calculate(traced):
    """calculate(op, x, y): what the trace lane makes of an operation on two blocks."""
    file = traced(OPERATIONS, "x", "y", "op", "dtype", "block")

    def call(op, x, y=None, dtype=None):
        dtype = str(dtype or x.dtype).removeprefix("torch.")
        seen = file(x, x if y is None else y, op, dtype, max(16, x.numel()))
        assert seen.error is None, seen.error
        return seen.out

    return call


@pytest.fixture(scope="module")
def pair():
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randn(64, generator=generator) * 3 for _ in "xy")
    return x.to(B16), y.to(B16)


# ---- bf16, bit for bit as PyTorch rounds it ----------------------------------------------------


@pytest.mark.parametrize(
    ("op", "formula"),
    [
        ("add", lambda x, y: x + y),
        ("subtract", lambda x, y: x - y),
        ("multiply", lambda x, y: x * y),
        ("negate", lambda x, y: -x),
        ("absolute", lambda x, y: x.abs()),
        ("maximum", torch.maximum),
        ("where", lambda x, y: torch.where(x > y, x, y * 2)),
        ("device function", lambda x, y: x + x),
        ("exp", lambda x, y: x.exp()),
    ],
)
def test_bf16_arithmetic_rounds_to_nearest(calculate, pair, op, formula):
    assert torch.equal(calculate(op, *pair), formula(*pair))


def test_bf16_by_hand(calculate):
    """1 + 2^-9 lies half way between two neighbours and goes to the even one; 3 * 2^-9 goes up."""
    one = torch.ones(4, dtype=B16)
    small = torch.tensor([2**-9, 2**-8, 3 * 2**-9, 2**-7], dtype=B16)
    assert calculate("add", one, small).tolist() == [1.0, 1.0, 1.0078125, 1.0078125]


def test_fp32_stored_or_cast_as_bf16_is_rounded_not_cut(calculate):
    x = torch.randn(512, generator=torch.Generator().manual_seed(1))
    x[:6] = torch.tensor([math.inf, -math.inf, math.nan, 3.4e38, 1e-40, -0.0])
    want = x.to(B16)
    for op in ("store", "cast"):
        got = calculate(op, x, dtype=B16)
        assert torch.equal(got.isnan(), want.isnan())
        keep = ~want.isnan()
        assert torch.equal(got[keep].view(torch.int16), want[keep].view(torch.int16))


def test_bf16_becomes_fp32_int_and_bits(calculate, pair):
    x, _ = pair
    assert torch.equal(calculate("cast up", x, dtype=F32), x.float())
    assert torch.equal(calculate("cast to int", x, dtype=I32), x.to(I32))
    assert torch.equal(calculate("bits", x, dtype=torch.int16), x.view(torch.int16))
    assert torch.equal(calculate("from bits", x.view(torch.int16), dtype=B16), x)


def test_int_becomes_bf16(calculate):
    x = torch.tensor([0, 1, -3, 257, 1000, 65_537], dtype=I32)
    assert torch.equal(calculate("cast", x, dtype=B16), x.to(B16))


def test_bf16_reductions_of_whole_numbers_are_exact(calculate):
    x = torch.tensor([5, -3, 8, 1, 7, -2, 4, 6], dtype=B16)
    assert calculate("sum", x)[0] == 26
    assert calculate("largest", x)[0] == 8
    assert calculate("smallest", x)[0] == -3


@pytest.fixture
def dot(traced):
    """A function of two 16 x 16 tensors: tl.dot with this option, as text."""

    def file(told: str):
        return traced(
            f"""
            @triton.jit
            def kernel(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
                i = tl.arange(0, N)
                at = i[:, None] * N + i[None, :]
                c = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at){told})
                tl.store(c_ptr + at, c)

            def run(a, b):
                c = torch.empty(a.shape, dtype=torch.float32)
                kernel[(1,)](a, b, c, N=16)
                return c
            """,
            *("a", "b"),
        )

    return file


@pytest.mark.parametrize(("option", "kept"), [("", False), ('"ieee"', True), ('"tf32x3"', True)])
def test_fp32_dot_is_tf32_unless_told_otherwise(dot, option, kept):
    """1 + 2^-12 has two bits more than TF32 has; the sum and fp16 are left alone."""
    file = dot(f", input_precision={option}" if option else "")
    a, b = torch.full((16, 16), 1 + 2.0**-12), torch.eye(16)
    assert torch.equal(file(a, b).out, a if kept else torch.ones(16, 16))
    half = (a - 1).half()
    assert torch.equal(file(half, b.half()).out, half.float())


def test_bf16x3_keeps_two_bf16_of_a_number(dot):
    """1 + 2^-9 + 2^-18 takes three bf16; infinity and fp16 are left alone."""
    file = dot(', input_precision="bf16x3"')
    a, b = torch.full((16, 16), 1 + 2.0**-9), torch.eye(16)
    assert torch.equal(file(a, b).out, a)
    assert torch.equal(file(a + 2.0**-18, b).out, a)
    a[0, 0] = math.inf
    assert file(a, torch.ones(16, 16)).out[0, 0] == math.inf
    half = torch.full((16, 16), 1 + 2.0**-10).half()
    assert torch.equal(file(half, half.T).out, 16 * half.float() ** 2)


def test_bf16_dot_sums_in_fp32(traced):
    file = traced(
        """
        @triton.jit
        def kernel(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
            i = tl.arange(0, N)
            at = i[:, None] * N + i[None, :]
            c = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at))
            tl.store(c_ptr + at, c)

        def run(a, b):
            c = torch.empty(a.shape, dtype=torch.float32)
            kernel[(1,)](a, b, c, N=32)
            return c
        """,
        *"ab",
    )
    generator = torch.Generator().manual_seed(5)
    a, b = (torch.randn(32, 32, generator=generator).to(B16) for _ in "ab")
    want = a.double() @ b.double()
    assert (file(a, b).out.double() - want).abs().max() < 1e-5  # bf16 would err by 0.02


def test_packing_agrees_with_torch_on_every_kind_of_number():
    x = torch.randn(10_000, generator=torch.Generator().manual_seed(2)) * 1e3
    x[:5] = torch.tensor([math.inf, -math.inf, 0.0, -0.0, 1e-42])
    bits = x.to(B16).view(torch.int16).numpy().view("uint16")
    assert (pack_bf16(x.numpy()) == bits).all()
    assert (unpack_bf16(bits) == x.to(B16).float().numpy()).all()
    assert (round_to_bf16(x.numpy()) == x.to(B16).float().numpy()).all()


# ---- the language's own library, loops, masks ---------------------------------------------------


@pytest.mark.parametrize(
    ("op", "want"),
    [
        ("sum", 10.0),
        ("largest", 4.0),
        ("smallest", 0.0),  # the padding of the block
        ("place of the largest", 3),
        ("cdiv", 2),
        ("loop variable", 6),
        ("loop variable of the language", 6),
        ("loop variable type", 10),
    ],
)
def test_library_function_or_loop(calculate, op, want):
    dtype = {"place of the largest": I32, "cdiv": I32, "loop variable": torch.int64}
    dtype["loop variable of the language"] = torch.int64
    dtype["loop variable type"] = I32
    got = calculate(op, torch.tensor([1.0, 2.0, 3.0, 4.0]), dtype=dtype.get(op))
    assert got.tolist() == [want] * 4


@pytest.mark.parametrize(
    ("op", "formula"),
    [
        ("running sum", lambda x, y: x.cumsum(0)),
        ("flip", lambda x, y: x.flip(0)),
        ("softmax", lambda x, y: x.softmax(0)),
        ("sigmoid", lambda x, y: x.sigmoid()),
        ("sort", lambda x, y: x.sort().values),
        ("erf", lambda x, y: x.erf()),
        ("tanh", lambda x, y: x.tanh()),
        ("pow", torch.pow),
        ("methods", lambda x, y: x.exp().log2().rsqrt()),
        (
            "methods of the library",
            lambda x, y: x - x.max() + x.sum() + x.min() + x.cumsum(0) + x.sigmoid(),
        ),
        ("rsqrt", lambda x, y: x.rsqrt()),
        ("log1p", lambda x, y: x.log1p()),
        ("divide", lambda x, y: x / y),
        ("add a number", lambda x, y: x + 0.1),
    ],
)
def test_library_function_on_a_block(calculate, op, formula):
    x = torch.linspace(0.25, 4, 16)[torch.randperm(16, generator=torch.Generator().manual_seed(4))]
    y = torch.linspace(1, 2, 16)
    torch.testing.assert_close(calculate(op, x, y), formula(x, y), rtol=2e-6, atol=1e-6)


def test_lanes_masked_off_without_other_are_no_convenient_zeros(calculate):
    got = calculate("masked without other", torch.tensor([1.0, 2.0, 3.0]))
    assert got[:2].tolist() == [1.0, 2.0]
    assert got[2].isnan()
    got = calculate("masked without other", torch.tensor([1, 2, 3], dtype=I32))
    assert got[2] not in (0, 3)


def test_a_single_lane_masked_off_reads_what_other_says(traced):
    """A zero is something to read, and no mask of False is no mask at all."""
    run = traced(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, LANES: tl.constexpr):
            lane = tl.arange(0, LANES)
            one = tl.load(x_ptr, mask=tl.program_id(0) > 0, other=0.0)
            tl.store(out_ptr + lane, tl.load(x_ptr + lane, mask=lane < 0, other=0.0) + one)
            tl.store(out_ptr + LANES, 5.0, mask=tl.program_id(0) > 0)
            tl.store(out_ptr + LANES, 7.0, mask=tl.program_id(0) == 0)

        def run(x):
            out = torch.empty(2, device=x.device)
            kernel[(1,)](x, out, LANES=1)
            return out
        """,
        "x",
    )
    assert run(torch.tensor([3.0])).out.tolist() == [0.0, 7.0]


def test_a_grid_may_be_a_list_or_computed_from_arguments(traced):
    file = traced(
        """
        @triton.jit
        def kernel(out_ptr, n, BLOCK: tl.constexpr):
            offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out_ptr + offsets, offsets, mask=offsets < n)

        def run(x, how):
            out = torch.empty_like(x)
            n = x.numel()
            grid = {
                "list": [triton.cdiv(n, 4)],
                "function": lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),),
                "float": (n / 4,),
                "four": (1, 1, 1, 1),
                "number": 3,
            }[how]
            kernel[grid](out, n, BLOCK=4)
            return out
        """,
        "x",
        "how",
    )
    x = torch.zeros(10, dtype=I32)
    for how in ("list", "function"):
        assert file(x, how).out.tolist() == list(range(10))
    assert "which divides and rounds up, not (2.5,)" in file(x, "float").error["message"]
    assert (
        "a grid must be a tuple of whole numbers such as (3,), not 3"
        in file(x, "number").error["message"]
    )
    assert "one, two or three dimensions, not 4" in file(x, "four").error["message"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("no argument", "a grid function takes one argument"),
        ("wrong name", "the grid function asks for meta['BLOCKS']"),
        ("attribute", "must ask for meta['BLOCK']"),
        ("its own", "the grid function raises ValueError: nothing to do"),
    ],
)
def test_a_grid_function_that_fails_names_its_line_and_what_there_is(traced, how, said):
    file = traced(
        """
        @triton.jit
        def kernel(out_ptr, n, BLOCK: tl.constexpr):
            tl.store(out_ptr + tl.arange(0, BLOCK), 0)

        def refuse(meta):
            raise ValueError("nothing to do")  # its own

        def run(x, how):
            if how == "no argument":
                grid = lambda: (1,)
                kernel[grid](x, 4, BLOCK=4)  # no argument
            if how == "wrong name":
                grid = lambda meta: (triton.cdiv(4, meta["BLOCKS"]),)  # wrong name
            if how == "attribute":
                grid = lambda meta: (triton.cdiv(4, meta.BLOCK),)  # attribute
            if how == "its own":
                grid = refuse
            kernel[grid](x, 4, BLOCK=4)
            return x
        """,
        *("x", "how"),
    )
    error = file(torch.zeros(4, dtype=I32), how).error
    assert said in error["message"]
    assert how == "its own" or "meta holds out_ptr, n, BLOCK" in error["message"]
    assert error["line"] == file.line(f"# {how}")


def test_a_kernel_from_warmup_can_be_looked_at_and_launched(traced):
    file = traced(
        """
        from triton.runtime import driver

        DEVICE = driver.active.get_active_torch_device()
        CARD = driver.active.utils.get_device_properties(DEVICE.index)
        BACKEND = driver.active.get_current_target().backend

        @triton.jit
        def kernel(out_ptr, n, BLOCK: tl.constexpr):
            pid = tl.program_id(0)
            for start in tl.range(pid * BLOCK, n, tl.num_programs(0) * BLOCK):
                offsets = start + tl.arange(0, BLOCK)
                tl.store(out_ptr + offsets, offsets, mask=offsets < n)

        def run(x, how):
            out = torch.empty_like(x)
            ready = kernel.warmup(out, x.numel(), BLOCK=16, num_warps=8, grid=(1,))
            ready._init_handles()
            a_program = 8 * ready.n_regs * CARD["warpSize"]
            programs = CARD["max_num_regs"] // a_program
            programs = min(programs, CARD["max_shared_mem"] // ready.metadata.shared)
            programs = min(CARD["multiprocessor_count"] * programs, 3)
            assert BACKEND == "cuda" and ready.n_spills == 0
            if how == "all":
                ready[(programs, 1, 1)](out, x.numel(), 16)
            elif how == "without constants":
                ready[(programs, 1, 1)](out, x.numel())
            else:
                ready[(programs,)](out, x.numel(), 16)
            return out
        """,
        "x",
        "how",
    )
    x = torch.zeros(100, dtype=I32)
    for how in ("all", "without constants"):
        seen = file(x, how)
        assert seen.error is None, seen.error
        assert seen.out.tolist() == list(range(100))
        assert [launch["grid"] for launch in seen.launches] == [[3, 1, 1]]
    assert "three sizes" in file(x, "one size").error["message"]


def test_an_error_in_a_kernel_names_its_line(traced):
    file = traced(
        """
        @triton.jit
        def kernel(out_ptr):
            numbers = tl.arange(0, 3)
            tl.store(out_ptr + numbers, numbers)

        def run(x):
            kernel[(1,)](x)
            return x
        """,
        "x",
    )
    error = file(torch.zeros(4, dtype=I32)).error
    assert error["where"] == "kernel"
    assert error["line"] == file.line("tl.arange(0, 3)")
    assert "power of two" in error["message"]


LOGIC = """
@triton.jit
def kernel(x_ptr, out_ptr, n, OP: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    if OP == "and":
        mask = i < 3 and x > 1
    elif OP == "or":
        mask = (i < 3) or (x > 3)
    elif OP == "not":
        mask = not (i < 3)
    elif OP == "three":
        mask = i > 0 and not (x > 4) and i < n
    elif OP == "a constant that says nothing":
        mask = WIDE and i < 3
    elif OP == "a constant that decides":
        mask = not WIDE and tl.load(x_ptr + 1000) > 0
    elif OP == "scalars":
        mask = i < (3 if n > 2 and n < 100 else 0)
    elif OP == "largest":
        mask = max(x, 3) > 3
    elif OP == "numbers":
        mask = i < min(max(n, 3), 4)
    elif OP == "chain":
        mask = 0 <= i < n
    elif OP == "if":
        mask = i < 3
        if mask:
            mask = i < 2
    tl.store(out_ptr + i, tl.where(mask, 1, 0))

def run(x, op):
    out = torch.empty_like(x)
    kernel[(1,)](x, out, x.numel(), OP=op, WIDE=True, BLOCK=8)
    return out
"""


@pytest.fixture(scope="module")
def logic(traced):
    return traced(LOGIC, "x", "op")


@pytest.mark.parametrize(
    ("op", "want"),
    [
        ("and", [0, 0, 1, 0, 0, 0, 0, 0]),
        ("or", [1, 1, 1, 0, 1, 1, 1, 1]),
        ("not", [0, 0, 0, 1, 1, 1, 1, 1]),
        ("three", [0, 1, 1, 1, 1, 0, 0, 0]),
        ("a constant that says nothing", [1, 1, 1, 0, 0, 0, 0, 0]),
        ("a constant that decides", [0] * 8),
        ("scalars", [1, 1, 1, 0, 0, 0, 0, 0]),
        ("largest", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("numbers", [1, 1, 1, 1, 0, 0, 0, 0]),
    ],
)
def test_logic_between_blocks_works_lane_by_lane(logic, op, want):
    """As in compiled code, where Python would ask a whole block for one truth value."""
    seen = logic(torch.arange(8, dtype=I32), op)
    assert seen.error is None, seen.error
    assert seen.out.tolist() == want
    assert not seen.outside


@pytest.mark.parametrize(
    ("op", "line", "said"),
    [("chain", "0 <= i < n", "cannot be chained"), ("if", "if mask:", "no single truth value")],
)
def test_what_the_compiler_refuses_of_logic_is_refused(logic, op, line, said):
    error = logic(torch.arange(8, dtype=I32), op).error
    assert said in error["message"]
    assert error["line"] == logic.line(line)


REDUCTIONS = """
@triton.jit
def plus(a, b):
    return a + b

@triton.jit
def later(a, b):
    return b

@triton.jit
def affine(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2

@triton.jit
def further(v1, i1, v2, i2):
    keep = (v1 > v2) or (v1 == v2 and i1 < i2)
    return tl.where(keep, v1, v2), tl.where(keep, i1, i2)

@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    i = tl.arange(0, R)[:, None]
    j = tl.arange(0, C)[None, :]
    x = tl.load(x_ptr + i * C + j)
    y = tl.load(y_ptr + i * C + j)
    if OP == "rows":
        r = tl.reduce(x, 1, plus)[:, None]
    elif OP == "columns":
        r = tl.reduce(x, 0, plus, keep_dims=True)
    elif OP == "all":
        r = tl.reduce(x, None, plus)
    elif OP == "all kept":
        r = tl.reduce(x, None, plus, keep_dims=True)
    elif OP == "order":
        r = tl.reduce(x, 1, later)[:, None]
    elif OP == "pair":
        v, at = tl.reduce((x, j + i * 0), 1, further)
        r = (v + at.to(tl.float32))[:, None]
    elif OP == "scan":
        r = tl.associative_scan(x, 1, plus)
    elif OP == "scan down":
        r = tl.associative_scan(x, 0, plus)
    elif OP == "scan back":
        r = tl.associative_scan(x, 1, plus, reverse=True)
    elif OP == "recurrence":
        _, r = tl.associative_scan((x, y), 1, affine)
    elif OP == "scan of one":
        r = tl.associative_scan(tl.sum(x, 1)[:, None], 1, plus)
    tl.store(out_ptr + i * C + j, (x * 0 + r).to(x.dtype))

def run(x, y, op):
    out = torch.empty_like(x)
    kernel[(1,)](x, y, out, OP=op, R=x.shape[0], C=x.shape[1])
    return out
"""


@pytest.fixture(scope="module")
def reduction(traced):
    return traced(REDUCTIONS, "x", "y", "op")


def recurrence(x, y):
    rows = [y[:, 0]]
    for j in range(1, x.shape[1]):
        rows.append(rows[-1] * x[:, j] + y[:, j])
    return torch.stack(rows, 1)


@pytest.mark.parametrize("dtype", [F32, B16])
@pytest.mark.parametrize(
    ("op", "formula"),
    [
        ("rows", lambda x, y: x.sum(1, keepdim=True)),
        ("columns", lambda x, y: x.sum(0, keepdim=True)),
        ("all", lambda x, y: x.sum()),
        ("all kept", lambda x, y: x.sum()),
        ("order", lambda x, y: x[:, -1:]),
        ("pair", lambda x, y: x.amax(1, keepdim=True) + x.argmax(1, keepdim=True)),
        ("scan", lambda x, y: x.cumsum(1)),
        ("scan down", lambda x, y: x.cumsum(0)),
        ("scan back", lambda x, y: x.flip(1).cumsum(1).flip(1)),
        ("recurrence", recurrence),
        ("scan of one", lambda x, y: x.sum(1, keepdim=True)),
    ],
)
def test_reductions_and_scans_with_a_function_of_ones_own(reduction, op, formula, dtype):
    generator = torch.Generator().manual_seed(6)
    x, y = (torch.randint(-2, 3, (4, 8), generator=generator).to(dtype) for _ in "xy")
    seen = reduction(x, y, op)
    assert seen.error is None, seen.error
    assert torch.equal(seen.out, formula(x, y).expand(4, 8))


def test_reducing_a_wide_block_takes_few_calls(traced):
    file = traced(
        """
        @triton.jit
        def plus(a, b):
            return a + b

        @triton.jit
        def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            x = tl.load(x_ptr + i)
            tl.store(out_ptr + i, tl.associative_scan(x, 0, plus) + tl.reduce(x, 0, plus))

        def run(x):
            out = torch.empty_like(x)
            kernel[(1,)](x, out, BLOCK=x.numel())
            return out
        """,
        "x",
    )
    x = torch.ones(1 << 16)
    start = time.perf_counter()
    assert file(x).out[-1] == 2 << 16
    assert time.perf_counter() - start < 5  # one call a number takes a minute


# ---- atomics ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def atomics(traced):
    return traced(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, n, OP: tl.constexpr, BINS: tl.constexpr, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + i, mask=i < n)
            if OP == "add":
                tl.atomic_add(out_ptr + i % BINS, x, mask=i < n)
            elif OP == "before":
                tl.store(out_ptr + i, tl.atomic_add(x_ptr + i, x, mask=i < n), mask=i < n)
            elif OP == "outside":
                tl.atomic_add(out_ptr + i, x)
            else:
                new = tl.max(x, 0).to(x.dtype)
                tl.atomic_cas(out_ptr + tl.program_id(0), tl.zeros((), x.dtype), new)

        def run(x, op, bins):
            out = torch.zeros(bins, dtype=x.dtype)
            kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), OP=op, BINS=bins, BLOCK=16)
            return out
        """,
        *("x", "op", "bins"),
    )


@pytest.mark.parametrize("dtype", [F32, B16, torch.float16])
class TestAtomics:
    def test_lanes_that_share_an_address_are_added_one_after_another(self, atomics, dtype):
        x = torch.randn(77, generator=torch.Generator().manual_seed(8)).to(dtype)
        want = torch.zeros(4, dtype=dtype)
        for i, value in enumerate(x):
            want[i % 4] += value  # rounded every time
        seen = atomics(x, "add", 4)
        assert torch.equal(seen.out, want)
        assert (seen.coverage & 1).all()

    def test_the_value_before_is_returned(self, atomics, dtype):
        x = torch.arange(1, 33).to(dtype)
        assert torch.equal(atomics(x, "before", 32).out, x)

    def test_addresses_are_those_of_the_elements(self, atomics, dtype):
        seen = atomics(torch.ones(20, dtype=dtype), "outside", 20)
        (event,) = seen.outside
        assert (event["buffer"], event["op"], event["count"]) == ("out", "atomic", 12)
        assert event["distance"] == 12

    def test_compare_and_swap(self, atomics, dtype):
        x = torch.arange(32).to(dtype)
        seen = atomics(x, "swap", 3)
        assert seen.error is None, seen.error
        assert seen.out.tolist() == [15, 31, 0]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_histogram(traced, dtype, triton_version):
    """Counts are int32, masked lanes have no say, a value without a bin counts in some bin."""
    file = traced(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, n, BINS: tl.constexpr):
            i = tl.arange(0, 16)
            counts = tl.histogram(tl.load(x_ptr + i), BINS, mask=i < n)
            tl.store(out_ptr + tl.arange(0, BINS), counts + counts)

        def run(x, n):
            out = torch.empty(8, dtype=torch.int32)
            kernel[(1,)](x, out, n, BINS=8)
            return out
        """,
        *("x", "n"),
    )
    x = torch.tensor([0, 1, 1, 7, 7, 7, 3, 0, 8, -1, 2, 2, 2, 2, 2, 2], dtype=dtype)
    seen = file(x, 8)
    if dtype == torch.int64 and triton_version >= (3, 9):
        assert "only supports 32-bit integer input" in seen.error["message"]
        return
    assert seen.out.tolist() == [4, 4, 0, 2, 0, 0, 0, 6]
    assert file(x, 10).out.tolist() == [6, 4, 0, 2, 0, 0, 0, 8]


def test_integers_that_a_load_leaves_undefined(traced):
    """Some are large and some are small: neither a sum nor a check of an index lets all pass."""
    file = traced(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, n):
            i = tl.arange(0, 8)
            tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n))

        def run(x, n):
            out = torch.empty_like(x)
            kernel[(1,)](x, out, n)
            return out
        """,
        *("x", "n"),
    )
    left = file(torch.zeros(8, dtype=torch.int32), 4).out[4:].tolist()
    assert left == [(2**31 - 1) // 3, 1] * 2


# ---- what the project takes from Triton without its leave ---------------------------------------


@pytest.mark.parametrize(
    "name",
    """
    InterpretedFunction GridExecutor TensorHandle _interpreter _get_np_dtype _patch_lang
    _validate_np_data_size interpreter_builder interpreter_semantic
    GridExecutor._init_args_hst GridExecutor._restore_args_dev GridExecutor.__call__
    TensorHandle.__post_init__ FunctionRewriter.ast_transformer ASTTransformer _patch_lang_tensor
    ReduceOps.generic_reduce ScanOps.generic_scan InterpretedFunction.run
    InterpreterBuilder.cast_impl InterpreterBuilder.create_atomic_cas
    InterpreterBuilder.create_atomic_rmw InterpreterBuilder.create_bitcast
    InterpreterBuilder.create_dot InterpreterBuilder.create_fabs
    InterpreterBuilder.create_fp_to_fp InterpreterBuilder.create_masked_load
    InterpreterBuilder.create_histogram InterpreterBuilder.create_masked_store
    InterpreterBuilder.set_grid_idx
    InterpreterBuilder.ir_rmw_op_to_interpreter_rmw_op InterpreterBuilder.ir_sem_to_interpreter_sem
    interpreter_builder.options.sanitize_overflow
    """.split(),
)
def test_private_name_exists_in_this_triton(name):
    owner = interp
    for part in name.split("."):
        owner = getattr(owner, part)


# ---- numbers of a loop, annotations, promises ----------------------------------------------------

COUNTING = """
CE = tl.constexpr

@triton.jit
def kernel(out_ptr, n, HOW: "tl.constexpr", TWO: CE):
    for i in range(0, n, 1):
        if HOW == "//":
            value = (i - 5) // TWO
        elif HOW == "%":
            value = (i - 5) % TWO
        elif HOW == "reversed //":
            value = -(7 // (i + 1) + i)
        elif HOW == "to":
            value = (i * TWO + 1).to(tl.int64)
        elif HOW == "bits":
            value = ~(i << 2) & 12 | i ^ 1
        tl.store(out_ptr + i, value)

def run(x, how):
    out = torch.empty_like(x)
    sizes = [len(range(n)) for n in reversed(range(x.numel()))]
    kernel[(1,)](out, len(sizes), HOW=how, TWO=2)
    return out
"""


@pytest.mark.parametrize(
    ("how", "want"),
    [
        ("//", [-2, -2, -1, -1, 0, 0, 0]),  # towards zero; Python has -3, -2, -2, -1, -1, 0, 0
        ("%", [-1, 0, -1, 0, -1, 0, 1]),
        ("reversed //", [-7, -4, -4, -4, -5, -6, -7]),
        ("to", [1, 3, 5, 7, 9, 11, 13]),
        ("bits", [~(i << 2) & 12 | i ^ 1 for i in range(7)]),
    ],
)
def test_numbers_worked_out_from_a_loop_variable(traced, how, want):
    """As compiled code does; the launcher's own range is Python's, and any annotation counts."""
    seen = traced(COUNTING, "x", "how")(torch.zeros(7, dtype=torch.int32), how)
    assert seen.error is None
    assert seen.out.tolist() == want


@pytest.mark.parametrize(("factor", "held"), [(1, True), (3, True), (2, False)])
def test_a_promise_about_a_scalar_is_held_to(traced, factor, held):
    file = traced(
        """
        @triton.jit
        def kernel(out_ptr, n, FACTOR: tl.constexpr):
            tl.store(out_ptr, tl.multiple_of(n, FACTOR))

        def run(x, factor):
            out = torch.empty_like(x)
            kernel[(1,)](out, x.numel(), FACTOR=factor)
            return out
        """,
        "x",
        "factor",
    )
    error = file(torch.zeros(9, dtype=torch.int32), factor).error
    assert (error is None) == held
    assert held or "tl.multiple_of promises a multiple of 2" in error["message"]
