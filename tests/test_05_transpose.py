"""Kata 5, transpose: `transpose(x)`, a tile at a time, coalesced on both sides."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.reasons import Wrong
from grader.run import Run

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
I8, I16, I32, I64 = torch.int8, torch.int16, torch.int32, torch.int64
BITS = {F16: I16, BF16: I16, F32: I32}  # whole numbers of the same size


def inputs(draw, R, C, dtype=F32, layout="contiguous", bits=False):
    if dtype.is_floating_point and not bits:
        return [draw.normal((R, C), dtype, layout=layout)]
    whole = BITS.get(dtype, dtype)
    half = 2 ** (8 * whole.itemsize - 2)
    x = draw.integers((R, C), whole, -2 * half, 2 * half - 1, layout=layout)
    if dtype in BITS:  # any bits at all: infinities, -0, NaN with a payload, numbers close to 0
        x = x.view(dtype)
        x.view(whole)[0, :3] = torch.tensor([0, -2 * half, 1], dtype=whole)
    # A bf16 NaN loses its payload in Triton's interpreter, whatever the kernel does.
    return [torch.where(x.isnan(), -x.new_zeros(()), x) if dtype == BF16 else x]


def side(block):
    """The longer side of the kernel's own tile, within reason: vectors may be long."""
    return 16 if min(block) == 1 else min(max(32, *block), 128)


def sizes(rows, cols, more_rows=0, more_cols=0):
    return dict(
        R=lambda block: rows * side(block) + more_rows,
        C=lambda block: cols * side(block) + more_cols,
    )


