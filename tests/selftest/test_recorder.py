"""What the trace lane records about loads, stores and atomics, in numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

F32, I32 = torch.float32, torch.int32

COPY = """
@triton.jit
def kernel(x_ptr, out_ptr, n, SHIFT: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) + SHIFT
    mask = offsets < n
    if MASKED:
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x, mask=mask)
    else:
        x = tl.load(x_ptr + offsets)
        tl.store(out_ptr + offsets, x)

def run(x, programs, shift, masked):
    out = torch.empty_like(x)
    kernel[(programs,)](x, out, x.numel(), SHIFT=shift, MASKED=masked, BLOCK=16)
    return out
"""


@pytest.fixture(scope="module")
def copy(traced):
    return traced(COPY, "x", "programs", "shift", "masked")


def numbers(n, dtype=F32):
    return torch.arange(n, dtype=dtype)


TURNED = """
@triton.jit
def kernel(x_ptr, out_ptr, M, N, TURN: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    if TURN:
        places = rows[None, :] * N + columns[:, None]
        mask = (rows[None, :] < M) & (columns[:, None] < N)
    else:
        places = rows[:, None] * N + columns[None, :]
        mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + places, tl.load(x_ptr + places, mask=mask), mask=mask)

def run(x, turn):
    out = torch.empty_like(x)
    kernel[(1,)](x, out, *x.shape, TURN=turn, BLOCK_M=4, BLOCK_N=16)
    return out
"""


@pytest.mark.parametrize("turn", [False, True])
def test_the_block_has_the_rows_of_the_matrix_first_also_if_the_tile_is_turned(traced, turn):
    seen = traced(TURNED, "x", "turn")(numbers(30).view(3, 10), turn)
    assert seen.launches[0]["block"] == [4, 16]


# ---- out of bounds ------------------------------------------------------------------------------


def test_past_the_end(copy):
    """3 programs of 16 lanes on 40 elements: the last one reads and writes 8 too many."""
    seen = copy(numbers(40), 3, 0, False)
    load, store = seen.outside
    assert load | {"line": 0} == {
        "line": 0,
        "op": "load",
        "buffer": "x",
        "elements": 40,
        "side": "after",
        "program": [2, 0, 0],
        "count": 8,
        "total": 8,
        "programs": 1,
        "distance": 8,
    }
    assert load["line"] == copy.line("tl.load(x_ptr + offsets)")
    assert store == load | {"op": "store", "buffer": "out", "line": copy.lines.index(
        "        tl.store(out_ptr + offsets, x)") + 1}  # fmt: skip
    assert torch.equal(seen.out, numbers(40))  # what is inside was still done


def test_before_the_start(copy):
    """Every block begins 5 elements early; only that of program 0 leaves the tensors."""
    seen = copy(numbers(48), 3, -5, False)
    load, store = seen.outside
    assert (load["side"], load["count"], load["distance"]) == ("before", 5, 5)
    assert load["program"] == store["program"] == [0, 0, 0]
    assert (load["buffer"], store["buffer"]) == ("x", "out")
    assert (seen.coverage[-5:] & 1).tolist() == [0] * 5


def test_many_programs_outside_are_counted_and_the_first_is_named(copy):
    """5 programs of 16 lanes on 32 elements: 2, 3 and 4 have no lane inside."""
    seen = copy(numbers(32), 5, 0, False)
    load = seen.outside[0]
    assert (load["program"], load["count"]) == ([2, 0, 0], 16)
    assert (load["programs"], load["total"], load["distance"]) == (3, 48, 48)


def test_a_mask_keeps_lanes_inside(copy):
    seen = copy(numbers(40), 3, 0, True)
    assert seen.outside == []
    assert seen.hazards == []
    assert torch.equal(seen.out, numbers(40))


def test_a_far_address_is_stopped_too(traced):
    """Element 2^40 would be a segmentation fault."""
    file = traced(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr):
            far = tl.arange(0, 4).to(tl.int64) + 1099511627776
            tl.store(out_ptr + tl.arange(0, 4), tl.load(x_ptr + far))

        def run(x):
            out = torch.empty_like(x)
            kernel[(1,)](x, out)
            return out
        """,
        "x",
    )
    seen = file(numbers(4))
    assert seen.error is None
    assert [(e["op"], e["count"]) for e in seen.outside] == [("load", 4)]


