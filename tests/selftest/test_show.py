"""The picture of a kernel at work: what is in it, against what follows from the kernel by hand."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from grader import grading, picture, sheets, show
from grader.kata import Case
from grader.scorecard import PROJECT
from grader.sheets import ASTRAY, INSIDE, MASKED, OUTSIDE, Sheet

SOLUTION = (PROJECT / "solutions" / "01_vector_add" / "kernel.py").read_text()


@pytest.fixture(scope="module")
def draw(nursery):
    """draw(kata, file) -> the record of a picture, without the compiler's part."""
    drawn: dict = {}

    def one(kata, file):
        if (kata, file) not in drawn:
            seen = picture.Picture(grading.suite(kata).KATA, file, nursery, {}, "katas")
            try:
                drawn[kata, file] = picture.record(seen.example(), seen)
            finally:
                seen.close()
        return drawn[kata, file]

    return one


@pytest.fixture(scope="module")
def solved(draw):
    return lambda kata: draw(kata, PROJECT / "solutions" / kata / "kernel.py")


@pytest.fixture(scope="module")
def mutant(draw):
    return lambda kata, name: draw(kata, PROJECT / "tests" / "mutants" / kata / f"{name}.py")


@pytest.fixture
def written(draw, tmp_path):
    """The picture of kata 1 for a source."""

    def one(source):
        file = tmp_path / "kernel.py"
        file.write_text(source)
        return draw("01_vector_add", file)

    return one


def spread(numbers, stated):
    """Runs as {slot: state}, or as a list of slots."""
    width = 4 if stated else 3
    out = {}
    for at in range(0, len(numbers), width):
        first, step, count = numbers[at : at + 3]
        for i in range(count):
            out[first + i * step] = numbers[at + 3] if stated else None
    return out


def place(tensor, slot):
    """Row and column of a slot in the only panel of a sheet."""
    ((x, y),) = tensor["sheet"]["corners"]
    return slot // tensor["sheet"]["width"] - y, slot % tensor["sheet"]["width"] - x


def elements(tensor, slots):
    """The element numbers that slots inside the only panel stand for."""
    return {row * tensor["sheet"]["columns"] + column for row, column in map(_at(tensor), slots)}


def _at(tensor):
    return lambda slot: place(tensor, slot)


def lanes(data, program, op, name, state=INSIDE, launch=0):
    """The slots in this state that a program's accesses of one kind have in a tensor."""
    number = next(i for i, t in enumerate(data["tensors"]) if t["name"] == name)
    found: set = set()
    for access in data["launches"][launch]["accesses"]:
        if (access["program"], access["op"], access["tensor"]) == (program, op, number):
            found |= {s for s, what in spread(access["lanes"], True).items() if what == state}
    return data["tensors"][number], found


def marked(data, name, mark):
    tensor = next(t for t in data["tensors"] if t["name"] == name)
    return elements(tensor, spread(tensor["marks"].get(mark, []), False))


def kinds(data):
    return [note["kind"] for note in data["notes"]]


# ---- one dimension ------------------------------------------------------------------------------


def test_each_program_of_an_addition_has_its_block(solved):
    """2 1/2 blocks of 1024 and 7 more: two full programs and a ragged one."""
    data = solved("01_vector_add")
    n = 2 * 1024 + 512 + 7
    assert data["case"] == f"n={n}"
    assert data["launches"][0]["programs"] == 3
    for program in range(3):
        mine = set(range(program * 1024, min((program + 1) * 1024, n)))
        for op, name in (("load", "x"), ("load", "y"), ("store", "out")):
            tensor, slots = lanes(data, program, op, name)
            assert elements(tensor, slots) == mine
    tensor, hollow = lanes(data, 2, "load", "x", MASKED)
    assert elements(tensor, hollow) == set(range(n, 3 * 1024))  # where they would go on
    assert data["notes"] == []
    assert data["start"] == {"launch": 0, "program": 2}
    assert data["bytes"]["loaded"] + data["bytes"]["stored"] == 3 * 4 * n
    assert [t["role"] for t in data["tensors"]] == ["input", "input", "result"]


def test_lanes_without_a_mask_stick_out_behind_the_end(mutant):
    data = mutant("01_vector_add", "no_mask_at_all")
    tensor, out = lanes(data, 2, "store", "output", OUTSIDE)
    assert elements(tensor, out) == set(range(2567, 3072))
    assert not lanes(data, 1, "store", "output", OUTSIDE)[1]
    assert kinds(data) == ["outside"] * 3
    assert "tl.load reads 505 elements past the end of x" in data["notes"][0]["text"]
    assert data["start"]["program"] == 2


