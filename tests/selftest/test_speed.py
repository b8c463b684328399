"""The statistics of the speed check, on made-up times, and what it refuses to believe."""

import random
import statistics
from types import SimpleNamespace

import pytest
import torch
from grader import grading, speed
from grader.evidence import Evidence
from grader.judge import Answer
from grader.reasons import Wrong
from grader.speed import CardDraw, Speed, Times, interval, judge, refusal

MARKS = (0.8, 0.95)


def times(
    ratio,
    rounds=20,
    noise=0.01,
    kind="memory",
    reference=1.0,
    torch_ms=1.0,
    ceiling=1.0,
    unseen=0.03,
    early=1.0,
    early_ceiling=1.0,
    late=False,
    by_host=(),
    seed=0,
):
    """Times of a launcher that is `ratio` as fast as the reference; a drift hits all alike."""
    chance = random.Random(seed)
    ms: dict[str, list[float]] = {"launcher": [], "reference": [], "torch": [], "ceiling": []}
    for _ in range(rounds):
        drift = 1 + 0.3 * chance.random()
        for name, plain in (
            ("launcher", reference / ratio),
            ("reference", reference),
            ("torch", torch_ms),
            ("ceiling", ceiling),
        ):
            ms[name].append(plain * drift * (1 + chance.gauss(0, noise)))
    before = {"reference": early, "torch": early, "ceiling": early_ceiling}
    facts = {"kind": kind, "work": 4e9, "ceiling_work": 4e9, "sizes": "n=2^28", "by_host": by_host}
    drifting = {name: 1.15 * figure for name, figure in before.items()}  # the median drift
    out = Times.empty(facts | {"early": drifting})
    out.add(
        {
            "ms": ms,
            "unseen": {"launcher": [unseen] * rounds, "reference": [0.03] * rounds},
            "late": [late] * rounds,
        }
    )
    return out


# ---- the interval ----------------------------------------------------------------------------


def test_too_few_values_say_nothing():
    assert interval([1.0] * 10) == (-float("inf"), float("inf"))
    assert interval([1.0] * 20) == (1.0, 1.0)


def test_the_interval_is_made_of_order_statistics():
    # P(fewer than 3 of 20 below the median) = 0.0002, fewer than 4: 0.0013 > 0.0005
    assert interval(list(range(20, 0, -1))) == (3, 18)


def test_the_interval_holds_the_median_of_a_skewed_distribution():
    chance = random.Random(1)
    missed = 0
    for _ in range(2000):
        low, high = interval([chance.expovariate(1.0) for _ in range(40)], doubt=0.01)
        missed += not low <= 0.6931 <= high
    assert missed <= 40  # 20 are expected at most


def test_one_wild_round_does_not_move_it():
    values = [1.0] * 19 + [50.0]
    assert interval(values) == (1.0, 1.0)


# ---- the verdict -----------------------------------------------------------------------------


def test_as_fast_as_the_reference_passes_with_distinction():
    verdict = judge(times(1.0), MARKS, out_of_time=False)
    assert verdict is not None
    assert verdict.passed
    assert verdict.distinction
    assert verdict.decided


def test_a_quarter_slower_fails():
    verdict = judge(times(0.75), MARKS, out_of_time=False)
    assert verdict is not None
    assert not verdict.passed


def test_no_verdict_changes_in_a_thousand():
    for seed in range(500):
        same = judge(times(1.0, noise=0.03, seed=seed), MARKS, out_of_time=True)
        slow = judge(times(0.75, noise=0.03, seed=seed), MARKS, out_of_time=True)
        assert same.passed
        assert not slow.passed


def test_near_the_mark_it_asks_for_more_and_says_so_in_the_end():
    close = times(0.8, noise=0.05)
    assert judge(close, MARKS, out_of_time=False) is None
    verdict = judge(close, MARKS, out_of_time=True)
    assert not verdict.decided
    assert "close to the mark" in verdict.text