def test_how_far_a_load_reaches(traced):
    """Four rows of 16 lanes, all in the same 10 elements; then 8 lanes that lie 5 apart."""
    file = traced(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, STEP: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
            rows, cols = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
            x = tl.load(x_ptr + rows * 0 + cols * STEP, mask=cols < 10, other=0.0)
            tl.store(out_ptr, tl.sum(x))

        def run(x, step, rows, cols):
            out = torch.empty(1)
            kernel[(1,)](x, out, STEP=step, ROWS=rows, COLS=cols)
            return out
        """,
        *("x", "step", "rows", "cols"),
    )
    tile, spread = file(numbers(40), 1, 4, 16), file(numbers(40), 5, 1, 8)
    assert (tile.launches[0]["loads"]["x"], tile.launches[0]["reach"]["x"]) == ([4, 16], 10)
    assert spread.launches[0]["reach"]["x"] == 8


# ---- written, masked off, written twice ---------------------------------------------------------


def test_elements_that_nobody_writes(copy):
    seen = copy(numbers(40), 2, 0, True)
    assert (seen.coverage & 1).tolist() == [1] * 32 + [0] * 8
    assert seen.out[32:].isnan().all()
    (launch,) = seen.launches
    assert (launch["grid"], launch["programs"], launch["block"]) == ([2, 1, 1], 2, [16])
    assert launch["most"] == {"out": 16}


def test_elements_that_a_mask_drops(traced):
    """The mask stops 2 elements short: they are pointed at, and not written."""
    file = traced(
        COPY.replace("offsets < n", "offsets < n - 2"), *"x programs shift masked".split()
    )
    seen = file(numbers(40), 3, 0, True)
    assert seen.coverage[-3:].tolist() == [1, 2, 2]


def test_programs_with_nothing_to_do(copy):
    seen = copy(numbers(20), 9, 0, True)
    assert seen.launches[0]["idle"] == 7  # programs 2 to 8


def test_elements_written_twice(traced):
    """Blocks half a block apart: 3 programs write 0-15, 8-23 and 16-31."""
    source = COPY.replace("tl.program_id(0) * BLOCK", "tl.program_id(0) * (BLOCK // 2)")
    names = "x programs shift masked".split()
    seen = traced(source, *names)(numbers(32), 3, 0, True)
    assert (seen.coverage >> 2).tolist() == [0] * 8 + [1] * 16 + [0] * 8
    buffer = next(b for b in seen.buffers if b["name"] == "out")
    assert (buffer["twice"], buffer["conflicts"]) == (16, 0)  # the same values each time
    source = source.replace("offsets, x, mask", "offsets, x + tl.program_id(0), mask")
    seen = traced(source, *names)(numbers(32), 3, 0, True)
    assert next(b for b in seen.buffers if b["name"] == "out")["conflicts"] == 16


def test_lanes_of_one_store_that_collide(traced):
    file = traced(
        """
        @triton.jit
        def kernel(out_ptr):
            offsets = tl.arange(0, 16)
            tl.store(out_ptr + offsets // 4, offsets)

        def run(x):
            out = torch.empty_like(x)
            kernel[(1,)](out)
            return out
        """,
        "x",
    )
    (hazard,) = file(numbers(4, I32)).hazards
    assert (hazard["kind"], hazard["buffer"], hazard["count"]) == ("collision", "out", 12)
    assert hazard["line"] == file.line("tl.store")


def test_lanes_that_store_the_same_to_one_element_do_not_collide(traced):
    """Columns that wrap around are stored again, with the same values."""
    file = traced(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, n):
            offsets = tl.arange(0, 16) % n
            tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))

        def run(x):
            out = torch.empty_like(x)
            kernel[(1,)](x, out, x.numel())
            return out
        """,
        "x",
    )
    assert file(numbers(5)).hazards == []


def test_what_masks_of_loads_leave_out(traced):
    """A last element that no load reads, though lanes point to it; another load reads one of two."""
    file = traced(
        """
        @triton.jit
        def kernel(x_ptr, y_ptr, out_ptr, n):
            offsets = tl.arange(0, 8)
            x = tl.load(x_ptr + offsets, mask=offsets < n - 1)
            y = tl.load(y_ptr + offsets, mask=offsets < n - 2) + tl.load(y_ptr + n - 1)
            tl.store(out_ptr + offsets, x + y, mask=offsets < n)

        def run(x, y):
            out = torch.empty_like(x)
            kernel[(1,)](x, y, out, x.numel())
            return out
        """,
        "x",
        "y",
    )
    dropped = {b["name"]: b["dropped"] for b in file(numbers(7), numbers(7)).buffers}
    assert dropped == {"x": 1, "y": 1, "out": 0}


def test_what_pytorch_writes_over_is_no_kernels_work(traced):
    """The kernel writes 4 elements; 3 of them are copied over, one of these is written once more."""
    file = traced(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, n):
            offsets = tl.arange(0, 4)
            x = tl.load(x_ptr + offsets, mask=offsets < n)
            tl.store(out_ptr + offsets, x, mask=offsets < n)

        def run(x):
            out = torch.empty_like(x)
            kernel[(1,)](x, out, 4)
            out[:3].copy_(x[:3])
            kernel[(1,)](x, out, 1)
            return out
        """,
        "x",
    )
    seen = file(numbers(4))
    assert (seen.coverage & 1).tolist() == [1, 0, 0, 1]
    assert next(b for b in seen.buffers if b["name"] == "out")["overwritten"] == 2


def test_a_block_of_equal_addresses_and_values_is_no_collision_of_programs(traced):
    """A scalar store of every program to its own element."""
    file = traced(
        """
        @triton.jit
        def kernel(out_ptr):
            pid = tl.program_id(0)
            tl.store(out_ptr + pid, pid)

        def run(x):
            out = torch.empty_like(x)
            kernel[(x.numel(),)](out)
            return out
        """,
        "x",
    )
    seen = file(numbers(4, I32))
    assert seen.hazards == []
    assert seen.coverage.tolist() == [1] * 4


# ---- reads of what is not there -----------------------------------------------------------------


def test_reading_what_another_program_writes(traced):
    """Each program reads its left neighbour's element of the result: 3 of 4 have one."""
    file = traced(
        """
        @triton.jit
        def kernel(out_ptr):
            pid = tl.program_id(0)
            before = tl.load(out_ptr + pid - 1, mask=pid > 0, other=0)
            tl.store(out_ptr + pid, before + 1)

        def run(x):
            out = torch.empty_like(x)
            kernel[(x.numel(),)](out)
            return out
        """,
        "x",
    )
    seen = file(numbers(4, I32))
    (race,) = [h for h in seen.hazards if h["kind"] == "race"]
    assert (race["buffer"], race["count"], race["program"]) == ("out", 3, [1, 0, 0])
    assert race["line"] == file.line("before = tl.load")


def test_reading_what_a_later_program_writes(traced):
    """Each program reads its right neighbour's zero, here always before the neighbour adds to it."""
    file = traced(
        """
        @triton.jit
        def kernel(out_ptr, n):
            pid = tl.program_id(0)
            after = tl.load(out_ptr + pid + 1, mask=pid + 1 < n, other=0)
            own = tl.load(out_ptr + pid)
            tl.store(out_ptr + pid, own + after + 1)

        def run(x):
            out = torch.zeros_like(x)
            kernel[(x.numel(),)](out, x.numel())
            return out
        """,
        "x",
    )
    seen = file(numbers(4, I32))
    (race,) = [h for h in seen.hazards if h["kind"] == "race"]
    assert (race["buffer"], race["count"], race["program"]) == ("out", 3, [1, 0, 0])
    assert race["line"] == file.line("tl.store")


def test_a_second_launch_may_read_what_the_first_wrote(traced):
    file = traced(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr):
            offsets = tl.arange(0, 8)
            tl.store(out_ptr + offsets, tl.load(x_ptr + 7 - offsets))

        def run(x):
            between, out = torch.empty_like(x), torch.empty_like(x)
            kernel[(1,)](x, between)
            kernel[(1,)](between, out)
            return out
        """,
        "x",
    )
    seen = file(numbers(8))
    assert seen.hazards == []
    assert len(seen.launches) == 2
    assert torch.equal(seen.out, numbers(8))


def test_reading_new_memory_before_anyone_writes_it(traced):
    file = traced(
        """
        @triton.jit
        def kernel(out_ptr):
            offsets = tl.arange(0, 8)
            tl.store(out_ptr + offsets, tl.load(out_ptr + offsets) + 1)

        def run(x, zeroed):
            out = torch.zeros_like(x) if zeroed else torch.empty_like(x)
            kernel[(1,)](out)
            return out
        """,
        "x",
        "zeroed",
    )
    seen = file(numbers(8), False)
    assert [(h["kind"], h["count"]) for h in seen.hazards] == [("uninitialised", 8)]
    assert seen.out.isnan().all()
    seen = file(numbers(8), True)
    assert seen.hazards == []
    assert seen.out.tolist() == [1.0] * 8


def test_new_memory_is_not_named_like_an_input(traced):
    """The result comes first, where the kernel expects x."""
    source = COPY.replace("](x, out, x", "](out, x, x")
    seen = traced(source, "x", "programs", "shift", "masked")(numbers(16), 1, 0, False)
    (hazard,) = seen.hazards
    assert (hazard["kind"], hazard["buffer"]) == ("uninitialised", "the new tensor at x_ptr")
    assert [b["written"] for b in seen.buffers if b["name"] == "x"] == [16]


# ---- other ways to memory -----------------------------------------------------------------------


def test_atomics_of_many_programs_are_no_race(traced):
    file = traced(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr):
            pid = tl.program_id(0)
            tl.atomic_add(out_ptr + pid % 2, tl.load(x_ptr + pid))

        def run(x):
            out = torch.zeros(2, dtype=x.dtype)
            kernel[(x.numel(),)](x, out)
            return out
        """,
        "x",
    )
    seen = file(numbers(6))
    assert seen.out.tolist() == [6.0, 9.0]  # 0 + 2 + 4 and 1 + 3 + 5
    assert seen.hazards == []
    assert seen.launches[0]["atomics"] == 6
    assert seen.coverage.tolist() == [1, 1]


