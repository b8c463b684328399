"""Which PyTorch operations a launcher may use: those that allocate, fill, copy and view."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from grader.guard import Guard
from grader.memory import Memory
from grader.watch import Watch

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
        lambda x: torch.as_strided(x, (2, 2), (1, 1)),
        lambda x: x.view(torch.int32),
        lambda x: x.chunk(2),
        lambda x: x.unbind(0),
        lambda x: x.clone(),
        lambda x: torch.empty_like(x).copy_(x),
        lambda x: x.detach(),
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
    """What torch.library.custom_op wraps may do what a launcher may, and no more."""

    @torch.library.custom_op("katas_selftest::honest", mutates_args=())
    def honest(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("katas_selftest::adds", mutates_args=())
    def adds(x: torch.Tensor) -> torch.Tensor:
        return honest(x) + x

    memory = Memory()
    assert foreign(honest, x, memory=memory) == []
    assert len(memory.buffers) == 1
    assert foreign(adds, x) == ["add"]


# ---- the guard ----------------------------------------------------------------------------------


def test_torch_dynamo_may_be_imported(monkeypatch):
    """It wraps torch.manual_seed; nothing else that it touches is watched."""
    guard = Guard()
    monkeypatch.setattr(torch, "manual_seed", lambda seed: None)
    assert guard.changed() == []
    monkeypatch.setattr(torch, "empty", torch.zeros)
    assert guard.changed() == ["torch.empty"]
