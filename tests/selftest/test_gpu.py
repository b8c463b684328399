"""Guard bands and poisoned memory of the gpu lane, looked at without a card (device "cpu")."""

import pytest
import torch
from grader import checks
from grader.evidence import Collected
from grader.gpu import BAND, BULK_STORE, CardMemory, pattern
from grader.grading import settle
from grader.kata import lay_out
from grader.reasons import NotJudged, RightOnCard
from grader.scorecard import Check
from grader.watch import Watch
from grader.worker import build_arguments, describe_result, refill

F16, BF16, F32, I32 = torch.float16, torch.bfloat16, torch.float32, torch.int32


@pytest.fixture
def memory():
    return CardMemory(torch.from_numpy(pattern()), device="cpu")


def spec(tensor, name="x", blob=0):
    return {
        "name": name,
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "offset": tensor.storage_offset(),
        "elements": tensor.untyped_storage().nbytes() // tensor.element_size(),
        "blob": blob,
    }


def storage(tensor):
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy().tobytes()


@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_the_pattern_is_nan_and_no_nan_of_a_chip(dtype):
    values = torch.from_numpy(pattern()).view(dtype)
    assert values.isnan().all()
    size = values.element_size()
    words = values.view({2: torch.int16, 4: I32}[size])
    whole = {2: (0x7FFF, 0x7E00, 0x7FC0), 4: (0x7FFFFFFF, 0x7FC00000)}[size]
    for word in whole:
        assert not (words == word).any()
        assert not (words == word - (1 << (8 * size - 1))).any()


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "padded", "spread", "shifted"])
def test_inputs_keep_values_layout_and_gaps(memory, layout):
    x = lay_out(torch.arange(12.0).reshape(3, 4), layout)
    (copy,), tensors = build_arguments([spec(x)], [storage(x)], memory)
    assert torch.equal(copy, x)
    assert copy.stride() == x.stride()
    assert copy.storage_offset() == x.storage_offset()
    assert copy.untyped_storage().nbytes() == x.untyped_storage().nbytes()
    assert memory.of(copy).content() == storage(x)
    assert memory.of(copy).outside() == []
    assert tensors == [copy] or torch.equal(tensors[0], copy)


def test_a_store_outside_is_reported_with_side_and_count(memory):
    x = memory.place((10,), (1,), F32, "x", "input")
    buffer = memory.of(x)
    beyond = buffer.room[BAND + 40 : BAND + 40 + 12]
    before = buffer.room[BAND - 4 : BAND]
    beyond.view(torch.uint8).fill_(0)
    assert buffer.outside() == [
        {"buffer": "x", "kind": "input", "side": "after", "count": 3, "elements": 10}
    ]
    before.fill_(0)
    assert [e["side"] for e in buffer.outside()] == ["before", "after"]


def test_a_kernels_own_nan_stored_outside_is_noticed(memory):
    x = memory.place((10,), (1,), F16, "x", "input")
    buffer = memory.of(x)
    buffer.room[BAND + 20 : BAND + 20 + 64].view(torch.int16).fill_(0x7FFF)
    assert buffer.outside()[0]["count"] == 32


def test_copying_from_band_to_band_is_noticed(memory):
    x, y = (memory.place((1000,), (1,), F32, name, "empty") for name in "xy")
    memory.of(y).room[BAND + 4000 :] = memory.of(x).room[BAND + 4000 :]
    assert memory.of(x).outside() == []
    assert memory.of(y).outside()[0]["count"] > 0.99 * BAND / 4


def test_a_descriptors_store_may_fill_its_last_grain_and_no_more(memory):
    x = memory.place((5,), (1,), F32, "x", "empty")  # 20 bytes: the last grain ends at 32
    buffer = memory.of(x)
    buffer.room[BAND + 20 : BAND + 32] = 0
    assert buffer.outside(bulk=True) == []
    assert buffer.outside()[0]["count"] == 3
    buffer.room[BAND + 32 : BAND + 36] = 0
    assert buffer.outside(bulk=True)[0]["count"] == 1