def test_an_atomic_beside_a_plain_store(traced):
    """Program `first` sets the counter that all of them add to: nobody knows what comes first."""
    file = traced(
        """
        @triton.jit
        def kernel(x_ptr, out_ptr, first, BLOCK: tl.constexpr):
            offsets = tl.arange(0, BLOCK)
            if tl.program_id(0) == first:
                tl.store(out_ptr + offsets, tl.zeros((BLOCK,), tl.float32))
            tl.atomic_add(out_ptr + offsets, tl.load(x_ptr + offsets))

        def run(x, programs, first):
            out = torch.zeros_like(x)
            kernel[(programs,)](x, out, first, BLOCK=x.numel())
            return out
        """,
        "x",
        "programs",
        "first",
    )
    seen = file(numbers(8), 3, 0)
    (race,) = seen.hazards
    assert (race["kind"], race["buffer"], race["count"]) == ("race", "out", 16)
    assert race["line"] == file.line("tl.atomic_add")
    assert file(numbers(8), 1, 0).hazards == []
    assert file(numbers(8), 3, -1).hazards == []
    assert seen.launches[0]["block"] == [8]  # an atomic shows the block as a store does


SHARED = """
@triton.jit
def acquire(lock_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass

@triton.jit
def kernel(x_ptr, out_ptr, lock_ptr, n):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid)
    {before}
    tl.store(out_ptr, tl.load(out_ptr) + x)
    {after}

def run(x):
    out, lock = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    kernel[(x.numel(),)](x, out, lock, x.numel())
    return out
"""
RELEASE = "tl.atomic_xchg(lock_ptr, 0)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("while tl.atomic_cas(lock_ptr, 0, 1) == 1: pass", RELEASE),
        ("while tl.atomic_xchg(lock_ptr, 1) != 0: pass", "tl.store(lock_ptr, 0)"),
        ("acquire(lock_ptr)", RELEASE),
        ("old = tl.atomic_cas(lock_ptr, 0, 1)\n    while old != 0:\n"
         "        old = tl.atomic_cas(lock_ptr, 0, 1)", RELEASE),
        ("free = tl.atomic_cas(lock_ptr, 0, 1) == 0\n    busy = free == 0\n    while busy:\n"
         "        busy = tl.atomic_cas(lock_ptr, 0, 1) != 0", RELEASE),
        ("while tl.load(lock_ptr, volatile=True) != pid: pass", "tl.atomic_add(lock_ptr, 1)"),
    ],
)  # fmt: skip
def test_under_a_lock_programs_may_share(traced, before, after):
    seen = traced(SHARED.format(before=before, after=after), "x")(numbers(5))
    assert seen.out.tolist() == [10.0]
    # Turns are taken in the order in which programs run here; program 0 waits for nobody.
    assert [h for h in seen.hazards if h["kind"] == "race"] == []
    assert [b["conflicts"] for b in seen.buffers if b["name"] == "out"] == [0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tl.atomic_xchg(lock_ptr, 1)", RELEASE),
        ("old = tl.atomic_cas(lock_ptr, 0, 1)", RELEASE),
        ("tl.atomic_add(lock_ptr, 1)", ""),
        ("tl.atomic_add(out_ptr, 0.0)", ""),
        ("", "while tl.atomic_cas(lock_ptr, 0, 1) == 1: pass\n    " + RELEASE),
        ("k = 0\n    while k < tl.load(x_ptr): k += 1", "tl.atomic_add(lock_ptr, 1)"),
        ("if pid == 2:\n        acquire(lock_ptr)", "tl.atomic_xchg(lock_ptr, 0)"),
    ],
)
def test_an_atomic_that_keeps_nobody_waiting_is_no_lock(traced, before, after):
    seen = traced(SHARED.format(before=before, after=after), "x")(numbers(5))
    assert "race" in {h["kind"] for h in seen.hazards}