def test_elements_that_no_program_writes(mutant):
    data = mutant("01_vector_add", "grid_floor_division")
    assert marked(data, "output", "never") == set(range(2048, 2567))
    assert marked(data, "output", "twice") == set()
    assert kinds(data) == ["never"]


def test_elements_that_two_programs_write(mutant):
    """Without its number every program takes the first block."""
    data = mutant("01_vector_add", "offsets_without_pid")
    assert marked(data, "output", "twice") == set(range(1024))
    assert marked(data, "output", "never") == set(range(1024, 2567))
    assert data["start"]["program"] == 1  # the first to write what another has written


def test_wrong_numbers_are_marked(mutant):
    data = mutant("01_vector_add", "subtracts")
    assert marked(data, "output", "wrong") == set(range(2567))
    tensor = data["tensors"][2]
    assert len(tensor["values"]) == picture.MOST_WRONG
    assert re.fullmatch(r"got \S+, want \S+", tensor["values"][0])


def test_before_the_start(written):
    data = written(SOLUTION.replace("tl.load(x_ptr + offsets", "tl.load(x_ptr + offsets - 5"))
    tensor, out = lanes(data, 0, "load", "x", OUTSIDE)
    assert [place(tensor, slot) for slot in sorted(out)] == [(-1, c) for c in range(59, 64)]


def test_nothing_is_written_yet(mutant):
    data = mutant("01_vector_add", "kernel_that_stores_nothing")
    assert kinds(data) == ["nothing"]
    assert data["todo"] is None
    assert marked(data, "output", "never") == set(range(2567))


def test_stub_names_its_first_todo(draw):
    data = draw("01_vector_add", PROJECT / "exercises" / "01_vector_add" / "kernel.py")
    line = data["source"][data["todo"]["line"] - 1]
    assert f"# TODO({data['todo']['concept']})" in line
    assert kinds(data) == ["never", "wrong"]


# ---- rows, tiles and loops ----------------------------------------------------------------------


def test_a_row_without_a_mask_sticks_out_over_its_edge(mutant):
    """Rows of 48 and a block of 64: 16 lanes go on into the next row, or out of the last."""
    data = mutant("07_softmax", "no_mask_at_all")
    assert data["case"] == "R=5, C=48"
    for program in range(5):
        state = ASTRAY if program < 4 else OUTSIDE
        tensor, slots = lanes(data, program, "store", "output", state)
        assert {place(tensor, slot) for slot in slots} == {(program, c) for c in range(48, 64)}
        (store,) = (
            a
            for a in data["launches"][0]["accesses"]
            if (a["program"], a["op"]) == (program, "store")
        )
        met = {(program + 1, c) for c in range(16)} if program < 4 else set()
        assert {place(tensor, slot) for slot in spread(store["landed"], False)} == met
    # In the next row's first 16 columns two programs have written.
    assert marked(data, "output", "twice") == {48 * r + c for r in range(1, 5) for c in range(16)}
    assert data["start"]["program"] == 4


@pytest.mark.parametrize(
    ("kata", "name"),
    [
        ("04_bias_gelu", "flat_blocks"),  # goes on from row to row
        ("15_conv2d", "reordered_by_pytorch"),  # gathers from a padded copy
        ("17_histogram", "autotuned"),  # leaves zeros where nothing is counted
        ("21_fused_moe", "sorted_by_own_kernels"),  # workspaces of several kernels
    ],
)
def test_right_kernels_are_drawn_without_a_mistake(draw, kata, name):
    data = draw(kata, PROJECT / "tests" / "honest" / kata / f"{name}.py")
    assert data["notes"] == []
    assert not any(a["outside"] or a["astray"] for a in picture.every(data["launches"]))


def test_masked_lanes_of_a_row_are_drawn_at_its_end(solved):
    tensor, hollow = lanes(solved("07_softmax"), 2, "load", "x", MASKED)
    assert {place(tensor, slot) for slot in hollow} == {(2, c) for c in range(48, 64)}