def test_bulk_stores_are_told_from_bulk_loads():
    store = "@%p9 cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd10, {%r8}], [%r7];"
    load = "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r7], [%rd8];"
    assert BULK_STORE.search(store)
    assert not BULK_STORE.search(load)


def test_new_memory_is_poisoned_and_knows_what_was_written(memory):
    x = memory.place((7,), (1,), BF16, "", "empty")
    assert x.isnan().all()
    x[2] = 0
    x[5] = float("nan")
    assert memory.of(x).written.tolist() == [False, False, True, False, False, True, False]


def test_large_tensors_repeat_the_pattern(memory):
    x = memory.place((BAND,), (1,), F32, "", "empty")
    assert x.isnan().all()
    assert not memory.of(x).written.any()
    assert memory.of(x).outside() == []


def test_empty_tensors_are_plain(memory):
    x = memory.place((0, 4), (4, 1), F32, "x", "input")
    assert x.shape == (0, 4)
    assert memory.of(x) is None


def test_a_second_call_gets_new_values_in_the_same_memory(memory):
    x, y = torch.arange(5.0), torch.arange(5.0) + 9
    (copy,), tensors = build_arguments([spec(x)], [storage(x)], memory)
    place = copy.data_ptr()
    refill(tensors, [1], [storage(x), storage(y)], memory)
    assert torch.equal(copy, y)
    assert copy.data_ptr() == place


def test_what_the_launcher_allocates_is_guarded(memory):
    with Watch(__file__, memory) as watch:
        empty = torch.empty(6)
        zeros = torch.zeros((2, 3), dtype=I32)
        total = empty + 1
    assert memory.of(empty).kind == "empty"
    assert memory.of(zeros).kind == "filled"
    assert zeros.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert memory.of(zeros).written.all()
    assert memory.of(total) is None
    assert list(watch.foreign) == ["add"]


def test_results_come_back_with_what_was_written(memory):
    out = memory.place((2, 3), (3, 1), F32, "out", "empty")
    out[0] = torch.tensor([1.0, 2.0, 3.0])
    blobs, facts = describe_result(out, memory, torch)
    assert facts[0]["storage"] == "out"
    assert facts[0]["kind"] == "empty"
    assert list(blobs[facts[0]["coverage"]]) == [1, 1, 1, 0, 0, 0]
    assert torch.frombuffer(bytearray(blobs[facts[0]["data"]]), dtype=F32)[:3].tolist() == [1, 2, 3]


def test_a_result_on_another_device_carries_no_data(memory):
    memory.device = "cuda"
    _, facts = describe_result(torch.ones(3), memory, torch)
    assert facts[0]["device"] == "cpu"
    assert "data" not in facts[0]


class Untraceable:
    """A run that the interpreter could not make."""

    lane, evidence = "trace", None


def puzzled(run):
    raise NotJudged("the interpreter cannot run line 7")


@pytest.mark.parametrize(("concept", "status"), [("mask", "passed"), ("fusion", "not-judged")])
def test_what_cannot_be_traced_is_judged_on_the_card(monkeypatch, concept, status):
    monkeypatch.setattr(checks, "right_on_card", lambda kernel: True)
    with pytest.raises(RightOnCard) as raised:
        checks.each([Untraceable()], puzzled)
    verdict = Check("check", concept, "trace", 10)
    settle(verdict, raised.value, {"trace": True})
    assert verdict.status == status


def test_what_cannot_be_traced_stays_open_when_the_card_finds_faults(monkeypatch):
    monkeypatch.setattr(checks, "right_on_card", lambda kernel: False)
    with pytest.raises(NotJudged) as raised:
        checks.each([Untraceable()], puzzled)
    assert not isinstance(raised.value, RightOnCard)


def test_a_lane_sees_those_that_were_begun_before_it(nursery):
    class Two(Collected):
        def collectors(self):
            return {"trace": list, "gpu": lambda: ["trace" in self._futures]}

    for _ in range(50):
        both = Two(None, None, nursery, {"trace": True, "gpu": True}, "seed")
        assert both._futures["gpu"].result() == [True]
        both.close()
