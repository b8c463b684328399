"""Which PyTorch operations a launcher may use: those that allocate, fill, copy and view."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from grader.guard import Guard, has_versions
from grader.kata import COUNTING
from grader.memory import Memory
from grader.watch import Watch
from torch import library

FILE = __file__


@pytest.fixture
def x():
    return torch.arange(12.0).reshape(3, 4)


def foreign(work, *tensors, memory=None, allowed=()):
    with Watch(FILE, memory, None, allowed) as watch:
        work(*tensors)
    return list(watch.foreign)


@pytest.mark.parametrize(
    "work",
    [
        lambda x: torch.empty_like(x),
        lambda x: torch.empty(3, 4),
        lambda x: torch.empty_strided((3, 4), (4, 1)),
        lambda x: x.new_empty(5),
        lambda x: torch.zeros(3),
        lambda x: torch.zeros_like(x),
        lambda x: torch.full((3,), 7.0),
        lambda x: torch.ones_like(x).zero_(),
        lambda x: torch.empty(3).fill_(2),
        lambda x: x.view(4, 3),
        lambda x: x.reshape(-1),
        lambda x: x.T,
        lambda x: x.transpose(0, 1).contiguous(),
        lambda x: x.permute(1, 0),
        lambda x: x[1:, ::2],
        lambda x: x.unsqueeze(0).squeeze(0),
        lambda x: x.expand(2, 3, 4),
        lambda x: x.flatten(),
        lambda x: x.T.flatten(),
        lambda x: torch.as_strided(x, (2, 2), (1, 1)),
        lambda x: x.view(torch.int32),
        lambda x: x.chunk(2),
        lambda x: x.unbind(0),
        lambda x: x.clone(),
        lambda x: torch.empty_like(x).copy_(x),
        lambda x: x.detach(),
        lambda x: torch.promote_types(x.dtype, torch.float64),
        lambda x: torch.profiler.record_function("launch").__enter__().__exit__(None, None, None),
        lambda x: (x.shape, x.stride(), x.numel(), x.is_contiguous(), x.data_ptr(), x.dtype),
    ],
)
def test_allocating_and_viewing_is_allowed(work, x):
    assert foreign(work, x) == []


@pytest.mark.parametrize(
    ("work", "name"),
    [
        (lambda x: x + x, "add"),
        (lambda x: x.add_(1), "add_"),
        (lambda x: torch.add(x, x, out=torch.empty_like(x)), "add"),
        (lambda x: x * 2, "mul"),
        (lambda x: torch.softmax(x, -1), "_softmax"),
        (lambda x: x @ x.T, "mm"),
        (lambda x: x.sum(), "sum"),
        (lambda x: x.to(torch.float16), "_to_copy"),
        (lambda x: torch.where(x > 1, x, x), "gt"),
        (lambda x: torch.cat([x, x]), "cat"),
        (lambda x: x.index_select(0, torch.tensor([0])), "index_select"),
        (lambda x: torch.relu(x), "relu"),
        (lambda x: x.sum().item(), "_local_scalar_dense"),
        (lambda x: torch.nn.functional.gelu(x), "gelu"),
    ],
)
def test_arithmetic_is_not(work, name, x):
    assert name in foreign(work, x)


def test_what_a_kata_allows(x):
    assert foreign(lambda x: x.flatten().sort(), x) == ["sort"]
    assert foreign(lambda x: x.flatten().sort(), x, allowed=["sort"]) == []


@pytest.mark.parametrize(
    "work",
    [
        lambda x, ids: torch.sort(ids.flatten(), stable=True),
        lambda x, ids: torch.bincount(ids.flatten(), minlength=9).cumsum(0),
        lambda x, ids: torch.unique(ids, return_counts=True, return_inverse=True),
        lambda x, ids: torch.nn.functional.one_hot(ids.long(), 9).sum((0, 1)),
        lambda x, ids: torch.searchsorted(ids.flatten().sort().values, torch.arange(10)),
        lambda x, ids: ((ids == 3).sum() + 15) // 16 * 16,
        lambda x, ids: torch.ceil(torch.bincount(ids.flatten()) / 16).int(),
        lambda x, ids: torch.zeros(9, dtype=torch.int32).scatter_add_(
            0, ids.flatten().long(), torch.ones(12, dtype=torch.int32)
        ),
        lambda x, ids: torch.full((32,), 12).index_put_(
            (ids.flatten().long(),), ids.flatten().long()
        ),
        lambda x, ids: torch.repeat_interleave(
            torch.arange(9), torch.bincount(ids.flatten(), minlength=9)
        ),
        lambda x, ids: torch.tensor(
            [n for n in ids.flatten().tolist() if n > 2], dtype=torch.int32
        ),
        lambda x, ids: torch.where(ids > 2, ids, -1).max().item(),
        lambda x, ids: torch.nn.functional.pad(ids.flatten().diff(), (1, 0)),
        lambda x, ids: x[(ids == 3).nonzero()[:, 0]],
        lambda x, ids: x.gather(1, ids.long() % 4),
        lambda x, ids: torch.zeros(3, 9).scatter_(1, ids.long(), x),
    ],
)
def test_ids_may_be_sorted_and_counted(work, x):
    ids = torch.tensor([[1, 2, 3, 4], [8, 3, 0, 1], [0, 2, 4, 3]], dtype=torch.int32)
    memory = Memory()
    with Watch(FILE, memory, None, COUNTING) as watch:
        work(x, ids)
    assert list(watch.foreign) == []
    assert not any(buffer.tampered() or buffer.kind == "foreign" for buffer in memory.buffers)


@pytest.mark.parametrize(
    ("work", "name"),
    [
        (lambda x: x.sum(0), "sum"),
        (lambda x: x * 2, "mul"),
        (lambda x: x.to(torch.float16), "_to_copy"),
        (lambda x: torch.zeros(3, 4).index_add_(0, torch.arange(3), x), "index_add_"),
        (lambda x: torch.zeros(3, 4).scatter_add_(0, (x > 2).long(), x), "scatter_add_"),
        (lambda x: torch.zeros(3, 4).scatter_(0, (x > 2).long(), x, reduce="add"), "scatter_"),
        (lambda x: x.cumsum(0), "cumsum"),
        (lambda x: torch.where(x > 1, x, 0.0), "where"),
        (lambda x: x[0].sum().item(), "sum"),
        (lambda x: x[0, 0].item(), "_local_scalar_dense"),
        (lambda x: torch.arange(4).float() @ x.T, "mm"),
    ],
)
def test_and_nothing_else_is_summed(work, name, x):
    assert name in foreign(work, x, allowed=COUNTING)


def test_the_line_of_the_first_use(x):
    with Watch(FILE) as watch:
        first = x + x  # here
        first + x
    here = next(
        n
        for n, line in enumerate(Path(FILE).read_text().splitlines(), 1)
        if line.endswith("# here")
    )
    assert watch.foreign == {"add": {"op": "add", "line": here}}


def test_nothing_is_noted_outside(x):
    with Watch(FILE) as watch:
        pass
    x + x
    assert watch.foreign == {}


def test_allocations_move_into_guarded_memory(x):
    memory = Memory()
    with Watch(FILE, memory):
        out = torch.empty_like(x)
        filled = torch.full((5,), 3.0)
        copied = x.T.contiguous()
    assert memory.of(out).kind == "empty"
    assert out.isnan().all()
    assert memory.of(filled).kind == "filled"
    assert filled.tolist() == [3.0] * 5
    assert memory.of(copied).kind == "copy"
    assert torch.equal(copied, x.T)
    assert copied.is_contiguous()
    assert memory.of(x) is None


def test_strides_of_an_allocation_are_kept(x):
    with Watch(FILE, Memory()):
        out = torch.empty_like(x.T)
    assert out.stride() == torch.empty_like(x.T).stride()


def test_filling_new_memory_is_no_tampering(x):
    memory = Memory()
    with Watch(FILE, memory):
        out = torch.empty_like(x)
        out.zero_()
        part = torch.empty_like(x)
        part.copy_(x)
    assert memory.of(out).tampered() == memory.of(part).tampered() == 0
    assert (memory.of(out).kind, memory.of(part).kind) == ("filled", "copy")
    out.numpy()[0] = 5  # past PyTorch
    assert memory.of(out).tampered() == 4


def test_a_copy_to_another_dtype_or_device_is_arithmetic(x):
    assert foreign(lambda x: x.to(torch.float32), x) == []
    assert foreign(lambda x: x.double(), x) == ["_to_copy"]


def test_an_operator_made_of_python_is_seen_through(x):
    """What PyTorch's custom_op wraps may do what a launcher may, and no more."""

    @library.custom_op("katas_selftest::honest", mutates_args=())
    def honest(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    @library.custom_op("katas_selftest::adds", mutates_args=())
    def adds(x: torch.Tensor) -> torch.Tensor:
        return honest(x) + x

    memory = Memory()
    assert foreign(honest, x, memory=memory) == []
    assert len(memory.buffers) == 1
    assert foreign(adds, x) == ["add"]


# ---- what Python made, and what an earlier call left ---------------------------------------------

COPY = """
import numpy as np

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)

@triton.jit
def scaled(x_ptr, s_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * tl.load(s_ptr), mask=offsets < n)

@triton.jit
def added(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)

def copy(x, out):
    kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), BLOCK=16)
    return out

KEPT = {}
"""


def launched(traced, body: str, *arguments, times: int = 1):
    """What `run(x)` with this body makes known when it is called for the last time."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    file = traced(f"{COPY}\ndef run(x):\n{lines}", "x")
    for _ in range(times):
        seen = file(*(arguments or [torch.arange(40.0)]))
        assert seen.error is None
    return seen


def wrong(seen) -> list[str]:
    return [f["op"] for f in seen.foreign] + [h["kind"] for h in seen.hazards]


@pytest.mark.parametrize(
    "made",
    ["torch.tensor([2.5])", "torch.tensor(2.5)", "torch.as_tensor([2.5])",
     "torch.from_numpy(np.full(1, 2.5, np.float32))", "torch.tensor([2.5]).clone()"],
)  # fmt: skip
def test_a_number_of_python_in_a_tensor(traced, made):
    body = f"""
out = torch.empty_like(x)
scaled[(3,)](x, {made}, out, 40, BLOCK=16)
return out"""
    seen = launched(traced, body)
    assert wrong(seen) == []
    assert torch.equal(seen.out, torch.arange(40.0) * 2.5)


@pytest.mark.parametrize(
    "made",
    [
        "torch.tensor([v + 1 for v in x.tolist()])",
        "torch.tensor([v + 1 for v in x.tolist()]).clone()",
        "torch.empty_like(x).copy_(torch.tensor([v + 1 for v in x.tolist()]))",
        "torch.from_numpy(x.numpy() + 1).clone()",
        "torch.from_numpy(np.asarray(x) + 1).contiguous()",
    ],
)
def test_what_python_works_out_is_not_the_kernels_work(traced, made):
    seen = launched(traced, f"flat = {made}\nreturn copy(flat, torch.empty_like(x))")
    assert "foreign-read" in wrong(seen)


@pytest.mark.parametrize(
    "work",
    [
        "flat[i] = x.tolist()[i] + 1",
        "flat[i].fill_(x.tolist()[i] + 1)",
        "copy(torch.tensor([x.tolist()[i] + 1]), flat[i:])",
        "copy(torch.tensor([float(i + 1)]), flat[i:])",
    ],
)
def test_nor_is_it_bit_by_bit(traced, work):
    body = f"""
flat = torch.empty_like(x)
for i in range(40):
    {work}
return copy(flat, torch.empty_like(x))"""
    assert "foreign-read" in wrong(launched(traced, body))


def test_few_results_of_python_are_not_taken_either(traced):
    body = "return copy(torch.tensor([v + 1 for v in x.tolist()]), torch.empty_like(x))"
    assert wrong(launched(traced, body, torch.arange(3.0))) == ["foreign-read"]


CACHED = """
if 'work' not in KEPT:
    KEPT['work'] = torch.empty_like(x)
work = KEPT['work']
"""


@pytest.mark.parametrize(
    "body",
    [
        "work.zero_()\nadded[(3,)](x, work, 40, BLOCK=16)\nreturn copy(work, torch.empty_like(x))",
        "copy(x, work)\nreturn copy(work, torch.empty_like(x))",
        "copy(x, work)\nreturn work.clone()",
        "work.copy_(x)\nreturn copy(work, torch.empty_like(x))",
        "work[:20].zero_()\nwork[20:].zero_()\nreturn copy(work, torch.empty_like(x))",
    ],
)
@pytest.mark.parametrize("times", [1, 3])
def test_a_workspace_that_is_kept_between_calls(traced, body, times):
    assert wrong(launched(traced, CACHED + body, times=times)) == []


@pytest.mark.parametrize(
    "body",
    [
        "old = copy(work, torch.empty_like(x))\ncopy(x, work)\nreturn old",
        "copy(x[:20], work)\nreturn copy(work, torch.empty_like(x))",
        "work[:39].zero_()\nreturn copy(work, torch.empty_like(x))",
        "return copy(work.clone(), torch.empty_like(x))",
        "added[(3,)](x, work, 40, BLOCK=16)\nreturn copy(work, torch.empty_like(x))",
        "out = torch.empty_like(x)\nout.copy_(work)\nreturn copy(out, torch.empty_like(x))",
    ],
)
def test_what_an_earlier_call_left_there_is_not_this_calls_work(traced, body):
    assert "foreign-read" in wrong(launched(traced, CACHED + body, times=2))


def test_a_kept_workspace_is_no_result(traced):
    seen = launched(traced, CACHED + "return copy(x, work)", times=2)
    assert (seen.result[0]["storage"], seen.result[0]["kind"]) == (None, "kept")


# ---- the guard ----------------------------------------------------------------------------------


@pytest.mark.parametrize("versions", [True, False])
def test_what_is_replaced_between_two_looks_is_seen(monkeypatch, versions):
    """Also where Python does not tell that a namespace has changed."""
    monkeypatch.setattr("grader.guard.has_versions", lambda: versions)
    guard = Guard()
    assert guard.changed() == []
    with monkeypatch.context() as changes:
        changes.setattr(Guard, "look", lambda self, *things: None)
        assert guard.changed() == ["grader.guard.Guard.look"]
    monkeypatch.setattr(torch.Tensor, "split", torch.Tensor.chunk)
    assert guard.changed() == ["grader.guard.Guard.look", "torch.Tensor.split"]


def test_this_python_tells_that_a_namespace_has_changed():
    """From 3.14 on the guard looks at everything each time, which is right, and slower."""
    assert has_versions() == (sys.version_info < (3, 14))


def test_torch_dynamo_may_be_imported(monkeypatch):
    """It wraps torch.manual_seed; nothing else that it touches is watched."""
    guard = Guard()
    monkeypatch.setattr(torch, "manual_seed", lambda seed: None)
    assert guard.changed() == []
    monkeypatch.setattr(torch, "empty", torch.zeros)
    assert guard.changed() == ["torch.empty"]
