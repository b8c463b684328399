"""The compile lane: facts about kernels from the real compiler, on a machine without a GPU."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import signal
import textwrap
import time

import pytest
import torch
import triton
from grader import checks, chips, compiling
from grader.compiling import CompileLane
from grader.reasons import Wrong

ALL = ["sm_80", "sm_89", "sm_90", "sm_100", "gfx942"]

HEADER = """
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
"""

_count = itertools.count()


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


@pytest.fixture
def write(tmp_path):
    """Writes a kernel file and imports it; the module knows its lines by text."""

    def write(source: str):
        path = tmp_path / f"kernel_{next(_count)}.py"
        path.write_text(HEADER + textwrap.dedent(source))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        lines = path.read_text().splitlines()
        module.line = lambda text: next(at for at, x in enumerate(lines, 1) if text in x)
        return module

    return write


def compile_all(module, launcher, *args, targets=("sm_80",), **options) -> CompileLane:
    with CompileLane(list(targets), module.__file__, **options) as lane:
        getattr(module, launcher)(*args)
    json.dumps(lane.launches, allow_nan=False)
    return lane


ADD = """
    @triton.jit
    def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask)
        y = tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x + y, mask=mask)

    def add(x, y):
        out = torch.full_like(x, 7.0)
        n = x.numel()
        grid = lambda meta: (triton.cdiv(n, meta["BLOCK_SIZE"]),)
        add_kernel[grid](x, y, out, n, BLOCK_SIZE=1024)
        return out
"""

MATMUL = """
    @triton.jit
    def matmul_kernel(
        a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
        BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, KIND: tl.constexpr,
    ):
        rm = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        rn = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        rk = tl.arange(0, BLOCK_K)
        acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float16 if KIND == "fp16" else tl.float32)
        for k in range(0, K, BLOCK_K):
            a = tl.load(a_ptr + rm[:, None] * stride_am + (k + rk)[None, :] * stride_ak)
            b = tl.load(b_ptr + (k + rk)[:, None] * stride_bk + rn[None, :] * stride_bn)
            if KIND == "fp32":
                acc += tl.dot(a, b)
            elif KIND == "scaled":
                acc = acc * 0.5 + tl.dot(a, b)
            else:
                acc += tl.dot(a, b).to(tl.float16)
        tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc.to(tl.float16))

    def matmul(kind="fp32", block=32, block_k=32, size=256, **options):
        a = torch.zeros(size, size, dtype=torch.float16)
        b, c = a.T, torch.empty_like(a)
        grid = (triton.cdiv(size, block), triton.cdiv(size, block))
        matmul_kernel[grid](
            a, b, c, size, size, size, *a.stride(), *b.stride(), block, block_k, kind, **options
        )
