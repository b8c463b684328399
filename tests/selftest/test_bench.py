"""Benchmarks and figures, as far as they can be looked at without a card."""

import dataclasses
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from grader import bench, beside, grading, table
from grader.scorecard import PROJECT

FIGURES = {
    "card": "Test Card",
    "versions": {"PyTorch": "2.13.0", "Triton": "3.7.1"},
    "date": "2026-01-02",
    "rows": [
        {
            "kata": "01_vector_add",
            "size": "n=2^28",
            "kind": "memory",
            "ms": 0.8,
            "rate": 4.0e12,
            "share": 0.9812,
            "torch": 1.0021,
            "torch_interval": [0.9987, 1.0049],
            "itself": 1.0003,
        }
    ],
}


class Fixture:
    """As much of pytest-benchmark's fixture as a stand uses."""

    def __init__(self):
        self.extra_info, self.stats, self.group = {}, None, None

    def pedantic(self, call, args, setup, rounds):
        for _ in range(rounds):
            setup()
            call(*args)
        self.rounds = rounds
        self.stats = SimpleNamespace(stats=SimpleNamespace(median=2e-3))


@pytest.fixture
def stand(monkeypatch, tmp_path):
    """Kata 1 measured on the processor, at two sizes; what it keeps goes to a folder of its own."""
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    monkeypatch.setattr(bench, "FLUSH_MS", 0.001)
    monkeypatch.setattr(bench, "SECONDS", 0.0)
    suite = grading.suite("01_vector_add")
    sizes = (dict(n=1024), dict(n=2**18))
    monkeypatch.setattr(suite, "KATA", dataclasses.replace(suite.KATA, bench_sizes=sizes))
    file = tmp_path / "kernel.py"
    file.write_text("def add(x, y):\n    return x + y\n")
    return bench.Stand("01_vector_add", file, device="cpu")


# Sizes


def test_a_kata_that_names_no_sizes_gets_halves_of_its_speed_case():
    kata = dataclasses.replace(grading.suite("12_matmul").KATA, bench_sizes=())
    sizes = [s["M"] for s in bench.sizes_of(kata)]
    assert sizes == [128, 256, 512, 1024, 2048, 4096]
    assert all(s["M"] == s["N"] == s["K"] for s in bench.sizes_of(kata))


def test_only_the_largest_size_is_halved():
    kata = dataclasses.replace(
        grading.suite("07_softmax").KATA, bench_sizes=(), speed_case=dict(R=1024, C=200)
    )
    assert bench.sizes_of(kata)[-3:] == [dict(R=256, C=200), dict(R=512, C=200), kata.speed_case]


@pytest.mark.parametrize("kata", grading.kernels())
def test_sizes_of_every_kata_can_be_drawn(kata):
    statement = grading.suite(kata).KATA
    costs = [bench.least(statement, sizes) for sizes in bench.sizes_of(statement)]
    moved = [cost.read + cost.written for cost in costs]
    assert moved == sorted(moved)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        (dict(n=2**28), "n=2^28"),
        (dict(R=16384, C=4096), "R=16384 C=4096"),
        (dict(M=512, N=512, K=512), "M=N=K=512"),
        (dict(n=1000, dtype=torch.float16), "n=1000 dtype=float16"),
    ],
)
def test_sizes_in_words(sizes, text):
    assert bench.size_text(sizes) == text


def test_only_matrix_work_is_held_against_the_matrix_rate():
    matrix = [k for k in ("01_vector_add", "03_scale", "07_softmax", "12_matmul")
              if bench.is_matrix(grading.suite(k).KATA)]  # fmt: skip
    assert matrix == ["12_matmul"]


@pytest.mark.parametrize("word", ["1", "01", "01_vector_add"])
def test_names_of_a_kata(word):
    assert bench.named(word) == "01_vector_add"


# Measuring


def test_rates_are_bytes_over_time(stand):
    fixture = Fixture()
    stand.measure(fixture, dict(n=2**18), "PyTorch eager")
    # 3 MiB in 2 ms
    assert fixture.extra_info["rate"] == pytest.approx(3 * 2**20 / 2e-3 / 1e9)
    assert (fixture.group, fixture.rounds) == ("PyTorch eager", bench.FEWEST)
    assert fixture.extra_info["sizes"] == "n=2^18"
    assert fixture.extra_info["ceiling"] > 0


def test_an_exercise_that_is_wrong_is_not_measured(stand):
    stand.calls["solution"] = lambda x, y: x + y  # the real one needs a card
    stand.measure(Fixture(), dict(n=1024), "exercise")
    stand.calls["exercise"] = lambda x, y: x
    with pytest.raises(bench.Unfit, match="wrong at n=1024"):
        stand.measure(Fixture(), dict(n=1024), "exercise")