def test_the_last_program_to_arrive_may_read_what_all_wrote(traced):
    source = """
        @triton.jit
        def kernel(x_ptr, part_ptr, out_ptr, count_ptr, N: tl.constexpr):
            pid = tl.program_id(0)
            tl.store(part_ptr + pid, tl.load(x_ptr + pid) * 2)
            arrived = tl.atomic_add(count_ptr, 1) + 1
            if {last}:
                tl.store(out_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, N))))

        def run(x):
            out, count = torch.empty(1), torch.zeros(1, dtype=torch.int32)
            kernel[(x.numel(),)](x, torch.empty_like(x), out, count, N=x.numel())
            return out
        """
    seen = traced(source.format(last="arrived == N"), "x")(numbers(4))
    assert (seen.out.tolist(), seen.hazards) == ([12.0], [])
    seen = traced(source.format(last="pid == N - 1"), "x")(numbers(4))
    assert [h["kind"] for h in seen.hazards] == ["race"]


def test_an_atomic_out_of_bounds(traced):
    file = traced(
        """
        @triton.jit
        def kernel(out_ptr):
            offsets = tl.arange(0, 8)
            tl.atomic_add(out_ptr + offsets, 1.0)
            tl.atomic_cas(out_ptr + tl.program_id(0) + 9, 0.0, 1.0)

        def run(x):
            out = torch.zeros_like(x)
            kernel[(1,)](out)
            return out
        """,
        "x",
    )
    seen = file(numbers(6))
    assert [(e["op"], e["count"]) for e in seen.outside] == [("atomic", 2), ("atomic", 1)]
    assert seen.out.tolist() == [1.0] * 6