"""


def test_vector_add_on_every_target(write):
    module = write(ADD)
    x = torch.zeros(4096)
    with CompileLane(ALL, module.__file__) as lane:
        out = module.add(x, x)
    assert bool((out == 7).all())  # nothing was run
    assert [entry["target"] for entry in lane.launches] == ALL
    for entry in lane.launches:
        assert entry["ok"] is True, entry["error"]
        assert entry["kernel"] == "add_kernel"
        assert entry["config"] is None
        assert entry["grids"] == [[4, 1, 1]]
        assert entry["launch_line"] == module.line("add_kernel[grid]")
        assert entry["signature"]["x_ptr"] == "*fp32, divisible by 16"
        assert entry["signature"]["BLOCK_SIZE"] == "constexpr 1024"
        assert entry["unread"] == []
        assert entry["tensor_cores"] is False
        assert (entry["shared"], entry["fits"], entry["fits_note"]) == (0, True, None)
        assert entry["spills"] == 0
        assert 0 < entry["registers"] < 64
        assert entry["occupancy"]["share"] == 1.0
        assert {fact["op"] for fact in entry["accesses"]} == {"load", "store"}
        assert {fact["bits"] for fact in entry["accesses"]} == {128}
        assert {fact["line"] for fact in entry["accesses"]} == {
            module.line("x = tl.load"),
            module.line("y = tl.load"),
            module.line("tl.store"),
        }
        assert all(fact["order"] == [0] and fact["type"] == "f32" for fact in entry["layouts"])
        assert len(entry["layouts"]) == 3


def test_a_size_that_is_no_multiple_of_16_narrows_the_loads(write):
    entry = compile_all(write(ADD), "add", torch.zeros(1001), torch.zeros(1001)).launches[0]
    assert {fact["bits"] for fact in entry["accesses"]} == {32}


def test_matrix_units_on_every_target(write):
    lane = compile_all(write(MATMUL), "matmul", "fp32", 64, targets=ALL)
    seen = {entry["target"]: " ".join(entry["mnemonics"]) for entry in lane.launches}
    assert all(entry["tensor_cores"] and entry["fits"] for entry in lane.launches)
    assert "mma.sync" in seen["sm_80"]
    assert "mma.sync" in seen["sm_89"]
    assert "wgmma" in seen["sm_90"]
    assert "tcgen05" in seen["sm_100"]
    assert "mfma" in seen["gfx942"]


@pytest.mark.parametrize(
    ("kind", "type_", "narrowest", "text"),
    [
        ("fp32", "f32", "f32", "acc += tl.dot(a, b)"),
        ("scaled", "f32", "f32", "acc * 0.5"),
        ("fp16", "f16", "f16", "acc += tl.dot(a, b).to(tl.float16)"),
        ("rounded", "f32", "f16", "acc += tl.dot(a, b).to(tl.float16)"),
    ],
)
def test_type_of_the_accumulator(write, kind, type_, narrowest, text):
    module = write(MATMUL)
    entry = compile_all(module, "matmul", kind).launches[0]
    [fact] = entry["accumulators"]
    assert fact == {
        "kind": "carried",
        "update": "dot",
        "type": type_,
        "shape": [32, 32],
        "narrowest": narrowest,
        "line": module.line(text),
        "loop_line": module.line("for k in range"),
    }
    [dot] = entry["dots"]
    assert (dot["a"], dot["b"], dot["result"]) == ("f16", "f16", "f32")
    assert dot["shape"] == [32, 32, 32]
    assert dot["in_loop"] is True
    assert dot["line"] == module.line(text)


def test_accumulators_of_other_loops(write):
    module = write("""
        @triton.jit
        def while_kernel(x_ptr, o_ptr, n):
            r = tl.arange(0, 16)
            acc = tl.zeros((16, 16), tl.float16)
            i = 0
            while i < n:
                x = tl.load(x_ptr + i * 256 + r[:, None] * 16 + r[None, :])
                acc += tl.dot(x, x).to(tl.float16)
                i += 1
            tl.store(o_ptr + r[:, None] * 16 + r[None, :], acc)

        @triton.jit
        def unrolled_kernel(x_ptr, o_ptr):
            r = tl.arange(0, 16)
            written_out = tl.zeros((16, 16), tl.float16)
            for i in tl.static_range(3):
                x = tl.load(x_ptr + i * 256 + r[:, None] * 16 + r[None, :])
                written_out += tl.dot(x, x).to(tl.float16)
            bias = tl.load(x_ptr + r[None, :])
            tl.store(o_ptr + r[:, None] * 16 + r[None, :], written_out + bias)

        @triton.jit
        def two_loops_kernel(x_ptr, o_ptr, n):
            total = 0.0
            for i in range(n):
                total += tl.load(x_ptr + i).to(tl.float32)
            most = tl.full((16,), -1.0, tl.float16)
            for i in range(n):
                most = tl.maximum(most, tl.load(x_ptr + i * 16 + tl.arange(0, 16)))
            tl.store(o_ptr + tl.arange(0, 16), most + total)

        def launch(x):
            while_kernel[(1,)](x, x, 5)
            unrolled_kernel[(1,)](x, x)
            two_loops_kernel[(1,)](x, x, 5)
    """)
    lane = compile_all(module, "launch", torch.zeros(4096, dtype=torch.float16))
    first, second, third = (entry["accumulators"] for entry in lane.launches)
    assert [(f["kind"], f["update"], f["type"], f["shape"]) for f in first] == [
        ("carried", "dot", "f16", [16, 16])
    ]
    assert {(f["kind"], f["update"], f["type"]) for f in second} == {("unrolled", "dot", "f16")}
    assert {f["line"] for f in second} == {module.line("written_out += ")}
    assert [(f["update"], f["type"], f["shape"]) for f in third] == [
        ("add", "f32", []),
        ("max", "f16", [16]),
    ]


def test_type_of_a_reduction(write):
    module = write("""
        @triton.jit
        def total(x):
            return tl.sum(x, axis=0)

        @triton.jit
        def sum_kernel(x_ptr, o_ptr, n):
            x = tl.load(x_ptr + tl.arange(0, 512))
            tl.store(o_ptr, tl.sum(x, axis=0))
            tl.store(o_ptr + 1, tl.sum(x.to(tl.float32), axis=0))
            tl.store(o_ptr + 2, total(x * x))
            tl.store(o_ptr + 3, tl.max(x, axis=0))
            tl.store(o_ptr + 4 + tl.arange(0, 512), tl.cumsum(x.to(tl.float32), axis=0))

        def launch(x):
            sum_kernel[(1,)](x, x, x.numel())
    """)
    entry = compile_all(module, "launch", torch.zeros(2048, dtype=torch.float16)).launches[0]
    seen = [(f["op"], f["type"], f["combine"], f["line"]) for f in entry["reductions"]]
    assert sorted(seen, key=lambda one: one[3]) == [
        ("reduce", "f16", ["addf"], module.line("return tl.sum")),
        ("reduce", "f16", ["addf"], module.line("o_ptr, tl.sum")),
        ("reduce", "f32", ["addf"], module.line("o_ptr + 1")),
        ("reduce", "f32", ["maxnumf"], module.line("o_ptr + 3")),
        ("scan", "f32", ["addf"], module.line("o_ptr + 4")),
    ]
    assert all(f["shape"] == [512] and f["axis"] == 0 for f in entry["reductions"])


TUNED = """
    def set_block(arguments):
        arguments["blocks"].append(arguments["BLOCK_SIZE"])

    configs = [triton.Config({"BLOCK_SIZE": b}, num_warps=w) for b in (64, 128) for w in (2, 4)]
    configs += [triton.Config({"BLOCK_SIZE": 64}, num_warps=2)]

    def prune(configs, arguments, **kwargs):
        return [config for config in configs if config.kwargs["BLOCK_SIZE"] <= arguments["n"]]

    @triton.autotune(configs, key=["n"], prune_configs_by={"early_config_prune": prune},
                     restore_value=["x_ptr"])
    @triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK_SIZE"] == 0})
    @triton.jit
    def scale_kernel(x_ptr, n, BLOCK_SIZE: tl.constexpr, EVEN: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        if EVEN:
            tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)
        else:
            tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, offsets < n) * 2, offsets < n)

    def scale(x):
        n = x.numel()
        scale_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK_SIZE"]),)](x, n)
