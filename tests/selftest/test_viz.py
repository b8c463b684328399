"""The hand-over to triton-viz: with a stand-in, as the extra itself need not be installed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from grader.viz import example, extra, main

PROJECT = Path(__file__).resolve().parents[2]
STAND_IN = {
    "__init__.py": """
def trace(client):
    assert client == "tracer"
    def around(kernel):
        class Traced:
            def __getitem__(self, grid):
                return lambda *given, **named: print("launched", kernel.fn.__name__, flush=True)
        return Traced()
    return around
""",
    "visualizer/__init__.py": "",
    "visualizer/interface.py": """
def app(environ, start_response):
    print("a request")
    start_response("200 OK", [])
    return [b"its pages"]
""",
}
SERVING = """
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
class Quiet(WSGIRequestHandler):
    def log_message(self, *words): pass
class Threaded(ThreadingMixIn, WSGIServer):
    daemon_threads = True
def make_server(host, port, app, threaded):
    assert threaded
    server = Threaded((host, port), Quiet)
    server.set_app(app)
    return server
"""


@pytest.fixture
def stand_in(tmp_path):
    """A folder with a stand-in for triton-viz and what serves its pages."""
    for name, text in STAND_IN.items():
        file = tmp_path / "triton_viz" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "werkzeug").mkdir()
    (tmp_path / "werkzeug" / "__init__.py").touch()
    (tmp_path / "werkzeug" / "serving.py").write_text(SERVING)
    return tmp_path


@pytest.fixture
def viz(start):
    """Starts viz-N with these words, where Ctrl-C works, before what lies in the folder `with_`."""

    def begin(*words, with_: Path | None = None) -> subprocess.Popen:
        path = os.pathsep.join([*([str(with_)] if with_ else []), str(PROJECT / "tests")])
        return start(
            [sys.executable, "-m", "grader.viz", *words],
            env=os.environ | {"PYTHONPATH": path, "COLUMNS": "100"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    return begin


def test_the_call_of_show_is_handed_over_and_its_pages_are_served_here(stand_in, viz):
    told = viz("7", with_=stand_in)
    assert told.stdout.readline() == "launched softmax_kernel\n"
    said = told.stdout.readline()
    address, rest = said.split(" ", 1)
    assert address.startswith("http://127.0.0.1:")
    assert rest == "shows 07_softmax at R=5, C=48 in triton-viz.\n"
    assert "Ctrl-C" in told.stdout.readline()
    assert urllib.request.urlopen(address, timeout=20).read() == b"its pages"
    told.send_signal(signal.SIGINT)
    # Nothing more, not even what the pages' app prints for each request.
    assert told.communicate(timeout=60) == ("", "")
    assert told.returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["1", "--loud"], "viz-N takes --open and no further words"),
        (["99"], "there is no kata 99 here"),
    ],
)
def test_wrong_use_is_one_line(viz, words, said):
    told = viz(*words)
    _, error = told.communicate(timeout=60)
    assert told.returncode == 2
    assert error.count("\n") == 1
    assert said in error


@pytest.mark.parametrize(
    ("loads", "said"),
    [
        ("raise ModuleNotFoundError(name='triton_viz')", "triton_viz is missing: "),
        ("from triton.runtime import gone", "does not load with Triton"),
    ],
)
def test_an_extra_that_does_not_load_is_one_line(stand_in, loads, said, monkeypatch, capsys):
    (stand_in / "triton_viz" / "__init__.py").write_text(loads)
    monkeypatch.syspath_prepend(stand_in)
    with pytest.raises(SystemExit) as ended:
        extra()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


def test_a_kernel_that_leaves_its_tensors_is_not_run_in_bare_memory(capsys):
    unmasked = PROJECT / "tests" / "mutants" / "01_vector_add" / "no_mask_at_all.py"
    with pytest.raises(SystemExit) as ended:
        example("01_vector_add", unmasked)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "past the end of" in said
    assert "show-1 draws it" in said


def test_a_kata_without_a_kernel_has_nothing_to_look_at(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["22"])
    assert ended.value.code == 2
    assert "asks for no kernel" in capsys.readouterr().err