BLOCKS = """
@triton.jit
def by_pointer(x_ptr, out_ptr, M, N, CHECK: tl.constexpr):
    at = (tl.program_id(0) * 8, tl.program_id(1) * 16)
    x = tl.make_block_ptr(x_ptr, (M, N), (N, 1), at, (8, 16), (1, 0))
    out = tl.make_block_ptr(out_ptr, (M, N), (N, 1), at, (8, 16), (1, 0))
    if CHECK:
        tl.store(out, tl.load(x, boundary_check=(0, 1)), boundary_check=(0, 1))
    else:
        tl.store(out, tl.load(x))

@triton.jit
def by_descriptor(x_ptr, out_ptr, M, N, CHECK: tl.constexpr):
    row, col = tl.program_id(0) * 8, tl.program_id(1) * 16
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [8, 16])
    out = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [8, 16])
    out.store([row, col], x.load([row, col]))

def run(x, way, check):
    M, N = x.shape
    out = torch.empty_like(x)
    kernel = by_pointer if way == "block pointer" else by_descriptor
    kernel[(triton.cdiv(M, 8), triton.cdiv(N, 16))](x, out, M, N, CHECK=check)
    return out
"""


@pytest.fixture(scope="module")
def blocks(traced):
    return traced(BLOCKS, "x", "way", "check")


