"""What the interpreter remembers of a shape is what Triton makes of it, for that shape alone."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl
from grader import quick


@pytest.fixture
def remembered(monkeypatch):
    """The constructors with their memory, for one test."""
    for kind in (tl.block_type, tl.tensor):
        monkeypatch.setattr(kind, "__init__", kind.__init__)
    quick.remember_shapes()


def facts(kind):
    """All that a type knows, and a tensor of it."""
    made = tl.tensor("handle", kind)
    sizes = [(type(size), size.value) for size in made.shape]
    return (
        *(kind.name, str(kind), kind.is_block(), kind.scalar),
        *(list(kind.shape) if kind.is_block() else [], getattr(kind, "numel", 1)),
        *(made.handle, made.type is kind, made.dtype, sizes, made.numel.value),
    )


KINDS = {
    "a block": lambda: tl.block_type(tl.float32, [16, 8]),
    "constexpr": lambda: tl.block_type(tl.int1, [tl.constexpr(16), tl.constexpr(8)]),
    "pointers": lambda: tl.block_type(tl.pointer_type(tl.float16), [8]),
    "another element": lambda: tl.block_type(tl.float32, [8]).with_element_ty(tl.bfloat16),
    "a scalar": lambda: tl.int64,
}


def test_types_and_tensors_are_what_triton_makes(request):
    first = {name: facts(kind()) for name, kind in KINDS.items()}
    request.getfixturevalue("remembered")
    for _ in range(3):
        assert {name: facts(kind()) for name, kind in KINDS.items()} == first


def outcome(shape):
    try:
        return facts(tl.block_type(tl.float32, shape))
    except Exception as error:
        return type(error), str(error)


def test_odd_shapes_are_taken_or_refused_as_before(request):
    odd = ([4.0, 4], [3, 4], [True, 4], [], [4, "4"], [4, 1 << 40], [-4, 4])
    before = [outcome(shape) for shape in odd]
    assert any(isinstance(one[0], type) for one in before)
    request.getfixturevalue("remembered")
    tl.block_type(tl.float32, [4, 4])
    for _ in range(2):
        assert [outcome(shape) for shape in odd] == before


TWO_SHAPES = """
@triton.jit
def kernel(x_ptr, out_ptr, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    for start in range(0, 2):
        rows, cols = tl.arange(0, ROWS) + start * ROWS, tl.arange(0, COLS)
        tile = tl.load(x_ptr + rows[:, None] * COLS + cols[None, :])
        tl.store(out_ptr + rows[:, None] * COLS + cols[None, :], tile.to(tl.float16) + rows[:, None])
        tl.device_assert(tile.shape[0] == ROWS)

def run(x):
    out = torch.empty_like(x, dtype=torch.float16)
    kernel[(1,)](x, out, x.numel(), ROWS=x.shape[0] // 2, COLS=x.shape[1])
    return out
"""


def test_kernels_of_several_shapes_in_one_process(traced):
    run = traced(TWO_SHAPES, "x")
    for shape in ((4, 8), (8, 4), (16, 2), (4, 8)):
        x = torch.arange(32.0).reshape(shape)
        want = (x + torch.arange(shape[0])[:, None]).half()
        assert torch.equal(run(x).out, want)