def test_turns_of_the_loop_over_k(solved):
    """Tiles of 64: M = 80, N = K = 72. The last program's second turn reads a corner of a."""
    data = solved("12_matmul")
    accesses = [a for a in data["launches"][0]["accesses"] if a["program"] == 3]
    loop = next(i for i, line in enumerate(data["source"], 1) if "for k in range" in line)
    assert [(a["op"], a["moment"], a["loop"], a["turn"]) for a in accesses] == [
        ("load", 0, loop, 1),
        ("load", 0, loop, 1),
        ("load", 1, loop, 2),
        ("load", 1, loop, 2),
        ("store", 2, 0, 1),
    ]
    a = data["tensors"][0]
    inside = {s for s, what in spread(accesses[2]["lanes"], True).items() if what == INSIDE}
    assert {place(a, s) for s in inside} == {(r, c) for r in range(64, 80) for c in range(64, 72)}
    c, tile = lanes(data, 3, "store", "c")
    assert {place(c, s) for s in tile} == {(r, k) for r in range(64, 80) for k in range(64, 72)}


def test_lanes_add_up_to_the_bytes_of_the_record(solved):
    """The picture and the recorder's own sums are of one call."""
    data = solved("12_matmul")
    moved = sum(2 * access["active"] for access in picture.every(data["launches"]))
    assert moved == data["bytes"]["loaded"] + data["bytes"]["stored"]


def test_several_launches_are_told_apart(written):
    halves = SOLUTION.replace(
        "    add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=BLOCK_SIZE)\n",
        "    half = n_elements // 2\n"
        "    add_kernel[grid](x, y, out, half, BLOCK_SIZE=BLOCK_SIZE)\n"
        "    rest = [t.reshape(-1)[half:] for t in (x, y, out)]\n"
        "    add_kernel[grid](*rest, n_elements - half, BLOCK_SIZE=BLOCK_SIZE)\n",
    )
    assert halves != SOLUTION
    data = written(halves)
    assert data["notes"] == []
    assert len(data["launches"]) == 2
    tensor, slots = lanes(data, 0, "store", "out", launch=1)
    assert elements(tensor, slots) == set(range(1283, 1283 + 1024))
    assert marked(data, "out", "twice") == set()


# ---- what does not come to its end --------------------------------------------------------------


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    total = x + y", "    while True:\n        total = x + y", "no answer in time"),
        ("    total = x + y", "    total = x + z", "NameError: name 'z' is not defined"),
        ("    out = torch.empty_like(x)", "    import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("def add(x, y)", "def add(x, y", "SyntaxError"),
        ("def add(", "def plus(", "no function add"),
        ("    return out", "    return None", "returns nothing"),
        ("    return out", "    return out[:5]", "shape [5]"),
    ],
)
def test_a_kernel_that_fails_says_so(written, old, new, says):
    assert old in SOLUTION
    source = SOLUTION.replace(old, new)
    data = written(source)
    assert data["source"] == source.splitlines()
    assert says in next(note["text"] for note in data["notes"] if note["kind"] == "broken")
    assert "@RECORD@" not in show.page(data | {"title": "Kata 1"})


def test_what_ran_before_an_error_is_drawn(written):
    data = written(SOLUTION.replace("    total = x + y", "    total = x + z"))
    assert [(a["op"], a["active"]) for a in data["launches"][0]["accesses"]] == [("load", 1000)] * 2


def test_a_forged_record_counts_as_none():
    access = {"launch": 0, "program": [0, 0, 0], "line": 1, "op": "load", "buffer": 0}
    kept = {"views": [], "whole": True}

    def lanes_of(accesses, places, masks):
        facts = {"kept": kept | {"accesses": accesses}, "buffers": [{"elements": 9}]}
        blobs = [np.array(places, np.int64).tobytes(), bytes(masks)]
        return picture.lanes_of(SimpleNamespace(facts=facts, answer=SimpleNamespace(blobs=blobs)))

    good = [access | {"shape": [2]}]
    assert lanes_of(good, [3, 4], [1, 0])[1][0].tolist() == [3, 4]
    for forged in (
        ([access | {"shape": [3]}], [3, 4], [1, 0]),
        ([access | {"shape": [-1, -2]}], [3, 4], [1, 0]),
        ([access | {"shape": [2], "buffer": 1}], [3, 4], [1, 0]),
        ([access | {"shape": [2], "program": [0]}], [3, 4], [1, 0]),
        ([access], [3, 4], [1, 0]),
        (good, [3, 4], [1]),
    ):
        assert lanes_of(*forged)[1] == []


# ---- sheets -------------------------------------------------------------------------------------