BLOCK_POINTERS = pytest.mark.skipif(
    "have been removed" in (tl.make_block_ptr.__doc__ or ""), reason="this Triton has none"
)


@pytest.mark.parametrize("way", [pytest.param("block pointer", marks=BLOCK_POINTERS), "descriptor"])
def test_two_dimensional_blocks_stay_inside_and_cover(blocks, way):
    x = torch.arange(20 * 36, dtype=F32).reshape(20, 36)
    seen = blocks(x, way, True)
    assert seen.outside == []
    assert torch.equal(seen.out, x)
    assert (seen.coverage & 5 == 1).all()  # written, and once
    (launch,) = seen.launches
    assert (launch["grid"], launch["block"]) == ([3, 3, 1], [8, 16])


@BLOCK_POINTERS
def test_a_block_pointer_without_boundary_check(blocks):
    """20 rows: the last tiles of 8 hang over by 4. Program ids are those of both axes."""
    seen = blocks(torch.zeros(20, 32), "block pointer", False)
    load = next(e for e in seen.outside if e["op"] == "load")
    assert (load["buffer"], load["side"], load["program"]) == ("x", "after", [2, 0, 0])
    assert (load["count"], load["total"], load["programs"]) == (64, 128, 2)
    assert load["line"] == blocks.line("tl.store(out, tl.load(x))")


def test_bytes_and_sites(copy):
    """40 fp32 elements, once in and once out; 48 lanes of which 40 are active."""
    seen = copy(numbers(40), 3, 0, True)
    buffers = {b["name"]: b for b in seen.buffers}
    assert (buffers["x"]["loaded_bytes"], buffers["out"]["stored_bytes"]) == (160, 160)
    assert (buffers["x"]["read"], buffers["out"]["written"]) == (40, 40)
    assert {s["op"]: (s["lanes"], s["active"]) for s in seen.sites} == {
        "load": (48, 40),
        "store": (48, 40),
    }


def test_the_line_is_the_learners_own_inside_a_device_function(traced):
    file = traced(
        """
        @triton.jit
        def put(pointer, value):
            tl.store(pointer, value)

        @triton.jit
        def kernel(out_ptr):
            put(out_ptr + tl.arange(0, 8), 1.0)

        def run(x):
            out = torch.empty_like(x)
            kernel[(1,)](out)
            return out
        """,
        "x",
    )
    (event,) = file(numbers(6)).outside
    assert event["line"] == file.line("tl.store(pointer, value)")


def test_a_launch_that_is_made_to_run_on_a_larger_grid(copy):
    seen = copy(numbers(48), 1, 0, True, grid=[3])
    assert (seen.coverage & 1).all()
    assert seen.launches[0]["grid"] == [3, 1, 1]


def test_a_grid_of_absurd_size_is_not_counted(copy):
    error = copy(numbers(16), 10**400, 0, True).error
    assert "at most 2,147,483,647 programs along its axis 0" in error["message"]


def test_a_grid_that_no_card_can_launch_is_refused(traced):
    source = COPY.replace("program_id(0)", "program_id(1)").replace(
        "[(programs,)]", "[(1, programs)]"
    )
    copy = traced(source, "x", "programs", "shift", "masked")
    assert copy(numbers(16), 65_535, 0, True).error is None
    error = copy(numbers(16), 65_536, 0, True).error
    assert "at most 65,535 programs along its axis 1, this one has 65,536" in error["message"]


