"""Every attack in tests/hostile is caught by what it states, and every honest twin passes whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from grader import hostile, judge, sandbox
from grader.grading import grade
from grader.judge import TESTS, Nursery

pytestmark = pytest.mark.skipif(bool(sandbox.trouble()), reason=sandbox.trouble() or "-")

KEPT = {attack.name: attack for attack in hostile.kept()}
TWINS = sorted({(a.kata, a.twin) for a in KEPT.values()})


@pytest.fixture(scope="module")
def locked_up():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "MOST_HANGS", 1)
        patch.setattr(judge, "MOST_CRASHES", 1)
        nursery = Nursery(sandbox.choose("bwrap"), hostile.LIMITS)
        yield nursery
        nursery.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("made")
    return {attack.name: attack for attack in hostile.made(folder)}


def test_there_are_enough_of_them():
    assert len(KEPT) + len(hostile.MADE) >= 40
    assert not set(KEPT) & set(hostile.MADE)
    twins = {twin for _, twin in TWINS}
    assert {*hostile.FOLDER.glob("*/honest/*.py")} == twins  # none is there for nothing


@pytest.mark.parametrize("name", [*KEPT, *hostile.MADE])
def test_an_attack_is_caught(name, locked_up, made, short_katas, hasty, monkeypatch):
    attack = KEPT.get(name) or made[name]
    if attack.which == "limit reached":  # which comes first, however slow the machine is
        monkeypatch.setattr(judge, "CASE_SECONDS", 20)
    card = hostile.attempt(attack.kata, attack.file, locked_up)
    assert hostile.uncaught(attack, card) == ""


@pytest.mark.parametrize(("kata", "twin"), TWINS, ids=lambda value: getattr(value, "stem", value))
def test_an_honest_twin_passes_whole(kata, twin, locked_up, short_katas, hasty):
    card = hostile.attempt(kata, twin, locked_up)
    assert hostile.suspected(card) == ""
    assert card.success


def test_known_sizes_help_where_sizes_are_not_drawn(locked_up, short_katas, hasty):
    """So it is the drawing of sizes that catches this one."""
    attack = KEPT["hard_coded_sizes"]
    card = grade(attack.kata, attack.file, locked_up, hostile.LANES, "x", drawn_sizes=False)
    assert card.success


def test_a_file_that_shows_each_lane_another_kernel(locked_up, short_katas):
    """By what the same call launches; an honest choice of kernels by size is no such thing."""
    both = hostile.LANES | {"compile": True}
    attack = KEPT["has_two_faces"]
    card = grade(attack.kata, attack.file, locked_up, both, "x")
    (evidence,) = [f["evidence"] for f in card.flags if f["flag"] == "lanes differ"]
    assert evidence.startswith("run_kernel (line 18) does the work (n=")
    chooses = TESTS / "honest" / "17_histogram" / "compared_with_every_bin.py"
    card = grade("17_histogram", chooses, locked_up, both, "x")
    assert card.flags == []


def test_what_is_not_caught_is_told():
    """The proof above can fail: a right kernel is no attack that a check would catch."""
    attack = KEPT["torch_in_launcher"]
    card = type("Card", (), {"checks": [], "flags": []})
    assert "(passed)" in hostile.uncaught(attack, card)
    with pytest.raises(ValueError, match="does not state what catches it"):
        hostile.stated("x", "01_vector_add", Path("x.py"), "Only words.\n\nTwin: plain.py.")