def test_near_the_second_mark_it_asks_for_more_too():
    close = times(0.95, noise=0.05)
    assert judge(close, MARKS, out_of_time=False) is None
    assert judge(close, MARKS, out_of_time=True).passed
    assert judge(times(0.88), MARKS, out_of_time=False).decided  # passed, and no distinction


def test_looking_again_and_again_flips_nothing():
    """Measuring goes on until the interval leaves the mark, which it may do by chance: rarely."""
    for seed in range(60):
        series = times(0.78, rounds=400, noise=0.03, seed=seed)
        for rounds in range(20, 401, 20):
            part = times(0.78, rounds=20, noise=0.03, seed=seed)
            part.ms = {name: values[:rounds] for name, values in series.ms.items()}
            verdict = judge(part, MARKS, out_of_time=rounds == 400)
            if verdict is not None:
                break
        assert not verdict.passed


def test_distinction_is_against_the_better_of_the_two():
    verdict = judge(times(1.0, torch_ms=0.8), MARKS, out_of_time=True)
    assert verdict.passed
    assert not verdict.distinction


def test_the_line_of_words():
    exact = Speed("memory", 3.866e12, 0.97, 1.0, 0.99, 1.01, 1.01, 20, MARKS, True, "n=2^28")
    assert exact.text == (
        "3,866 GB/s at n=2^28, 97% of what this card copies; 1.00 of the reference (0.99 to 1.01), "
        "1.01 of PyTorch; distinction"
    )
    matrix = Speed("matrix", 5.12e14, 0.72, 0.7, 0.69, 0.71, 0.77, 20, (0.6, 0.95), True, "M=64")
    assert matrix.text.startswith("512 TFLOP/s at M=64, 72% of this card's matrix rate; 0.70 of")


# ---- what is refused -------------------------------------------------------------------------


def test_a_refusal_fails_and_is_something_for_an_instructor_to_see():
    flags: list[tuple[str, str]] = []
    evidence = SimpleNamespace(flag=lambda *words: flags.append(words))
    evidence._refuse = lambda reason: Evidence._refuse(evidence, reason)
    child = SimpleNamespace(call=lambda *_: Answer({"refused": "an answer is kept"}))
    with pytest.raises(Wrong, match="an answer is kept") as caught:
        Evidence.measure(evidence, child)
    assert caught.value.cause == "speed"
    assert flags == [("refused speed", "an answer is kept")]


def test_honest_figures_are_believed():
    assert refusal(times(1.0)) == ""
    assert refusal(times(0.3)) == ""
    assert refusal(times(1.04)) == ""


def test_faster_than_the_card_is_not_believed():
    assert "what this card can do" in refusal(times(1.5))


def test_work_on_another_stream_shows_as_time_that_the_stream_does_not_know_of():
    assert "stream" in refusal(times(1.0, unseen=0.9))


def test_slowing_the_others_shows_against_what_they_took_before_the_import():
    assert "reference solution takes 1.4" in refusal(times(1.0, early=0.7))
    # the card itself is slower now: that is nobody's doing, up to a point
    assert refusal(times(1.0, early=0.8, early_ceiling=0.8)) == ""
    assert "keeps the card busy" in refusal(times(1.0, early=0.6, early_ceiling=0.6))
    # and a card that has become faster is no fault either
    assert refusal(times(1.0, early=2.0, early_ceiling=2.0)) == ""


def test_what_waits_for_the_host_anyway_accuses_nobody_while_the_host_is_busy():
    assert "PyTorch's operation takes 1.4" in refusal(times(1.0, torch_ms=1.4))
    assert refusal(times(1.0, torch_ms=1.4, by_host=("torch",))) == ""
    assert "keeps this machine busy" in refusal(times(1.0, torch_ms=3.5, by_host=("torch",)))
    # the reference does not wait: whoever slows it is seen
    slowed = times(1.0, early=0.7, by_host=("torch",))
    assert "reference solution takes 1.4" in refusal(slowed)


