"""Agents: the scripted server, both clients, and files that do their worst."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from grader import bench, client, grading, talk
from grader.judge import Nursery
from grader.kata import Case, Draw
from grader.reasons import Wrong
from grader.talk import Call, Script, Server, Turn

PROJECT = Path(__file__).resolve().parents[2]
KATA = "22_softmax_tool"
SUITE = grading.suite(KATA)
USER = ({"role": "user", "content": "Now, please."},)
TRACE = {"trace": True, "compile": True, "gpu": False}
HONEST = sorted((PROJECT / "tests" / "honest" / KATA).glob("*.py"))
RIGHT = PROJECT / "solutions" / KATA / "kernel.py"


def openai():
    return pytest.importorskip("openai", reason="the real client is not installed")


def look_alike(url):
    return client.Client(base_url=url)


def real(url):
    openai()
    return client.connect(url)


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


def load(file: Path, monkeypatch):
    """The file as a module; one that imports openai gets it, or what stands in for it."""
    if importlib.util.find_spec("openai") is None:
        monkeypatch.setitem(sys.modules, "openai", SimpleNamespace(OpenAI=client.Client))
    return load_as_it_is(file)


def load_as_it_is(file: Path, *_):
    """The file as a module."""
    spec = importlib.util.spec_from_file_location("agent", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def without_ids(value, ids):
    """A request with the ids of calls numbered."""
    text = json.dumps(value, sort_keys=True)
    for number, one in enumerate(ids):
        text = text.replace(one, f"id {number}")
    return json.loads(text)


# The two clients


@pytest.mark.parametrize("file", [RIGHT, *HONEST], ids=lambda file: file.stem)
def test_both_clients_send_and_give_the_same(server, file, monkeypatch):
    """What a right agent says does not depend on the client that it gets."""
    openai()
    agent = load(file, monkeypatch).run_agent
    for case in SUITE.KATA.cases:
        if case.group in ("bound", "bad values") or case.sizes.get("calls") == [[300]]:
            continue
        script = SUITE.KATA.script(Draw("seed", case.name), **case.sizes)
        said = []
        for connect in (look_alike, real):
            url, line = server.open(script)
            softmax = client.noted_softmax(script.softmax, [])
            text = agent(connect(url), talk.MODEL, list(script.messages), softmax)
            ids = [call["id"] for exchange in line.exchanges for call in exchange.calls]
            said.append((text, without_ids([x.asked for x in line.exchanges], ids)))
        assert said[0] == said[1], case.name


def test_both_clients_give_messages_of_one_kind(server):
    openai()
    calls = (Call("gpu_softmax", "{}"), Call("gpu_softmax", ""))
    turns = (Turn(None, calls), Turn("text", calls[:1]), Turn("text"), Turn(None, empty_list=True))
    for turn in turns:
        shown = []
        for connect in (look_alike, real):
            url, line = server.open(Script((turn,), USER))
            reply = connect(url).chat.completions.create(model="m", messages=USER, tools=[])
            one = reply.choices[0].message
            ids = [call["id"] for call in line.exchanges[0].calls]
            forms = (
                {k: v for k, v in one.model_dump().items() if v is not None},
                one.model_dump(exclude_none=True),
                one.model_dump(exclude_unset=True),
                one.to_dict(),
                json.loads(one.model_dump_json(exclude_unset=True)),
                json.loads(one.to_json()),
                dict(one)["content"],
                [one.role, one.content, one.refusal, one.function_call, reply.id, reply.model],
                [(c.id, c.type, c.function.name) for c in one.tool_calls or []],
                [one.tool_calls == [], one.tool_calls is None],
                [reply.choices[0].finish_reason, reply.usage.total_tokens],
                sorted(set(one.model_dump()) - {"annotations", "audio"}),  # newer ones
            )
            shown.append(without_ids(forms, ids))
        for mine, theirs in zip(*shown, strict=True):
            assert mine == theirs


@pytest.mark.parametrize("connect", [look_alike, real])
def test_a_refused_request_raises_in_the_agent(server, connect):
    url, line = server.open(Script((Turn("text"),), USER))
    with pytest.raises(Exception, match="Error code: 400"):
        connect(url).chat.completions.create(model="m", messages=[1])
    with pytest.raises(TypeError, match="not JSON serializable"):
        connect(url).chat.completions.create(
            model="m", messages=[{"role": "tool", "content": object()}]
        )
    assert line.exchanges == []


def test_nothing_but_the_server_is_talked_to(monkeypatch):
    for name in ("HTTP_PROXY", "https_proxy", "ALL_PROXY", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "http://203.0.113.1:1")
    monkeypatch.setitem(sys.modules, "openai", None)
    client.prepare()
    assert not [k for k in os.environ if k.lower().endswith("_proxy") or k.startswith("OPENAI_")]


# The server


def test_the_last_turn_is_repeated_and_ids_are_new(server):
    url, line = server.open(Script((Turn(None, (Call("gpu_softmax", "{}"),)),), USER))
    for _ in range(3):
        look_alike(url).chat.completions.create(model="m", messages=list(USER))
    ids = {call["id"] for exchange in line.exchanges for call in exchange.calls}
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", "{}"),
        ("/TOKEN/v1/responses", "{}"),
        ("/TOKEN/v1/chat/completions", "no json"),
        ("/TOKEN/v1/chat/completions", "[]"),
        ("/TOKEN/v1/chat/completions", '{"messages": 1}'),
        ("/TOKEN/v1/chat/completions", '{"messages": [], "stream": true}'),
        ("/TOKEN/v1/chat/completions", "[" * 100_000),
        ("/TOKEN/v1/chat/completions", " " * (talk.MOST_BYTES + 1)),
    ],
)
def test_what_the_server_refuses(server, path, body):
    url, line = server.open(Script((Turn("text"),), USER))
    host, token = url.split("/")[2:4]
    connection = http.client.HTTPConnection(host, timeout=5)
    try:
        connection.request("POST", path.replace("TOKEN", token), body)
        assert connection.getresponse().status == 400
    except (BrokenPipeError, ConnectionResetError):
        assert len(body) > talk.MOST_BYTES  # refused before it was read
    finally:
        connection.close()
    assert line.exchanges == []


def test_a_server_keeps_so_many_requests_and_no_more(server):
    url, line = server.open(Script((Turn("text"),), USER))
    ask = look_alike(url).chat.completions.create
    for _ in range(talk.MOST_REQUESTS):
        ask(model="m", messages=list(USER))
    with pytest.raises(ConnectionError, match="too many"):
        ask(model="m", messages=list(USER))
    assert len(line.exchanges) == talk.MOST_REQUESTS


# What is asked of a talk


FUNCTION = {"type": "function", "function": {"name": "gpu_softmax"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [FUNCTION]}}


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ([None, "auto", ALLOWED, "none"], ""),
        (["required", "auto", None, None], ""),
        (["none", None, None, None], 'request 1 .* forbids every call: its tool_choice is "none"'),
        ([None, "required", None, None], "request 2 .* demands a call"),
        ([None, None, None, FUNCTION], "request 4 .* demands a call"),
    ],
)
def test_the_model_may_call_and_may_answer(choices, words):
    """One tool_choice a request, of four that are allowed."""
    line = talk.Line(Script((Turn("text"),), USER, max_turns=4))
    for choice in choices:
        asked = {"model": talk.MODEL, "tools": [SUITE.TOOL], "tool_choice": choice}
        line.exchanges.append(talk.Exchange(asked, {}))
    answer = SimpleNamespace(error=None, facts={})
    seen = talk.Talk(None, Case("one", {}, "a talk"), line.script, line, answer)
    with pytest.raises(Wrong, match=words) if words else contextlib.nullcontext():
        seen.offers(SUITE.TOOL, "layout")


@pytest.mark.parametrize("text", ["[NaN]", '{"a": Infinity}', "[-Infinity]", "", "[1", "[" * 10**5])
def test_what_is_no_json(text):
    assert talk.read(text) is None


# Files that do their worst: the judge survives, and only the file loses


HOSTILE = {
    "endless loop": ("while True: pass", "no answer in time"),
    "sleep": ("import time; time.sleep(100)", "no answer in time"),
    "exit": ("import os; os._exit(0)", "exit code 0"),
    "sys.exit": ("raise SystemExit(0)", "raises SystemExit"),
    "crash": ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    "flood of requests": (
        "while True: client.chat.completions.create(model=model, messages=messages)",
        "30 or more requests|no answer in time",
    ),
    "flood of errors": (
        "while True:\n        try: client.chat.completions.create(model=model, messages=messages)\n"
        "        except Exception: pass",
        "no answer in time",
    ),
    "flood of words": ("print('x' * 1_000_000); return 'done'", "returns"),
    "large request": (
        "client.chat.completions.create(model=model, messages=messages * 100_000)",
        "there is no request|no answer in time",
    ),
    "deep request": (
        "deep = '[' * 900 + ']' * 900; import json\n"
        "    messages = [{'role': 'tool', 'tool_call_id': json.loads(deep), 'content': ''}]\n"
        "    return client.chat.completions.create(model=model, messages=messages)",
        "returns|raises|no answer in time",
    ),
    "odd messages": (
        "odd = [{}, {'role': 7, 'content': [1, {'text': 2}], 'tool_calls': 5},\n"
        "           {'role': 'tool', 'tool_call_id': {}, 'content': 5},\n"
        "           {'role': 'assistant', 'tool_calls': [{'function': 1}, 2]}]\n"
        "    for _ in range(3): client.chat.completions.create(model=model, messages=odd, tools={})",
        "returns NoneType",
    ),
    "many connections": (
        "import socket\n    from urllib.parse import urlsplit\n"
        "    url = urlsplit(str(client.base_url))\n"
        "    kept = [socket.create_connection((url.hostname, url.port)) for _ in range(40)]\n"
        "    return 'done'",
        "there is no request",
    ),
    "replaces json": ("import json; json.loads = len; return 'done'", "replaces json.loads"),
    "recursion": ("return run_agent(client, model, messages, softmax)", "RecursionError"),
    "returns a number": ("return 5", "returns int"),
    "threads": (
        "import threading\n    threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()\n"
        "    return 'done'",
        "returns",
    ),
}


@pytest.fixture(scope="module")
def short_suite(short_katas):
    return short_katas[KATA]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name, tmp_path, nursery, short_suite, hasty):
    body, words = HOSTILE[name]
    file = tmp_path / "kernel.py"
    file.write_text(f"def run_agent(client, model, messages, softmax, max_turns=5):\n    {body}\n")
    card = grading.grade(KATA, file, nursery, TRACE, "hostile")
    assert not [c for c in card.checks if c.status == "error"], card.checks
    assert card.score == 0
    assert any(re.search(words, c.message) for c in card.checks), card.checks


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import nothing_of_that_name\n", "does not import"),
        ("def run(client): pass\n", "no function run_agent"),
        ("def run_agent(client): pass\n", "TypeError"),
        ("while True: pass\n", "import does not end"),
    ],
)
def test_files_that_give_no_agent(source, words, tmp_path, nursery, short_suite, hasty):
    file = tmp_path / "kernel.py"
    file.write_text(source)
    card = grading.grade(KATA, file, nursery, TRACE, "hostile")
    assert card.score == 0
    assert {c.status for c in card.checks} == {"failed", "not-judged"}
    assert any(words in c.message for c in card.checks), [c.message for c in card.checks]


# The kata in the rest of the engine


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_with_a_card_the_tensor_must_lie_there(nursery, short_suite):
    """Without a card there is nowhere else: the gpu lane, asked all the same, says so."""
    card = grading.grade(KATA, RIGHT, nursery, {"gpu": True}, "card")
    (check,) = [c for c in card.checks if c.lane == "gpu"]
    assert check.message.startswith("softmax is handed a tensor on the processor")


def test_what_the_look_alike_lacks_is_said(tmp_path, monkeypatch, short_suite):
    """In processes that are told of no openai, whether it is installed here or not."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'openai' else find(name, *more)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    file = tmp_path / "kernel.py"
    file.write_text("from openai import OpenAI, pydantic_function_tool\n")
    nursery = Nursery()
    card = grading.grade(KATA, file, nursery, TRACE, "lacks")
    nursery.close()
    assert "openai.pydantic_function_tool needs the real client" in card.checks[0].message