def test_thousands_of_idle_programs_are_not_all_run(copy):
    seen = copy(numbers(16), 100_000, 0, True)
    assert seen.launches[0]["programs"] == 100_000
    assert seen.launches[0]["idle"] == 99_999


def test_idle_programs_with_wide_blocks_end_a_launch_sooner(traced):
    """65,536 lanes each: the limit on lanes is met long before that on programs."""
    wide = traced(COPY.replace("BLOCK=16", "BLOCK=65536"), "x", "programs", "shift", "masked")
    seen = wide(numbers(8), 100_000, 0, True)
    assert seen.launches[0]["idle"] == 99_999
    assert sum(site["lanes"] for site in seen.sites) < 200 * (1 << 16)


def test_a_few_idle_programs_in_a_row_do_not_end_a_launch(copy):
    """Programs 1 to 63 have nothing to do, and yet all of them are run."""
    seen = copy(numbers(8), 64, 0, True)
    assert seen.launches[0]["idle"] == 63
    assert sum(s["lanes"] for s in seen.sites if s["op"] == "store") == 64 * 16


@pytest.mark.parametrize("programs", [300, 1900])
def test_programs_that_are_idle_before_the_first_one_works_do_not_end_a_launch(traced, programs):
    """Reversed: the last program takes the first elements."""
    source = COPY.replace("tl.program_id(0) *", "(tl.num_programs(0) - 1 - tl.program_id(0)) *")
    wide = traced(source.replace("BLOCK=16", "BLOCK=1024"), "x", "programs", "shift", "masked")
    seen = wide(numbers(1500), programs, 0, True)
    assert (seen.coverage & 1).all()
    assert seen.launches[0]["idle"] == programs - 2


def test_a_sample_of_the_programs(copy):
    """Two of 100 programs run and the last; the grid, what they write and store are told."""
    seen = copy(numbers(1600), 100, 0, True, sample=2)
    (launch,) = seen.launches
    assert (launch["grid"], launch["programs"]) == ([100, 1, 1], 100)
    assert (launch["ran"], launch["cut"], launch["idle"]) == (3, False, 0)
    assert launch["widest"] == {"out": 16}
    written = [*range(32), *range(1584, 1600)]
    assert (seen.coverage & 1).nonzero().flatten().tolist() == written
    assert seen.out[written].tolist() == written


def test_a_grid_smaller_than_the_sample(copy):
    (launch,) = copy(numbers(16), 1, 0, True, sample=2).launches
    assert (launch["ran"], launch["cut"]) == (1, False)


def test_what_neighbours_of_a_sample_load_together(traced):
    """A grid of 3 x 4 of which 5 programs run, the first axis fastest as on a card: x by its rows."""
    file = traced(
        """
        @triton.jit
        def kernel(x_ptr, y_ptr, out_ptr):
            row, col, lanes = tl.program_id(0), tl.program_id(1), tl.arange(0, 8)
            x = tl.load(x_ptr + row * 8 + lanes) + tl.load(y_ptr + col * 8 + lanes)
            out_ptrs = out_ptr + (row * 4 + col) * 8 + lanes
            tl.store(out_ptrs, x)
            tl.store(out_ptrs, x + tl.load(y_ptr + 24 + lanes))

        def run(x, y):
            out = torch.empty(96)
            kernel[(3, 4)](x, y, out)
            return out
        """,
        *("x", "y"),
    )
    (launch,) = file(numbers(24), numbers(32), sample=5).launches
    together = [(seen["x"], seen["y"]) for seen in launch["gathered"]]
    assert together == [(8, 8), (16, 8), (24, 8), (24, 16), (24, 16)]
    assert file(numbers(24), numbers(32)).launches[0]["gathered"] == []


def test_a_sample_that_takes_too_long_is_cut_short(traced):
    file = traced(
        """
        @triton.jit
        def kernel(out_ptr, n):
            for i in range(n):
                tl.store(out_ptr + i, 1.0)

        def run(x):
            out = torch.empty_like(x)
            kernel[(3,)](out, x.numel())
            return out
        """,
        "x",
    )
    (launch,) = file(numbers(100_000), sample=2).launches
    assert (launch["ran"], launch["cut"]) == (1, True)