def tiles_kept(x):
    """Tiles of 64 x 64 in their new places, each as it was."""
    rows, cols = (n // 64 for n in x.shape)
    return x.reshape(rows, 64, cols, 64).permute(2, 1, 0, 3).reshape(cols * 64, rows * 64)


KATA = Kata(
    launcher="transpose",
    parameters=("x",),
    inputs=inputs,
    reference=lambda x: x.T.clone(),
    bound=lambda want, x: torch.zeros_like(want),
    result=lambda x: [((x.shape[1], x.shape[0]), x.dtype)],
    widen=lambda block, x: tuple(-(-n // min(block)) for n in x.shape),
    cost=lambda x: Cost(x.nbytes, x.nbytes),
    baseline=lambda x: x.t().contiguous(),
    speed_case=dict(R=16384, C=8192),
    bench_sizes=tuple(dict(R=2**e, C=4096) for e in range(12, 17)),
    figures=(dict(R=4096, C=4096), dict(R=16384, C=8192)),
    usual_block=(32, 32),
    suspects=(
        ("values", "Tiles are in their places, but each is as it was.", tiles_kept),
        ("values", "The numbers are in the order of x.", lambda x: x.reshape(x.shape[::-1])),
        ("values", "This is x turned by a quarter.", lambda x: x.rot90(1)),
        ("values", "This is x turned by a quarter.", lambda x: x.rot90(-1)),
    ),
    show=sizes(1, 1, 16, 12),
    cases=(
        case("probe", R=70, C=40),
        case("full", **sizes(1, 2)),
        case("full", **sizes(3, 1)),
        case("full", **sizes(1, 1)),
        case("ragged", R=70, C=40),
        case("ragged", **sizes(1, 2, 1, -1)),
        case("ragged", **sizes(1, 1, -1, 5)),
        case("ragged", R=1, C=200),
        case("ragged", R=200, C=1),
        case("ragged", R=7, C=133),
        case("strided", **sizes(1, 2), layout="spread"),
        case("strided", **sizes(2, 1), layout="transposed"),
        case("strided", **sizes(1, 2), layout="padded"),
        case("strided", **sizes(1, 2), layout="shifted"),
        case("strided", **sizes(1, 2), layout="one row"),
        case("strided", **sizes(2, 1), layout="one column"),
        case("strided", **sizes(1, 2), layout="columns apart"),
        case("strided", **sizes(1, 1), layout="transposed"),
        case("strided", R=1, C=200, layout="spread"),
        case("strided", R=200, C=1, layout="padded"),
        *(case("bits", **sizes(1, 2), dtype=t, bits=True) for t in (F32, F16, BF16)),
        *(case("bits", **sizes(1, 2), dtype=t) for t in (I8, I32, I64)),
        case("many", R=lambda block: min(100 * side(block), 1500 * min(block)) - 3, C=3),
        case("many", R=3, C=lambda block: min(60 * side(block), 1500 * min(block))),
        case("sample", R=1100, C=1000),
        case("sample", R=520, C=2100, layout="transposed"),
        case("sample", R=520, C=2100, layout="padded"),
        case("edge", R=0, C=64),
        case("edge", R=8, C=0),
        case("edge", R=1, C=1),
        case("edge", R=1, C=1, dtype=I64),
        case("edge", R=5, C=5, dtype=I8),
        case("edge", R=35, C=17, dtype=BF16, layout="transposed"),
        case("edge", R=17, C=35, dtype=F16, layout="spread"),
        case("edge", R=17, C=35, dtype=I64, layout="padded"),
        case("again", R=40, C=30),
        case("tuned", R=40, C=30),
        case("compile", R=2048, C=512),
        case("compile", R=1000, C=90, dtype=F16),
        case("compile", R=512, C=512, dtype=I64, layout="transposed"),
    ),
)


@check("grid", points=10)
def test_grid(kernel):
    """A program for every tile, along both axes."""
    checks.grid(kernel)


@check("offsets", points=15)
def test_offsets(kernel):
    """Each program works on its own tile."""
    checks.offsets(kernel)


@check("mask", points=15)
def test_mask(kernel):
    """Tiles at both edges stay inside, and one row or one column is done too."""
    checks.mask(kernel)


@check("values", points=15)
def test_values(kernel):
    """Element [j, i] of the result is x[i, j]."""
    checks.each(kernel.trace("full"), lambda run: reads_x(run, "values"))
    checks.values(kernel)


def reads_x(run: Run, cause: str) -> None:
    """The kernel itself reads x, and no copy of it."""
    run.kernel_ran()
    x = next(b for b in run.facts["buffers"] if b["name"] == "x")
    copies = (b for b in run.facts["buffers"] if b["kind"] == "copy" and b["loaded_bytes"])
    if not x["loaded_bytes"] or any(copies):
        raise Wrong(f"no kernel reads x itself, but a copy of it ({run.label})", cause)


@check("layout", points=10)
def test_strides(kernel):
    """x is read through its two strides, where it lies."""

    def ask(run: Run) -> None:
        reads_x(run, "layout")
        got, x = run.got(), run.arguments[0]
        written = (run.coverage() & 1).bool()
        if not bool(written.any()):
            raise Wrong(f"nothing is written ({run.label})", "layout")
        if not bool(torch.isin(got[written], x.unique()).all()):
            raise Wrong(f"numbers arrive that are not in x, but beside it ({run.label})", "layout")

    checks.each(kernel.trace("strided"), ask)
    if checks.values_hold(kernel):
        checks.group(kernel, "strided", "layout")


@check("precision", points=5)
def test_bits(kernel):
    """Every dtype arrives bit by bit."""
    checks.needs_values(kernel, "precision")

    def ask(run: Run) -> None:
        run.keeps_contract()
        got, want = (t.view(BITS.get(t.dtype, t.dtype)) for t in (run.got(), run.arguments[0]))
        wrong = (got != want.T) & (run.coverage() & 1).bool()
        if bool(wrong.any()):
            raise Wrong(
                f"{int(wrong.sum()):,} elements differ in some bit ({run.label})", "precision"
            )

    checks.each(kernel.trace("bits"), ask)


@check("layout", points=5, lane="compile")
def test_coalesced(kernel):
    """Neighbours are read and written together, on both sides.

    A tile with two sides is good: along which of them threads are laid out is the compiler's choice,
    for the load and for the store by itself, and it converts between the two. Where all blocks are
    vectors or single numbers, a thread must move several neighbours at once on both sides.
    """
    checks.compiled_launches(kernel)
    for launch in kernel.compiled()[0]["launches"]:
        if launch["layouts"] is None or not launch["target"].startswith("sm_"):
            continue
        tiled = any(sum(n > 1 for n in b["shape"]) > 1 for b in launch["layouts"])
        single = [a for a in launch["accesses"] or () if (a["bits"] or 64) <= 32]
        if single and not tiled:
            verb = "reads" if single[0]["op"] == "load" else "writes"
            raise Wrong(
                f"tl.{single[0]['op']} {verb} single elements far apart: a GPU moves 32 bytes for "
                "each. Give a program a tile with two sides, and it has neighbours both ways",
                "layout",
                single[0]["line"],
            )
    checks.needs_values(kernel, "layout")
    checks.needs(kernel, "strided", "layout", "layout")


@check("robust", points=5)
def test_contract(kernel):
    """Any size, strides and dtype of the contract, also on a second call."""
    checks.contract(kernel)


@check("robust", points=5, lane="compile")
def test_compiles(kernel):
    """The compiler accepts the kernel for every chip."""
    checks.compiles(kernel)


@check("robust", points=5, lane="gpu")
def test_on_the_card(kernel):
    """On a real card, between guard bands: every case is right and stays inside."""
    checks.on_gpu(kernel)


@check("speed", points=10, lane="gpu")
def test_speed(kernel):
    """At least 0.8 of the reference solution's speed, in one run."""
    checks.speed(kernel)
