"""Submissions of every odd kind, each with the exact scorecard that it must get.

golden/NAME/01_vector_add holds a kernel.py and, beside it, expected.json. Files that an editor or
git might change on the way are made here instead. After a change of the grader's words, look at
each difference and then write the new ones with KATAS_UPDATE_GOLDEN=1.
"""

import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from grader.grading import grade
from grader.report import render

GOLDEN = Path(__file__).parent / "golden"
KATA = "01_vector_add"
UPDATE = os.environ.get("KATAS_UPDATE_GOLDEN")

RIGHT = (GOLDEN / "right" / KATA / "kernel.py").read_bytes()
MADE = {
    "byte_order_mark": b"\xef\xbb\xbf" + RIGHT,
    "carriage_returns": RIGHT.replace(b"\n", b"\r\n"),
    "declared_latin_1": b"# coding: latin-1\n# f\xfcr alle\n" + RIGHT,
    "undeclared_latin_1": b"# f\xfcr alle\n" + RIGHT,
    "utf_16": RIGHT.decode().encode("utf-16"),
    "zero_bytes": RIGHT + b"\0",
    "binary_rubbish": random.Random(0).randbytes(5000),
    "greek_names": RIGHT.replace(b"offsets", "αβγ".encode()),
    "long_file": RIGHT + b"# padding\n" * 30_000,
    "two_megabytes": RIGHT + b"# padding\n" * 200_000,
}
ELSEWHERE = {"kills_its_parent", "stops_its_parent"}  # in test_judge: they cost seconds
NAMES = sorted({path.name for path in GOLDEN.iterdir()} - ELSEWHERE | set(MADE))
# What a launcher returns, and what surrounds it, is nothing that the compile lane looks at.
TRACE_ONLY = ("returns_", "view_", "wrong_", "wants_", "error_", "result_", "sparse", "expanded")
TRACE_ONLY += ("subclass", "asks_for_", "patched_tolerance", "leaves_", "sets_", "writes_past")
PASS = {
    *("asks_for_interpreter byte_order_mark carriage_returns changes_directory declared_latin_1 "
      "forks_and_waits greek_names launcher_is_an_object leaves_threads long_file "
      "optional_parameter outlived_by_child patched_tolerance print_flood right sets_defaults "
      "stderr_flood symlink view_of_new_memory wants_gradients").split()
}  # fmt: skip


def file_of(name: str, folder: Path) -> Path:
    if name not in MADE:
        return GOLDEN / name / KATA / "kernel.py"
    file = folder / name / KATA / "kernel.py"
    file.parent.mkdir(parents=True)
    file.write_bytes(MADE[name])
    return file


@pytest.fixture(scope="module")
def cards(request, nursery, short_katas, hasty, tmp_path_factory):
    """The scorecards of all submissions that are asked for, two at a time: none disturbs another."""
    wanted = [
        item.callspec.params["name"]
        for item in request.session.items
        if item.module is request.module and item.originalname == "test_scorecard"
    ]
    folder = tmp_path_factory.mktemp("golden")

    def one(name):
        lanes = {"trace": True, "compile": not name.startswith(TRACE_ONLY), "gpu": False}
        return grade(KATA, file_of(name, folder), nursery, lanes, "golden")

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(wanted, pool.map(one, wanted), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_scorecard(name, cards):
    card = cards[name]
    seen = card.as_json()
    del seen["environment"], seen["file"]
    path = GOLDEN / name / KATA / "expected.json"
    text = json.dumps(seen, indent=1, ensure_ascii=False) + "\n"
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text.splitlines() == path.read_text().splitlines()
    assert card.success == (name in PASS)
    page = render(card, Path(card.file), None)
    for trace_of_ours in ("Traceback", "tests/grader", "grader itself"):
        assert trace_of_ours not in page
