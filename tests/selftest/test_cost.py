"""The report's estimate, held against figures worked out by hand."""

import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from grader import cost, grading
from grader.chips import CARDS
from grader.evidence import Evidence
from grader.kata import Cost
from grader.report import render
from grader.scorecard import PROJECT, Check, Scorecard

CARD = {card.name.split()[0]: card for card in CARDS if card.name != "RTX 4090"}
CARD["RTX 4090"] = next(card for card in CARDS if card.name == "RTX 4090")


def launch(**facts):
    """One kernel as the compile lane describes it."""
    usual = {
        "target": "sm_90",
        "ok": True,
        "registers": 32,
        "spills": 0,
        "shared": 0,
        "occupancy": {"share": 1.0, "limit": "warps"},
        "tensor_cores": False,
        "fits": True,
        "fits_note": None,
    }
    return usual | facts


# Work and bounds


def test_the_cost_of_an_addition_of_2_to_the_28():
    # Two tensors of 2^28 fp32 in, one out: 3 GiB; one addition an element.
    least = cost.at_speed_size(grading.suite("01_vector_add").KATA)
    assert (least.read, least.written, least.flops) == (2**31, 2**30, 2**28)
    # 268435456 operations on 3221225472 bytes: 1 on 12.
    assert cost.work(least, "n=7") == (
        "268 Mflop on 3.22 GB at n=7: 0.0833 operations a byte (arithmetic intensity)"
    )


@pytest.mark.parametrize(
    ("card", "seconds"),
    [
        ("A100", 3221225472 / 2.039e12),  # 1580 us
        ("RTX 4090", 3221225472 / 1.008e12),  # 3196 us
        ("H100", 3221225472 / 3.35e12),  # 962 us
        ("H200", 3221225472 / 4.8e12),  # 671 us
        ("MI300X", 3221225472 / 5.3e12),  # 608 us
    ],
)
def test_an_addition_is_bound_by_memory(card, seconds):
    bound = cost.roofline(Cost(2**31, 2**30, 2**28), CARD[card])
    assert bound == (pytest.approx(seconds), "memory")


@pytest.mark.parametrize(
    ("card", "seconds"),
    [
        ("A100", 137438953472 / 312e12),  # 441 us
        ("RTX 4090", 137438953472 / 165.2e12),  # 832 us
        ("H200", 137438953472 / 989.5e12),  # 139 us
        ("MI300X", 137438953472 / 1307.4e12),  # 105 us
    ],
)
def test_a_product_of_4096_is_bound_by_the_matrix_units(card, seconds):
    least = cost.at_speed_size(grading.suite("12_matmul").KATA)
    # 2 * 4096^3 operations on three matrices of 32 MiB
    assert (least.read, least.written, least.flops) == (2**26, 2**25, 2**37)
    assert cost.roofline(least, CARD[card]) == (pytest.approx(seconds), "arithmetic")


def test_much_arithmetic_outside_the_matrix_units_is_held_against_the_fp32_rate():
    # 40 operations a byte: an RTX 4090 does 82.6e12 a second on 1.008e12 bytes, and keeps up;
    # an A100 does 19.5e12 on 2.039e12 bytes, and does not.
    work = Cost(500_000_000, 500_000_000, 40_000_000_000)
    assert cost.roofline(work, CARD["RTX 4090"]) == (pytest.approx(1e9 / 1.008e12), "memory")
    assert cost.roofline(work, CARD["A100"]) == (pytest.approx(4e10 / 19.5e12), "arithmetic")
    labels = [text.split(":")[0] for _, text in cost.bounds(work)]
    assert sorted(labels) == ["bound by arithmetic", "bound by memory"]


def test_a_card_without_figures_has_no_bound():
    assert cost.roofline(Cost(1, 1, 1), CARD["B200"]) is None


def test_every_card_that_is_shown_is_in_the_table():
    (label, text), *others = cost.bounds(Cost(2**31, 2**30, 2**28))
    assert (label, others) == ("at best", [])
    assert text == (
        "bound by memory: RTX 4090 3,196 us, A100 1,580 us, H100 962 us, H200 671 us, MI300X 608 us"
    )


@pytest.mark.parametrize(
    ("value", "text"), [(1365.3, "1,365"), (99.94, "99.9"), (0.08333, "0.0833"), (20, "20")]
)
def test_figures_have_three_digits(value, text):
    assert cost.figure(value) == text


# Bytes that were seen to move


def test_traffic_is_held_against_the_fewest_bytes():
    kata = grading.suite("12_matmul").KATA
    arguments = kata.inputs(cost.CardDraw(0, "meta"), M=64, N=32, K=16)
    # Least: 64*16 + 16*32 in, 64*32 out, 2 bytes each: 3072 and 4096. Here a was loaded twice.
    buffers = [
        {"loaded_bytes": 4096, "stored_bytes": 0},
        {"loaded_bytes": 1024, "stored_bytes": 0},
        {"loaded_bytes": 0, "stored_bytes": 4096},
    ]
    run = SimpleNamespace(
        facts={"buffers": buffers},
        kata=kata,
        arguments=arguments,
        case=SimpleNamespace(name="M=64"),
    )
    assert cost.traffic(run) == (
        "5,120 bytes loaded, 4,096 stored at M=64: 1.29 times the fewest possible"
    )


# What the compiler made of it