@pytest.mark.parametrize("figure", [0.0, -1.0, float("nan"), "1", None, 1e9])
def test_times_that_cannot_be_are_refused(figure):
    one = {"launcher": [figure], "reference": [1.0], "torch": [1.0], "ceiling": [1.0]}
    with pytest.raises((ValueError, TypeError)):
        Times("memory", 1.0, 1.0, {}, {}, {}, []).add({"ms": one, "unseen": {}, "late": []})


def test_rounds_that_do_not_pair_up_are_refused():
    one = {"launcher": [1.0], "reference": [1.0, 1.0], "torch": [1.0], "ceiling": [1.0]}
    with pytest.raises(ValueError, match="cannot be"):
        Times("memory", 1.0, 1.0, {}, {}, {}, []).add({"ms": one, "unseen": {}, "late": []})


# ---- checking results and sizing inputs ------------------------------------------------------


def test_results_may_differ_by_rounding_and_no_more():
    want = torch.randn(1000)
    assert speed.differs(want * (1 + 1e-6), want, "f") == ""
    stale = want.clone()
    stale[7] += 1
    assert "1 of 1,000" in speed.differs(stale, want, "f")
    stale[7] = float("nan")
    assert "1 of 1,000" in speed.differs(stale, want, "f")


@pytest.mark.parametrize(("wrong", "off", "told"), [(3, 2.0, 0), (5, 2.0, 5), (1, 5.0, 1)])
def test_one_element_in_a_million_may_lie_a_little_beyond(wrong, off, told):
    want = torch.zeros(1 << 22)
    want[::2] = 1  # rms 0.707: 0.0000108 is usual where zeros are wanted
    got = want.clone()
    got[1 : 2 * wrong : 2] = off * 2.0**-16 * 0.5**0.5
    assert speed.count_wrong(got, want) == told


@pytest.mark.parametrize(
    ("exact", "against_fp64", "wrong", "told"),
    [
        (False, "", 0, None),
        (False, "", 1, None),  # the estimate is too narrow: the bound decides
        (False, "beyond the bound", 1, "beyond the bound"),
        (False, None, 1, "1 of 2,000"),  # no memory for fp64: the estimate stands
        (False, "", 3, "3 of 2,000"),  # too many for an estimate to be at fault
        (True, "", 3, "3 of 2,000"),
        (True, None, 0, None),
        (True, "beyond the bound", 0, "beyond the bound"),
    ],
)
def test_the_bound_decides_about_few_elements_where_there_is_memory_for_it(
    exact, against_fp64, wrong, told
):
    want = torch.ones(2000)
    got = want.clone()
    got[:wrong] += 1
    bench = SimpleNamespace(
        kata=SimpleNamespace(choice=None, launcher="run"),
        kept=lambda result, arguments: result.clone(),
        fingerprints=lambda arguments: {},
        exactly=lambda result, arguments: against_fp64,
    )

    def inspect():
        speed.Bench.inspect(bench, got, want, [], lambda: None, {}, exact)

    if told is None:
        inspect()
    else:
        with pytest.raises(speed.Refused, match=told):
            inspect()


def test_few_wrong_elements_of_one_result_do_not_excuse_many_of_another():
    want = torch.ones(2000), torch.ones(2000)
    few, many = want[0].clone(), want[1].clone()
    few[0], many[:5] = 2, 2
    assert speed.compared((few, want[1]), want, "f")[1]
    for result in (few, many), (many, few):
        text, doubtful = speed.compared(result, want, "f")
        assert "5 of 2,000" in text
        assert not doubtful
    text, doubtful = speed.compared((few, many[:7]), want, "f")
    assert "[7]" in text
    assert not doubtful


def test_infinities_and_nan_must_agree():
    want = torch.tensor([float("inf"), float("-inf"), float("nan"), 1.0])
    assert speed.differs(want.clone(), want, "f") == ""
    assert speed.count_wrong(torch.tensor([1.0, 1.0, 1.0, 1.0]), want) == 3