def test_an_agent_is_no_kernel(nursery):
    assert KATA in grading.katas()
    assert KATA not in grading.kernels()
    assert bench.trouble("22", None) == f"{KATA} asks for no kernel: there is nothing to measure"


def test_the_report_names_the_lanes_that_it_has(tmp_path):
    scorecard = tmp_path / "card.json"
    command = [
        "-m",
        "pytest",
        f"tests/test_{KATA}.py",
        "--root=solutions",
        f"--scorecard={scorecard}",
    ]
    done = subprocess.run(
        [sys.executable, *command, "--lanes=trace,compile"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "kernel.py | lanes: trace | " in done.stdout.splitlines()[0]
    card = json.loads(scorecard.read_text())
    assert card["lanes"] == {"trace": True, "compile": False, "gpu": False}
    assert (card["score"], card["not_judged"], card["max_score"]) == (95, 5, 100)


# What `python kernel.py` says


@pytest.fixture
def main(monkeypatch, capsys):
    """main(words, url): exit code or last words of the solution as a program, and its output."""

    def run(*words, url=None):
        for name in [name for name in os.environ if name.startswith("OPENAI_")]:
            monkeypatch.delenv(name)
        if url is not None:
            monkeypatch.setenv("OPENAI_BASE_URL", url)
            monkeypatch.setenv("OPENAI_MODEL", "m")
        monkeypatch.setenv("TRITON_INTERPRET", "0")  # it is set by the program, and here restored
        monkeypatch.setattr(sys, "argv", ["kernel.py", *words])
        end = load(RIGHT, monkeypatch).main()
        return end, capsys.readouterr().out.splitlines()

    return run


def test_what_is_missing_is_said_in_one_line(main, monkeypatch):
    assert main()[0].startswith("set OPENAI_BASE_URL")
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.setattr(sys.modules[__name__], "load", load_as_it_is)
    line, printed = main(url="http://127.0.0.1:9/v1")
    assert line == f"the client is missing: {sys.executable} -m pip install openai"
    assert printed == []


def test_it_talks_to_a_server(main, server):
    openai()
    turns = (Turn(None, (Call("gpu_softmax", '{"values": [2, 1, 0.1]}'),)), Turn("That is all."))
    url, line = server.open(Script(turns, USER))
    # A process of its own: in this one other tests may have changed Triton's interpreter.
    other = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    ended = subprocess.run(
        [sys.executable, str(RIGHT), "Go", "on."],
        env=other | {"OPENAI_BASE_URL": url, "OPENAI_MODEL": "m"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "That is all."
    assert line.exchanges[0].messages == [{"role": "user", "content": "Go on."}]
    assert line.exchanges[1].messages[-1]["content"] == "[0.659, 0.2424, 0.0986]"
    assert main(url="http://127.0.0.1:9/v1")[0] == "no server answers at http://127.0.0.1:9/v1"
    assert " refuses: " in main(url=url.removesuffix("/v1"))[0]