"""


def test_every_config_of_an_autotuner_is_compiled(write):
    module = write(TUNED)
    lane = compile_all(module, "scale", torch.zeros(192), targets=["sm_80", "gfx942"])
    [tuner] = lane.tuners
    assert tuner["kernel"] == "scale_kernel"
    assert tuner["keys"] == ["n"]
    assert (tuner["total"], tuner["distinct"]) == (5, 4)
    assert tuner["kept"] == [0, 1, 2, 3, 4]
    assert tuner["configs"][1] == {
        "kwargs": {"BLOCK_SIZE": 64},
        "num_warps": 4,
        "num_stages": 3,
    }
    assert all(entry["ok"] for entry in lane.launches)
    seen = [
        (e["target"], e["config"]["kwargs"]["BLOCK_SIZE"], e["num_warps"], e["grids"])
        for e in lane.launches
    ]
    assert sorted(seen) == sorted(
        (target, block, warps, [[-(-192 // block), 1, 1]])
        for target in ("sm_80", "gfx942")
        for block in (64, 128)
        for warps in (2, 4)
    )
    even = {e["signature"]["BLOCK_SIZE"]: e["signature"]["EVEN"] for e in lane.launches}
    assert even == {"constexpr 64": "constexpr True", "constexpr 128": "constexpr False"}


def test_pruned_configs_are_listed_but_not_compiled(write):
    lane = compile_all(write(TUNED), "scale", torch.zeros(64), targets=["sm_80", "gfx942"])
    assert lane.tuners[0]["kept"] == [0, 1, 4]
    assert {e["config"]["kwargs"]["BLOCK_SIZE"] for e in lane.launches} == {64}
    assert len(lane.launches) == 4
    lane = compile_all(
        write(TUNED),
        "scale",
        torch.zeros(64),
        targets=["sm_80", "gfx942"],
        tune_on=["gfx942"],
    )
    assert [(e["target"], e["num_warps"]) for e in lane.launches] == [
        ("sm_80", 2),
        ("gfx942", 2),
        ("gfx942", 4),
    ]


def test_compile_errors_name_the_line(write):
    module = write("""
        @triton.jit
        def helper(x):
            return x + tl.arange(0, 63)

        @triton.jit
        def loop_kernel(x_ptr, n):
            r = tl.arange(0, 16)
            acc = tl.zeros((16, 16), tl.float16)
            for k in range(n):
                x = tl.load(x_ptr + k + r[:, None] * 16 + r[None, :])
                acc += tl.dot(x, x)
            tl.store(x_ptr + r[:, None] * 16 + r[None, :], acc)

        @triton.jit
        def nested_kernel(x_ptr):
            tl.store(x_ptr + helper(tl.program_id(0)), 0.0)

        @triton.jit
        def library_kernel(x_ptr):
            x = tl.load(x_ptr + tl.arange(0, 16))
            tl.store(x_ptr, tl.sum(x, axis=1))

        @triton.jit
        def foreign_kernel(x_ptr):
            x = tl.load(x_ptr + tl.arange(0, 16))
            tl.store(x_ptr + tl.arange(0, 16), torch.softmax(x, 0))

        def launch(x):
            loop_kernel[(1,)](x, 4)
            nested_kernel[(1,)](x)
            library_kernel[(1,)](x)
            foreign_kernel[(1,)](x)
    """)
    lane = compile_all(module, "launch", torch.zeros(512, dtype=torch.float16))
    loop, nested, library, foreign = lane.launches
    assert all(entry["ok"] is False for entry in lane.launches)
    assert loop["error"]["type"] == "CompilationError"
    assert "acc has initial type" in loop["error"]["message"]
    assert "for k in range(n):" in loop["error"]["message"]
    assert loop["error"]["line"] == module.line("for k in range")
    assert "power of two" in nested["error"]["message"]
    assert nested["error"]["line"] == module.line("tl.arange(0, 63)")
    assert "axis" in library["error"]["message"]
    assert library["error"]["line"] == module.line("tl.sum(x, axis=1)")
    assert foreign["error"]["line"] == module.line("torch.softmax")
    assert all(entry["error"]["message"].count("\n") < 20 for entry in lane.launches)
    assert not any("Traceback" in entry["error"]["message"] for entry in lane.launches)


def test_an_error_in_a_kernel_inside_a_function(write):
    module = write("""
        def make():
            @triton.jit
            def inner_kernel(x_ptr):
                tl.store(x_ptr, unknown)
            return inner_kernel

        def launch(x):
            make()[(1,)](x)
    """)
    [entry] = compile_all(module, "launch", torch.zeros(4)).launches
    assert entry["error"]["line"] == module.line("unknown")


def test_shared_memory_over_the_limit(write):
    lane = compile_all(
        write(MATMUL + "    def launch():\n        matmul('fp32', 64, 64, num_stages=8)\n"),
        "launch",
        targets=["sm_89", "sm_90"],
    )
    ada, hopper = lane.launches
    assert ada["ok"] is True
    assert ada["fits"] is False
    assert ada["fits_note"].endswith("of shared memory in one program; sm_89 has 99 KiB")
    assert ada["occupancy"] == {
        "blocks_per_sm": 0,
        "warps_per_sm": 0,
        "share": 0.0,
        "limit": "shared memory",
    }
    assert hopper["fits"] is True
    assert hopper["shared"] > 99 * 1024


def test_a_stride_of_one_becomes_a_constant(write):
    module = write(MATMUL)
    entry = compile_all(module, "matmul").launches[0]
    assert entry["specialised"] == ["stride_ak", "stride_bk"]
    assert entry["signature"]["stride_ak"] == "constexpr 1"
    assert entry["signature"]["stride_am"] == "i32, divisible by 16"
    module = write("""
        @triton.jit
        def copy_kernel(x_ptr, stride, offset):
            r = tl.arange(0, 16) * stride.to(tl.int64)
            tl.store(x_ptr + r, 0.0)

        def launch(x):
            copy_kernel[(1,)](x, x.stride(0), None)
    """)
    [entry] = compile_all(module, "launch", torch.zeros(64)[::3]).launches
    assert entry["ok"] is True
    [entry] = compile_all(module, "launch", torch.zeros(64)).launches
    assert entry["ok"] is False
    assert entry["specialised"] == ["stride", "offset"]
    assert ".to(...) is asked of a plain number" in entry["error"]["message"]
    assert entry["error"]["line"] == module.line("stride.to")


def test_grids(write):
    module = write(
        ADD
        + """
    def launch(x, grid, n=16):
        add_kernel[grid](x, x, x, n, BLOCK_SIZE=16)
    """
    )
    x = torch.zeros(64)

    def grid_of(grid):
        [entry] = compile_all(module, "launch", x, grid, processes=0).launches
        assert entry["ok"] is True
        return entry["grids"], entry["grid_error"]

    assert grid_of([2, 3]) == ([[2, 3, 1]], None)
    assert grid_of((torch.tensor(2), 3, 4)) == ([[2, 3, 4]], None)
    assert grid_of(lambda meta: (meta["BLOCK_SIZE"], meta["n_elements"])) == ([[16, 16, 1]], None)
    assert grid_of((0,)) == ([[0, 1, 1]], None)
    line = module.line("add_kernel[grid](x, x, x, n")
    for grid, kind in [
        (3, "TypeError"),
        ((), "ValueError"),
        ((1.5,), "TypeError"),
        ((1, 1, 1, 1), "ValueError"),
        ((1, 70000), "ValueError"),
        ((-1,), "ValueError"),
        (lambda meta: (meta["NO_SUCH"],), "TypeError"),
    ]:
        grids, error = grid_of(grid)
        assert grids == []
        assert (error["type"], error["line"]) == (kind, line)
    assert "the grid function asks for meta['NO_SUCH']; meta holds" in error["message"]


def test_arguments_that_cannot_be_bound(write):
    module = write(
        ADD
        + """
    def launch(x):
        add_kernel[(1,)](x, x, x, BLOCK_SIZE=16)
        add_kernel[(1,)](x, x, x, 16, BLOCK_SIZE=16, NO_SUCH=1)
        add_kernel[(1,)](x, x, x, 16, BLOCK_SIZE=16)
    """
    )
    missing, extra, right = compile_all(module, "launch", torch.zeros(64)).launches
    assert missing["signature"] is None
    assert "the launch must give 'n_elements' a value" in missing["error"]["message"]
    assert missing["error"]["line"] == module.line("add_kernel[(1,)](x, x, x, BLOCK_SIZE=16)")
    assert "NO_SUCH" in extra["error"]["message"]
    assert extra["error"]["line"] == module.line("NO_SUCH=1")
    assert right["ok"] is True


def test_equal_launches_are_one_entry(write):
    module = write(
        ADD
        + """
    def launch(x):
        for n in (32, 64, 96, 17, 1):
            add_kernel[(n,)](x, x, x, n, BLOCK_SIZE=16)
    """
    )
    lane = compile_all(module, "launch", torch.zeros(256))
    assert [entry["signature"]["n_elements"] for entry in lane.launches] == [
        "i32, divisible by 16",
        "i32",
        "constexpr 1",
    ]
    assert lane.launches[0]["grids"] == [[32, 1, 1], [64, 1, 1], [96, 1, 1]]


def test_tensor_descriptors(write):
    module = write("""
        @triton.jit
        def host_kernel(x_desc, y_desc):
            y_desc.store([0, 0], x_desc.load([0, 0]) + 1)

        @triton.jit
        def device_kernel(x_ptr, n, BLOCK: tl.constexpr):
            desc = tl.make_tensor_descriptor(x_ptr, [n, n], [n, 1], [BLOCK, BLOCK])
            desc.store([0, 0], desc.load([0, 0]) + 1)

        def launch(x):
            desc = TensorDescriptor.from_tensor(x, [32, 32])
            host_kernel[(1,)](desc, desc)
            device_kernel[(1,)](x, x.shape[0], 32)
            triton.set_allocator(lambda size, alignment, stream: torch.empty(size))
            device_kernel[(1,)](x, x.shape[0], 16)
    """)
    lane = compile_all(
        module, "launch", torch.zeros(64, 64, dtype=torch.float16), targets=["sm_80", "sm_90"]
    )
    assert all(entry["ok"] for entry in lane.launches)
    host, on_hopper = lane.launches[0], lane.launches[1]
    assert host["signature"]["x_desc"].startswith("tensordesc<fp16[32,")
    assert {fact["op"] for fact in host["accesses"]} == {"load", "store"}
    assert {fact["op"] for fact in on_hopper["accesses"]} == {"bulk_copy"}
    device = [entry for entry in lane.launches if entry["kernel"] == "device_kernel"]
    assert [entry["scratch"] > 0 for entry in device] == [False, True, False, True]
    assert [entry["allocator_set"] for entry in device] == [False, False, True, True]


def test_a_target_this_triton_does_not_know(write):
    lane = compile_all(write(ADD), "add", torch.zeros(16), torch.zeros(16), targets=["sm_123"])
    [entry] = lane.launches
    assert entry["ok"] is None
    assert f"sm_123 is not known to Triton {triton.__version__}" in entry["error"]["message"]
    assert compiling.if_supported("riscv") is not None
    assert compiling.if_supported("sm_90") is None


def test_a_missing_backend(write, monkeypatch):
    monkeypatch.setattr(compiling, "backends", {"nvidia": compiling.backends["nvidia"]})
    compiling.if_supported.cache_clear()
    try:
        lane = compile_all(
            write(ADD), "add", torch.zeros(16), torch.zeros(16), targets=["gfx942", "sm_80"]
        )
    finally:
        compiling.if_supported.cache_clear()
    assert [entry["ok"] for entry in lane.launches] == [None, True]
    assert "no amd backend" in lane.launches[0]["error"]["message"]


def test_everything_is_put_back(write):
    module = write(ADD)
    run, tune = triton.JITFunction.run, triton.runtime.Autotuner.run
    before = triton.runtime.driver._active
    with CompileLane(["sm_90"], module.__file__) as lane:
        assert triton.runtime.driver.active.get_current_target().arch == 90
        with pytest.raises(RuntimeError, match="entered already"):
            lane.__enter__()
    assert triton.JITFunction.run is run
    assert triton.runtime.Autotuner.run is tune
    assert triton.runtime.driver._active is before
    assert lane.launches == []


def test_a_kernel_that_is_only_warmed_up(write):
    module = write(
        ADD
        + """
    def launch(x):
        kernel = add_kernel.warmup(x, x, x, 64, BLOCK_SIZE=64, grid=(1,))
        kernel._init_handles()
        kernel[(1, 1, 1)](x, x, x, 64, 64)  # counts for nothing
        properties = triton.runtime.driver.active.utils.get_device_properties(0)
        return kernel.n_regs, kernel.metadata.shared, properties["multiprocessor_count"]
    """
    )
    with CompileLane(["sm_90", "gfx942"], module.__file__) as lane:
        registers, shared, processors = module.launch(torch.zeros(64))
    assert registers == lane.launches[0]["registers"]
    assert (shared, processors) == (0, 132)
    assert [entry["grids"] for entry in lane.launches] == [[], []]


def _work(job, log=None):
    if job["do"] == "abort":
        os.write(2, b"chatter\nLLVM ERROR: cannot select\n")
        os.kill(os.getpid(), signal.SIGABRT)
    if job["do"] == "exit":
        os._exit(3)
    if job["do"] == "hang":
        time.sleep(60)
    return {"ok": True, "error": None, "number": job["number"]}


def test_a_compiler_that_crashes_or_hangs_costs_one_entry():
    kinds = ["fine", "abort", "fine", "exit", "hang", "fine", "fine"]
    jobs = [{"number": at, "do": kind, "target": "sm_80"} for at, kind in enumerate(kinds)]
    results = compiling._run_jobs(jobs, _work, processes=2, timeout=1.0)
    for job, result in zip(jobs, results, strict=True):
        if job["do"] == "fine":
            assert result == {"ok": True, "error": None, "number": job["number"]}
        else:
            assert result["ok"] is False
    assert results[1]["error"]["type"] == "CompilerCrash"
    assert results[1]["error"]["message"] == (
        "the compiler was ended by SIGABRT\nLLVM ERROR: cannot select"
    )
    assert "status 3" in results[3]["error"]["message"]
    assert results[4]["error"]["type"] == "TimeoutError"


def test_a_job_that_a_busy_machine_lets_wait_is_not_out_of_time(monkeypatch):
    child = compiling._Child(os.getpid(), -1, None)
    child.began, child.used = time.monotonic() - 5, 10.0
    for used, wants_more, late in ((10.5, True, False), (10.5, False, True), (11.5, True, True)):
        monkeypatch.setattr(compiling, "family_time", lambda pid, now=(used, wants_more): now)
        assert child.out_of_time(1.0) is late
    child.began -= 10
    monkeypatch.setattr(compiling, "family_time", lambda pid: (10.5, True))
    assert child.out_of_time(1.0)
    assert not child.out_of_time(100.0)


def test_no_processes_left_to_fork(monkeypatch):
    def refuse():
        raise BlockingIOError("fork")

    monkeypatch.setattr(os, "fork", refuse)
    jobs = [{"number": at, "do": "fine", "target": "sm_80"} for at in range(3)]
    results = compiling._run_jobs(jobs, _work, processes=2, timeout=1.0)
    assert [result["number"] for result in results] == [0, 1, 2]


@pytest.mark.parametrize(
    ("target", "registers", "shared", "warps", "blocks", "limit"),
    [
        ("sm_80", 32, 0, 4, 16, "warps"),
        ("sm_80", 33, 0, 4, 12, "registers"),
        ("sm_80", 255, 0, 8, 1, "registers"),
        ("sm_80", 256, 0, 8, 0, "registers"),
        ("sm_80", 32, 48 * 1024, 4, 3, "shared memory"),
        ("sm_80", 16, 0, 1, 32, "blocks"),
        ("sm_89", 32, 0, 4, 12, "warps"),
        ("sm_89", 32, 99 * 1024, 4, 1, "shared memory"),
        ("sm_90", 168, 0, 4, 3, "registers"),
        ("sm_90", 32, 113 * 1024, 4, 2, "shared memory"),
        ("sm_90", 32, 0, 64, 0, "warps"),
        ("gfx942", 64, 0, 4, 8, "warps"),
        ("gfx942", 128, 0, 4, 4, "registers"),
        ("gfx942", 24, 33 * 1024, 4, 1, "shared memory"),
        ("gfx942", 24, 0, 1, 32, "warps"),
    ],
)
def test_occupancy(target, registers, shared, warps, blocks, limit):
    chip = chips.CHIPS[target]
    answer = chips.occupancy(chip, registers, shared, warps)
    assert (answer["blocks_per_sm"], answer["limit"]) == (blocks, limit)
    assert answer["share"] == pytest.approx(blocks * warps / chip.max_warps_per_sm, abs=1e-4)


def test_what_fits_a_chip():
    assert chips.fits("sm_89", 99 * 1024) == (True, None)
    assert chips.fits("sm_89", 256 * 1024)[1] == (
        "needs 256 KiB of shared memory in one program; sm_89 has 99 KiB"
    )
    assert chips.fits("gfx942", 0, num_warps=32)[0] is False
    assert chips.fits("sm_100", 0, tensor_memory=1024)[0] is False
    assert chips.fits("sm_75", 10**9) == (None, None)
    assert {card.target for card in chips.CARDS} == set(chips.CHIPS)
    assert [card.name for card in chips.cards_of("sm_90")] == ["H100 SXM", "H200 SXM"]
    with pytest.raises(ValueError, match="at least one warp"):
        chips.occupancy(chips.CHIPS["sm_80"], 32, 0, 0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_the_code_is_that_of_a_real_launch(write):
    module = write(
        ADD
        + """
    def launch(x):
        return add_kernel[(4,)](x, x, x, x.numel(), BLOCK_SIZE=256, num_warps=8)
    """
    )
    target = "sm_{}{}".format(*torch.cuda.get_device_capability())
    [entry] = compile_all(module, "launch", torch.zeros(1000), targets=[target]).launches
    kernel = module.launch(torch.zeros(1000, device="cuda"))
    assert entry["registers"] == kernel.n_regs
    assert entry["shared"] == kernel.metadata.shared
    assert entry["signature"]["n_elements"] == "i32"


@pytest.mark.parametrize(
    ("type_", "precision"), [("f16", "ieee"), ("f32", "tf32"), ("f32", "ieee")]
)
def test_one_dot_in_full_precision_leaves_the_tensor_cores(type_, precision, monkeypatch):
    """Also if another dot of the same kernel runs on them."""
    dots = [{"a": of, "b": of, "precision": precision, "line": 7} for of in ("f16", type_)]
    launch = {"case": "c", "target": "sm_90", "dots": dots, "tensor_cores": ["wgmma"]}
    monkeypatch.setattr(checks, "compiled_launches", lambda _: [launch])
    full = (type_, precision) == ("f32", "ieee")
    with pytest.raises(Wrong, match="full precision") if full else contextlib.nullcontext():
        checks.tensor_cores(None)