@pytest.mark.parametrize("text", ["def add(x, y):\n    return x +\n", "other = 1\n"])
def test_a_file_that_gives_no_launcher_is_not_measured(stand, text):
    stand.files["exercise"].write_text(text)
    with pytest.raises(bench.Unfit, match=r"kernel\.py: (SyntaxError|KeyError)"):
        stand.measure(Fixture(), dict(n=1024), "exercise")


def test_what_does_not_fit_is_not_measured(stand):
    with pytest.raises(bench.Unfit, match="does not fit"):
        stand.measure(Fixture(), dict(n=2**30), "PyTorch eager")


def test_table_and_plot(stand, tmp_path):
    pytest.importorskip("matplotlib")
    for size in (1024, 2**18):
        stand.measure(Fixture(), dict(n=size), "PyTorch eager")
    page = stand.finish()
    assert "n=2^18           1.57\n" in page
    assert (tmp_path / "01_vector_add.png").read_bytes().startswith(b"\x89PNG")
    kept = json.loads((tmp_path / "01_vector_add.json").read_text())
    assert [row["size"] for row in kept["rows"]] == ["n=1024", "n=2^18"]


def test_without_matplotlib_one_line_says_what_to_install(stand, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    stand.measure(Fixture(), dict(n=1024), "PyTorch eager")
    assert stand.finish().splitlines()[-1] == bench.NO_PLOT.format(sys.executable)


# Kernels side by side


def test_the_kernels_of_a_file():
    kernel = "@triton.autotune([], [])\n@triton.jit\ndef one(x):\n    pass"
    text = f"import triton\n\n\n{kernel}\n\n\ndef two():\n    pass\n"
    assert bench.own_kernels(text) == kernel


def test_the_kernels_that_the_compiler_writes():
    text = (
        "k = async_compile.triton('k', '''\nimport triton\n\n@triton_heuristics.pointwise(size=1)\n"
        "@triton.jit\ndef k(x):\n    pass\n''', device_str='cuda')\n"
    )
    assert bench.compiled_kernels(text) == "@triton.jit\ndef k(x):\n    pass"
    assert "extern_kernels.mm" in bench.compiled_kernels("extern_kernels.mm(a, b, out=c)")


# Without a card


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["-m", "pytest", "tests/bench.py", "--kata=1"], "needs a GPU"),
        (["-m", "pytest", "tests/bench.py", "--kata=99"], "names no kata"),
        (["-m", "grader.table"], "need a GPU"),
    ],
)
def test_one_line_and_exit_2(command, words):
    pytest.importorskip("pytest_benchmark")
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": "tests", "TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert words in line


# The table of figures


def test_figures_stand_between_their_marks():
    page = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    new = table.insert(page, table.render(FIGURES))
    assert new.startswith(f"before\n{table.BEGIN}\n")
    assert new.endswith(f"{table.END}\nafter\n")
    assert "old" not in new
    assert "Test Card with PyTorch 2.13.0, Triton 3.7.1, on 2026-01-02" in new
    assert (
        "| 01_vector_add | n=2^28 | 0.800 ms | 4,000 GB/s | 0.981 of its copy | "
        "1.002 (0.999 to 1.005) | 1.000 |"
    ) in new
    assert table.insert(new, table.render(FIGURES)) == new


def test_a_page_without_marks_is_left_alone():
    with pytest.raises(ValueError, match="marks"):
        table.insert("nothing here", "figures")


def test_the_page_has_its_marks():
    assert table.insert(table.README.read_text(), table.render(FIGURES))


@pytest.mark.parametrize("kata", grading.kernels())
def test_figures_are_taken_at_64_mebibytes_and_more(kata):
    statement = grading.suite(kata).KATA
    for sizes in statement.figures or (statement.speed_case,):
        cost = bench.least(statement, sizes)
        assert cost.read + cost.written >= 64 << 20


# torch-N


def test_both_speeds_in_turns(stand, monkeypatch):
    monkeypatch.setitem(stand.calls, "torch.compile", stand.statement.baseline)
    monkeypatch.setitem(stand.calls, "solution", stand.statement.baseline)
    found = beside.speeds(stand, dict(n=1024))
    assert set(found) == {"exercise", "torch.compile"}
    assert all(seconds > 0 for seconds in found.values())
    found = {"exercise": 2e-3, "torch.compile": 1e-3}
    shown = beside.table(stand, dict(n=1024), found)
    assert "n=1024" in shown
    assert "0.50 of torch.compile's speed" in shown


def test_a_wrong_kernel_has_no_speed(stand, monkeypatch):
    monkeypatch.setitem(stand.calls, "torch.compile", stand.statement.baseline)
    monkeypatch.setitem(stand.calls, "solution", stand.statement.baseline)
    monkeypatch.setitem(stand.calls, "exercise", lambda x, y: x - y)
    found = beside.speeds(stand, dict(n=1024))
    assert "its check says why" in found["exercise"]
    shown = beside.table(stand, dict(n=1024), found)
    assert shown.count("ms") == 1


def test_a_file_that_does_not_parse_is_shown_as_such():
    assert "no Python" in bench.own_kernels("def add(:\n")
