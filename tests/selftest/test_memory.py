"""The guarded memory of the trace lane: room around every buffer, poison inside, tampering seen."""

from __future__ import annotations

import ctypes
import itertools

import pytest
import torch
from grader.memory import GAP, Memory, poison

F32 = torch.float32


@pytest.fixture
def memory():
    return Memory()


def test_a_tensor_is_placed_with_its_strides_and_offset(memory):
    tensor = memory.place((3, 4), (6, 1), F32, "x", "input", offset=2, elements=30)
    assert (tuple(tensor.shape), tensor.stride(), tensor.storage_offset()) == ((3, 4), (6, 1), 2)
    buffer = memory.of(tensor)
    assert (buffer.name, buffer.kind, buffer.elements, buffer.itemsize) == ("x", "input", 30, 4)
    assert tensor.data_ptr() == buffer.start + 8


def test_a_storage_is_as_long_as_shape_and_strides_need(memory):
    tensor = memory.place((3, 4), (10, 2), torch.float16, "x", "input")
    assert memory.of(tensor).elements == 1 + 2 * 10 + 3 * 2


def test_there_is_room_before_and_after_each_buffer(memory):
    for n in (1, 1000, 5000):
        memory.place((n,), (1,), F32, f"b{n}", "empty")
    starts = sorted((b.start, b.end) for b in memory.buffers)
    for (_, end), (start, _) in itertools.pairwise(starts):
        assert start - end >= 2 * GAP
    for buffer in memory.buffers:  # the room can be touched without harm
        ctypes.memset(buffer.start - GAP, 0, GAP)
        ctypes.memset(buffer.end, 0, GAP)


def test_the_nearest_buffer_of_an_address(memory):
    first, second = sorted(
        (memory.of(memory.place((10,), (1,), F32, name, "empty")) for name in "ab"),
        key=lambda b: b.start,
    )
    assert memory.find(first.start) is first
    assert memory.find(first.end - 1) is first
    assert memory.find(first.end + 100) is first
    assert memory.find(second.start - 100) is second
    assert memory.find(0) is first
    assert memory.find(2**63) is second
    assert Memory().find(5) is None


def test_new_memory_is_poisoned(memory):
    assert memory.place((5,), (1,), F32, "", "empty").isnan().all()
    assert memory.place((5,), (1,), torch.bfloat16, "", "empty").isnan().all()
    assert (memory.place((5,), (1,), torch.int32, "", "empty") == 0x55555555).all()
    assert memory.place((5,), (1,), torch.bool, "", "empty").all()
    flat = torch.zeros(3, dtype=torch.int8)
    poison(flat)
    assert (flat == 0x55).all()


def test_bytes_changed_from_outside_are_seen_until_they_are_accepted(memory):
    tensor = memory.place((8,), (1,), F32, "x", "input")
    buffer = memory.of(tensor)
    assert buffer.tampered() == 0
    tensor[2:5] = 1.0
    assert buffer.tampered() == 3
    buffer.resync()
    assert buffer.tampered() == 0
    ctypes.memset(tensor.data_ptr(), 0x41, 1)
    assert buffer.tampered() == 1  # a single byte of one element


def test_views_lead_to_the_buffer_and_strangers_do_not(memory):
    tensor = memory.place((6, 4), (4, 1), F32, "x", "input")
    buffer = memory.of(tensor)
    for view in (tensor[2:], tensor.T, tensor.flatten(), tensor[1, 2], tensor.view(torch.int32)):
        assert memory.of(view) is buffer
    assert memory.of(torch.zeros(3)) is None
    assert memory.of(torch.zeros(0)) is None
    assert memory.of(torch.empty(3, device="meta")) is None


def test_a_stranger_can_be_adopted(memory):
    stranger = torch.arange(60.0)
    buffer = memory.adopt(stranger, "table")
    assert (buffer.name, buffer.kind, buffer.elements) == ("table", "foreign", 60)
    assert memory.of(stranger[3:]) is buffer
    stranger[0] = 9
    assert buffer.tampered() == 1


def test_a_tensor_without_elements_needs_no_guard(memory):
    tensor = memory.place((0, 5), (5, 1), F32, "x", "input")
    assert (tuple(tensor.shape), tensor.stride()) == ((0, 5), (5, 1))
    assert memory.buffers == []


def test_a_few_numbers_of_python_are_no_strangers():
    """16 elements in all of one call, and none once Python has looked at a tensor."""
    memory = Memory()
    kinds = [memory.adopt(torch.ones(n), "s").kind for n in (1, 15, 1)]
    assert kinds == ["filled", "filled", "foreign"]
    memory = Memory()
    memory.looked = True
    assert memory.adopt(torch.ones(1), "s").kind == "foreign"


def test_memory_of_an_earlier_call_is_known_as_long_as_it_lives():
    first, second = Memory(), Memory()
    kept, gone = (first.place((4, 3), (3, 1), torch.float32, "", "empty") for _ in range(2))
    kept.zero_()
    first.known(kept).resync()
    rooms = first.rooms()
    assert len(rooms) == 2
    del gone, first
    second.remember(rooms)
    assert len(second.rooms()) == 1
    buffer = second.known(kept[1:])
    assert (buffer.kind, buffer.elements) == ("kept", 12)
    assert buffer.stale(buffer.places(kept)) == 12
    buffer.filled[buffer.places(kept[1:, ::2])] = True
    assert buffer.filled.tolist() == [False] * 3 + [True, False, True] * 3
    assert second.known(torch.ones(3)) is None


def test_places_of_another_element_size():
    memory = Memory()
    flat = memory.place((8,), (1,), torch.float32, "", "empty")
    buffer = memory.of(flat)
    assert buffer.places(flat.view(torch.float64)[1:3]).tolist() == [2, 3, 4, 5]
    assert buffer.places(flat.view(torch.float16)[2:5]).tolist() == [1, 1, 2]


def test_a_second_call_finds_what_the_first_one_left():
    memory = Memory()
    x = memory.place((20,), (1,), torch.float32, "x", "input")
    mine = memory.place((20,), (1,), torch.float32, "", "filled")
    table = torch.ones(20)
    memory.adopt(table, "table")
    memory.age()
    assert (memory.of(x).kind, memory.of(mine).kind) == ("input", "kept")
    assert memory.known(table) is None