def block(start, *axes):
    """Places of a block: its first one, and (lanes, step) for each axis."""
    out = np.full([n for n, _ in axes], start)
    for axis, (n, step) in enumerate(axes):
        out += (np.arange(n) * step).reshape(-1, *[1] * (len(axes) - axis - 1))
    return out


@pytest.mark.parametrize(
    ("blocks", "rows"),
    [
        # A matrix of 7 x 100. Row by row, in blocks of 128:
        ([block(100 * r, (128, 1)) for r in range(7)], True),
        # As flat memory, in blocks of 128, of 64 and of 1024:
        ([block(128 * p, (128, 1)) for p in range(6)], False),
        ([block(64 * p, (64, 1)) for p in range(11)], False),
        ([block(0, (1024, 1))], False),
        # In tiles of 4 x 64, and of 4 x 256 that are wider than the matrix:
        ([block(400 * m + 64 * n, (4, 100), (64, 1)) for m in (0, 1) for n in (0, 1)], True),
        ([block(400 * m, (4, 100), (256, 1)) for m in (0, 1)], True),
        # Gathered: no even steps at all.
        ([np.array([5, 3, 99])], False),
    ],
)
def test_rows_are_told_from_flat_memory(blocks, rows):
    assert Sheet((7, 100), (100, 1), 0, 700).by_rows(blocks) is rows


def test_pixels_of_an_image_taken_for_one_axis():
    """4 channels of 8 x 10: blocks of 64 pixels go on from row to row, and are no row's overrun."""
    sheet = Sheet((4, 8, 10), (80, 10, 1), 0, 320)
    blocks = [block(64 * p, (4, 80), (64, 1)) for p in (0, 1)]
    assert not sheet.by_rows(blocks)
    look = sheet.look(blocks[0], np.ones((4, 64), bool), False)
    assert set(look.state) == {INSIDE}
    assert (look.panel[63], look.row[63], look.column[63]) == (0, 6, 3)  # pixel 63


def test_transposed_tensor_is_drawn_as_it_is_indexed():
    """A view of 3 x 2 over memory of 2 x 3: element [i, j] lies at 3 j + i."""
    sheet = Sheet((3, 2), (1, 3), 0, 6)
    look = sheet.look(np.array([0, 1, 3, 5]), np.ones(4, bool), False)
    assert list(zip(look.row, look.column, strict=True)) == [(0, 0), (1, 0), (0, 1), (2, 1)]


def test_gap_between_rows_belongs_to_no_element():
    sheet = Sheet((2, 3), (5, 1), 0, 8)
    look = sheet.look(np.array([2, 3, 5, 8]), np.ones(4, bool), False)
    assert list(look.state) == [INSIDE, ASTRAY, INSIDE, OUTSIDE]
    assert list(look.cell) == [2, -1, 3, -1]


def test_lanes_too_far_off_have_no_slot():
    sheet = Sheet((4, 4), (4, 1), 0, 16)
    look = sheet.look(np.array([15, 16, 10**6]), np.ones(3, bool), False)
    sheet.lay_out([look])
    slots = sheet.slots(look)
    assert slots[0] >= 0
    assert slots[1] == slots[0] + sheet.width - 3  # first slot of the row behind the last
    assert slots[2] == -1


def test_runs_say_the_same_in_fewer_numbers():
    draw = np.random.default_rng(7)
    for _ in range(200):
        count = int(draw.integers(0, 30))
        numbers = np.cumsum(draw.choice([1, 1, 1, 2, 5], count))
        states = draw.choice([0, 1], count, p=[0.8, 0.2])
        assert list(spread(sheets.runs(numbers), False)) == list(numbers)
        told = spread(sheets.runs(numbers, states), True)
        assert (list(told), list(told.values())) == (list(numbers), list(states))
    assert sheets.runs(np.arange(1000)) == [0, 1, 1000]


# ---- sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kata", grading.kernels())
def test_every_kata_has_an_example_to_look_at(kata):
    """Small, and ragged for the block that is usual."""
    statement = grading.suite(kata).KATA
    seen = picture.Picture(statement, PROJECT, SimpleNamespace(limits=None), {}, "katas")
    case = seen.chosen(statement.usual_block, 0)
    size, _ = seen._cells(case)
    assert 0 < size <= picture.MOST_CELLS
    assert case.group == "show" or "ragged" in case.group
    seen.close()