def test_half_precision_sums_in_half_show():
    a, b = torch.randn(64, 4096).half(), torch.randn(4096, 64).half()
    want = (a.float() @ b.float()).half()
    rough = sum((a[:, i : i + 16] @ b[i : i + 16]) for i in range(0, 4096, 16))
    assert speed.count_wrong(want, want) == 0
    assert speed.count_wrong(rough, want) > 0


def test_another_shape_or_dtype_is_told():
    want = torch.zeros(2, 3)
    assert "[6]" in speed.differs(torch.zeros(6), want, "add")
    assert "float16" in speed.differs(torch.zeros(2, 3).half(), want, "add")
    assert "0 tensors" in speed.differs(None, want, "add")


def test_part_of_each_input_gets_its_values_late():
    chance = random.Random(3)
    for shape in ((100_000,), (3, 5), (2,), (1,), (0,), (7, 9_000)):
        tensor = torch.randn(shape)
        right = tensor.clone()
        put_right = speed.hold_back(tensor, chance)
        assert bool((tensor != right).any()) == (tensor.numel() > 1)
        put_right()
        assert torch.equal(tensor, right)


def test_inputs_begin_at_addresses_of_their_own():
    drawn = [CardDraw(seed, "cpu") for seed in range(8)]
    places = {draw.normal((64,), torch.float16).storage_offset() for draw in drawn}
    assert len(places) > 3
    assert all(place * 2 % 256 == 0 for place in places)


def test_sizes_are_halved_until_they_fit():
    halved = speed.smaller({"M": 8192, "N": 4096, "flag": True})
    assert halved == {"M": 4096, "N": 4096, "flag": True}
    with pytest.raises(MemoryError):
        speed.smaller({"n": 100})


def test_sizes_are_learned_without_memory():
    x = CardDraw(0, "meta").normal((1 << 40,), torch.float16)
    assert x.nbytes == 1 << 41


def test_spoiled_results_hold_nothing():
    result = torch.ones(3), torch.ones(3, dtype=torch.int32)
    speed.spoil(result)
    assert result[0].isnan().all()
    assert statistics.mean(result[1].tolist()) == 77


@pytest.mark.parametrize("kata", grading.kernels())
def test_what_a_suite_states_works_where_the_inputs_are(kata):
    """On a card inputs, reference, bound and PyTorch's operation must not meet the processor."""
    whole = grading.suite(kata).KATA
    for statement in map(whole.of, whole.launchers):
        arguments = statement.inputs(CardDraw(0, "meta"), **statement.speed_case)
        exact = [
            a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
            for a in arguments
        ]
        got = [
            torch.empty(shape, dtype=dtype, device="meta")
            for shape, dtype in statement.expected(arguments)
        ]
        try:
            wants = statement.reference(*statement.asked(exact, got))
        except NotImplementedError:
            continue  # it depends on the numbers, which tensors without memory do not have
        for part, want in enumerate(wants if isinstance(wants, tuple) else (wants,)):
            assert want.device.type == "meta"
            if want.dtype.is_floating_point:
                assert statement.allowed_error(part, want, arguments).device.type == "meta"


def test_jobs_with_a_card_each_do_not_wait_for_each_other(tmp_path, monkeypatch):
    """Timing on one card excludes runs on that card, and runs that see all cards, but no other card."""
    monkeypatch.setattr(speed.tempfile, "gettempdir", lambda: str(tmp_path))
    flock = speed.fcntl.flock
    without_waiting = speed.fcntl.LOCK_NB
    monkeypatch.setattr(
        speed.fcntl, "flock", lambda file, mode: flock(file, mode | without_waiting)
    )

    def free(cards: str, alone: bool) -> bool:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", cards)
        try:
            with speed.card_lock(alone):
                return True
        except BlockingIOError:
            return False

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with speed.card_lock(alone=True):
        assert free("1", alone=True)
        assert not free("0", alone=False)
        assert not free("", alone=True)
    assert free("0", alone=True)