def test_one_kernel_in_full():
    occupancy = {"share": 0.1875, "limit": "shared memory"}
    one = launch(registers=72, shared=65536, occupancy=occupancy, tensor_cores=True)
    assert cost.resources([one]) == (
        "72 registers a thread, nothing spilled, 65,536 bytes of shared memory, "
        "occupancy 19% (limited by shared memory), tensor cores in use"
    )


def test_several_configs_give_ranges():
    text = cost.resources([launch(registers=14), launch(registers=30, spills=8)])
    assert text == (
        "2 variants: 14 to 30 registers a thread, 0 to 8 bytes spilled, no shared memory, "
        "occupancy 100%, no tensor cores"
    )


def test_other_chips_are_named_where_they_have_trouble():
    answers = [
        {"launches": [launch()]},
        {
            "launches": [
                launch(target="sm_80"),
                launch(target="sm_89", fits=False, fits_note="needs too much"),
                launch(target="gfx942", registers=None, spills=None, occupancy=None),
            ]
        },
    ]
    found = cost.compiled(answers, ("sm_90", "sm_80", "sm_89", "gfx942"))
    assert [label for label, _ in found] == ["sm_90", "sm_89"]
    assert found[1] == ("sm_89", "needs too much")


def test_a_chip_whose_registers_are_not_known():
    text = cost.resources([launch(registers=None, spills=None, occupancy=None)])
    assert text == "no shared memory, no tensor cores"


# The section as a whole


@pytest.fixture(scope="module")
def pages(nursery, short_kata):
    """The sections of kata 1's solution and stub."""
    found = {}
    for root in ("solutions", "exercises"):
        file = PROJECT / root / "01_vector_add" / "kernel.py"
        evidence = Evidence(short_kata, file, nursery, {"trace": True, "compile": True}, "cost")
        evidence.trace("full")
        evidence.compiled()
        found[root] = cost.paragraphs(evidence)  # not `section`: an error must show here
        evidence.close()
    return found


def test_a_right_kernel_gets_the_section(pages):
    labels = [label for label, _ in pages["solutions"]]
    assert labels == ["moves", "work", "at best", "sm_80"]
    texts = dict(pages["solutions"])
    # The largest case that is left is of 5 blocks of 1024: 2 * 20480 bytes in, 20480 out.
    assert texts["moves"].startswith("40,960 bytes loaded, 20,480 stored at n=5120: 1.00 times")
    assert re.match(r"\d+ registers a thread, nothing spilled, no shared memory", texts["sm_80"])


def test_a_kernel_with_wrong_values_gets_none(pages):
    assert pages["exercises"] == []


def test_a_kernel_that_leaves_elements_out_gets_none(short_kata, nursery, tmp_path):
    source = (PROJECT / "solutions" / "01_vector_add" / "kernel.py").read_text()
    short = source.replace("(triton.cdiv(n_elements, BLOCK_SIZE),)", "(1,)")
    assert short != source
    file = tmp_path / "kernel.py"
    file.write_text(short)
    evidence = Evidence(short_kata, file, nursery, {"trace": True}, "cost")
    evidence.trace("full")
    assert cost.paragraphs(evidence) == []
    evidence.close()


def test_a_sum_that_is_not_whole_yet_gets_none(pages, monkeypatch):
    monkeypatch.setattr(cost, "paragraphs", lambda evidence: pages["solutions"])
    evidence, verdict = SimpleNamespace(), Check("deep", "accumulate", "trace", 15)
    verdict.decide("failed")
    assert cost.section(evidence, [verdict]) == []
    verdict.decide("passed")
    assert cost.section(evidence, [verdict]) == pages["solutions"]


def test_nothing_that_goes_wrong_gets_out():
    assert cost.section(None) == []
    assert cost.section(SimpleNamespace(finished=lambda lane: 1 / 0)) == []


def test_lanes_that_are_not_done_are_not_waited_for():
    assert cost.section(SimpleNamespace(finished=lambda lane: False)) == []


@pytest.mark.parametrize("columns", [40, 80])
def test_it_fits_the_terminal(pages, monkeypatch, tmp_path, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    card = Scorecard("01_vector_add", "kernel.py", {}, {}, [])
    page = render(card, tmp_path / "kernel.py", None, cost=pages["solutions"]).splitlines()
    at = page.index("  cost (an estimate, earns no points)")
    end = page.index("", at)
    assert max(map(len, page[at:end])) <= columns
    assert end - at <= (10 if columns == 80 else 20)


def test_it_is_not_there_when_there_is_nothing_to_say(tmp_path):
    card = Scorecard("01_vector_add", "kernel.py", {}, {}, [])
    assert "estimate" not in render(card, tmp_path / "kernel.py", None)


LEARN_SIZES = """
import sys
from grader import cost, grading
for kata in grading.kernels():
    whole = grading.suite(kata).KATA
    for statement in map(whole.of, whole.launchers):
        cost.at_speed_size(statement)
        assert "torch._dynamo" not in sys.modules, f"the inputs of {kata}"
"""


def test_what_a_size_takes_is_learned_without_loading_pytorchs_compiler():
    """Two seconds of a check. `x * 2` loads it where x has no memory, `x.mul_(2)` does not."""
    done = subprocess.run(
        [sys.executable, "-c", LEARN_SIZES], cwd=PROJECT / "tests", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