def test_example_that_follows_a_huge_block_is_given_up():
    statement = grading.suite("01_vector_add").KATA
    seen = picture.Picture(statement, PROJECT, SimpleNamespace(limits=None), {}, "katas")
    assert seen.chosen((1024,), 1024) == Case("show", {"n": 2567}, "n=2567")
    assert seen.chosen((1 << 17,), 1 << 17).group == "probe"
    seen.close()


# ---- page and command ---------------------------------------------------------------------------


class Reader(HTMLParser):
    """Counts a page's elements, collects the record, and what would be fetched."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.fetched, self.record, self.inside = [], [], "", False
        self.title = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        named = dict(attributes)
        self.fetched += [
            v for k, v in attributes if k in ("src", "href", "srcset", "data", "action")
        ]
        self.inside = named.get("id") == "record"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.record += data


NASTY = '    # </script><script>alert(1)</script> <!-- <script> & \u2028 @RECORD@ @TITLE@ "\\'


def test_source_cannot_leave_its_place_in_the_page(written):
    data = written(SOLUTION.replace("    total = x + y", f"{NASTY}\n    total = x + y"))
    data |= {"title": "Kata 1, <b>"}
    reader = Reader(show.page(data))
    assert reader.tags.count("script") == 2
    assert "b" not in reader.tags
    assert json.loads(reader.record) == json.loads(json.dumps(data))
    assert any("</script><script>alert(1)" in line for line in data["source"])


def test_page_is_one_file(solved):
    page = show.page(solved("01_vector_add") | {"title": "Kata 1"})
    assert Reader(page).fetched == []
    assert not re.search(r"https?:|//\w+\.\w+/|@import|url\(|\bfetch\(|XMLHttp|\bimport\(", page)
    assert len(page) < 100_000


def test_template_knows_the_states_of_the_record():
    text = show.TEMPLATE.read_text()
    stated = re.search(r"const MASKED = (\d), OUTSIDE = (\d), ASTRAY = (\d)", text)
    assert stated is not None
    assert [int(n) for n in stated.groups()] == [MASKED, OUTSIDE, ASTRAY]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["99"], "there is no kata 99; there are 1, 2, "),
        (["1", "--root", "/nowhere"], "there is no /nowhere/01_vector_add/kernel.py"),
        (["1", "--out", str(PROJECT)], "is a folder"),
        (["1", "--size", "7"], "unrecognized arguments: --size 7"),
        ([], "the following arguments are required: kata"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(capsys, words, says):
    with pytest.raises(SystemExit) as ended:
        show.main(words)
    assert ended.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert says in output.err
    assert output.err.count("\n") == 1


def test_a_file_that_is_gone_is_told_how_to_come_back(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(show.progress, "EXERCISES", tmp_path)
    monkeypatch.delenv("KATAS_NOX", raising=False)
    with pytest.raises(SystemExit):
        show.main(["1"])
    gone = f"there is no {tmp_path}/01_vector_add/kernel.py"
    assert capsys.readouterr().err == f"show: {gone}; nox -s reset-1 brings it back\n"


def test_command_writes_the_page(nursery, monkeypatch, capsys, tmp_path):
    """With what the compiler makes of the kernel on every chip."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(show, "Nursery", lambda: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(picture, "collect", lambda *a: collect(*a[:2], nursery, *a[3:]))
    out = tmp_path / "deep" / "page.html"
    assert show.main(["1", "--root", str(PROJECT / "solutions"), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert " ".join(printed.split()) == (
        "Kata 1, vector_add at n=2567: Every element is written, no lane leaves its tensor, and the "
        f"numbers are right. The picture: {out} nox -s show-1 -- --open shows it in a browser."
    )
    assert all(len(line) <= 80 or str(out) in line for line in printed.splitlines())
    data = json.loads(Reader(out.read_text()).record)
    assert data["file"] == "solutions/01_vector_add/kernel.py"
    chips = data["chips"]["rows"]
    assert [row["chip"] for row in chips] == list(grading.suite("01_vector_add").KATA.targets)
    assert all(int(row["registers"]) > 0 for row in chips)


collect = picture.collect


def test_kata_without_a_kernel(monkeypatch, capsys):
    monkeypatch.setattr(show, "Nursery", lambda: SimpleNamespace(close=lambda: None))
    with pytest.raises(SystemExit) as ended:
        show.main(["22"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "show: kata 22 asks for no kernel: there is nothing to draw\n"
    )
