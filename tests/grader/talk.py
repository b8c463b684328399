"""Agents: a kata that asks for a program which talks with a model. Judge side.

The judge plays the model. Its server, on loopback, speaks the chat completions protocol and follows
a script, whatever it is asked; it keeps every request. A worker runs the agent against it (see
`client`), so nothing that the agent does touches the judge, and what it said cannot be taken back.
`Talks` is to an agent what `Evidence` is to a kernel, a `Talk` what a `Run` is.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from .answers import plain
from .evidence import Collected
from .explain import explain
from .judge import CARD_SECONDS, Answer, Child
from .kata import Case, Draw, Statement
from .reasons import NotJudged, Waits, Wrong
from .run import Run
from .speed import card_lock

MODEL = "scripted-model"
MOST_REQUESTS = 30  # of one talk; what comes after them is refused
MOST_BYTES = 1 << 20  # of one request
MOST_LINES = 8  # connections at a time, of all talks of a file
PATIENCE = 20  # seconds that a connection may be silent


# ---- what a suite states ---------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A tool call that the model makes: the tool's name, and its arguments as JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Turn:
    """What the model says when it is asked: a text, tool calls, or both."""

    text: str | None = None
    calls: tuple[Call, ...] = ()
    empty_list: bool = False  # says that there are no calls as [], as some servers do


@dataclass(frozen=True)
class Script:
    """One talk: what the caller hands to the agent, and the model's turns, the last one repeated.

    `softmax` is a kind of `client.noted_softmax`; without `max_turns` the agent's own default holds.
    """

    turns: tuple[Turn, ...]
    messages: tuple[dict, ...]
    max_turns: int | None = None
    softmax: str = "plain"


@dataclass(frozen=True, kw_only=True)
class Agent(Statement):
    """A kata that asks for an agent.

    launcher, parameters, cases   as for every statement
    script   script(draw, **sizes) -> Script: the talk of a case
    """

    script: Callable[..., Script]


# ---- the server ------------------------------------------------------------------------------


@dataclass
class Exchange:
    """One request, and what the model said to it: the message as it went out."""

    asked: dict
    said: dict

    @property
    def messages(self) -> list[dict]:
        """The messages of the request."""
        return self.asked["messages"]

    @property
    def calls(self) -> list[dict]:
        """The tool calls of the answer."""
        return self.said.get("tool_calls") or []


@dataclass
class Line:
    """One talk as the server sees it."""

    script: Script
    exchanges: list[Exchange] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, asked: dict) -> dict:
        """Keep a request; the response to it. Raises ValueError for one that is refused."""
        messages = asked.get("messages")
        if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
            raise ValueError("messages must be a list of objects")
        if asked.get("stream"):
            raise ValueError("this server does not stream")
        with self.lock:
            number = len(self.exchanges)
            if number >= MOST_REQUESTS:
                raise ValueError("too many requests")
            said = message(self.script.turns[min(number, len(self.script.turns) - 1)])
            self.exchanges.append(Exchange(asked, said))
        choice = {"index": 0, "message": said}
        choice["finish_reason"] = "tool_calls" if said.get("tool_calls") else "stop"
        usage = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), 1)
        head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1}
        return head | {"model": MODEL, "choices": [choice], "usage": usage}


def message(turn: Turn) -> dict:
    """A turn as the protocol has it; every call gets an id that nobody can guess."""
    said: dict[str, Any] = {"role": "assistant", "content": turn.text}
    if turn.calls or turn.empty_list:
        said["tool_calls"] = [
            {
                "id": f"call_{secrets.token_hex(6)}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in turn.calls
        ]
    return said


class Server(ThreadingHTTPServer):
    """The scripted server, on loopback, for as long as the context lasts."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lines: dict[str, Line] = {}
        self._elsewhere: list[socket.socket] = []
        self._free = threading.Semaphore(MOST_LINES)

    def open(self, script: Script) -> tuple[str, Line]:
        """A talk of its own: its base URL, and what will have been said there."""
        token = secrets.token_hex(8)
        self.lines[token] = line = Line(script)
        return f"http://127.0.0.1:{self.server_address[1]}/{token}/v1", line

    def listen(self, listening: socket.socket) -> None:
        """Answer on this socket too. In the sandbox loopback is another, which this is a door to."""
        self._elsewhere.append(listening)
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def _accept(self, listening: socket.socket) -> None:
        listening.settimeout(None)
        while True:
            try:
                request, address = listening.accept()
            except OSError:  # it was closed
                return
            self.process_request(request, address)

    def process_request(self, request, client_address) -> None:
        """In a thread, if one of the few is free; otherwise the connection is closed."""
        if self._free.acquire(timeout=1):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address) -> None:
        """What the thread does."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request, client_address) -> None:
        """A connection that breaks is the agent's affair; nothing is printed."""

    def __enter__(self) -> Server:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.shutdown()
        self.server_close()
        for listening in self._elsewhere:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE
    server: Server

    def do_POST(self) -> None:
        try:
            size = int(self.headers.get("Content-Length", ""))
            if not 0 <= size <= MOST_BYTES:
                raise ValueError("too long")
            text = self.rfile.read(size)
            _, token, *rest = self.path.split("/")
            if rest != ["v1", "chat", "completions"]:
                raise ValueError(f"there is no {plain(self.path)[:80]} here")
            asked = json.loads(text)
            if not isinstance(asked, dict):
                raise ValueError("the request is no object")
            self._send(200, self.server.lines[token].answer(asked))
        except (ValueError, KeyError, RecursionError) as error:
            self._send(400, {"error": {"message": str(error)[:200], "type": "invalid_request"}})

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def _send(self, status: int, content: dict) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_) -> None:
        """Nothing is printed."""


# ---- what was seen ---------------------------------------------------------------------------


class Talk:
    """One talk of the agent, and the questions that checks ask of it; they raise `Wrong`."""

    def __init__(self, talks: Talks, case: Case, script: Script, line: Line, answer: Answer):
        self.talks, self.case, self.script = talks, case, script
        self.answer, self.facts = answer, answer.facts
        self.exchanges = list(line.exchanges)

    @property
    def label(self) -> str:
        """The talk in a few words, for messages."""
        return self.case.name

    def survived(self) -> None:
        """The agent came to an end by itself."""
        if self.answer.error is not None:
            # What a crash or a hang means is said as for any other kata.
            run = Run(cast(Any, self.talks), "talk", self.case, None, [], self.answer)
            explain(run, self.answer.error)

    @property
    def end(self) -> str:
        """How the agent came to its end, in words."""
        name = self.talks.statement.launcher
        if "raised" in self.facts:
            raised = self.facts["raised"]
            return f"{name} raises {raised['type']}: {raised['message']}".rstrip(": ")
        text = self.facts.get("text")
        if text is None:
            return f"{name} returns {self.facts['returned']}"
        return f"{name} returns {shown(text)}"

    @property
    def line(self) -> int | None:
        """The line of an error that ended the agent."""
        return (self.facts.get("raised") or {}).get("line")

    def request(self, number: int, cause: str) -> Exchange:
        """The request of this number (from 1); if there is none, the check fails."""
        self.survived()
        if len(self.exchanges) < number:
            text = f"there is no request {number} ({self.label}): {self.end}"
            raise Wrong(text, cause, self.line)
        return self.exchanges[number - 1]

    def returns(self, text: str, cause: str) -> None:
        """The agent returns this text, after as many requests as the script has turns."""
        self.survived()
        if "raised" in self.facts:
            raise Wrong(f"{self.end} ({self.label})", cause, self.line)
        if self.facts["text"] != text:
            raise Wrong(f"{self.end}, not {shown(text)} ({self.label})", cause)
        self.asks(len(self.script.turns), cause)

    def gives_up(self, after: int, cause: str) -> None:
        """The agent raises RuntimeError after exactly so many requests."""
        self.survived()
        self.asks(after, cause)
        if not self.facts.get("runtime"):
            raise Wrong(
                f"{self.end}; after {after} requests without an answer it must raise RuntimeError "
                f"({self.label})",
                cause,
                self.line,
            )

    def asks(self, times: int, cause: str) -> None:
        """The agent made exactly so many requests."""
        made = len(self.exchanges)
        if made != times:
            many = f"{made}{' or more' if made >= MOST_REQUESTS else ''}"
            many += " request is" if made == 1 else " requests are"
            text = f"{many} made, not {times} ({self.label})"
            raise Wrong(
                text + (f"; {self.end}" if "raised" in self.facts else ""), cause, self.line
            )

    def offers(self, tool: dict, cause: str) -> None:
        """Every request names the model and offers one tool, whose schema says what `tool` says.

        Whether to call it is the model's choice. The last request that is allowed may do without a
        tool, for then an answer is all that helps; the first may demand a call.
        """
        last = self.script.max_turns or len(self.script.turns)
        for number in range(1, max(min(len(self.exchanges), last - 1), 1) + 1):
            asked, where = self.request(number, cause).asked, f"request {number} ({self.label})"
            tools = asked.get("tools")
            if asked.get("model") != MODEL:
                text = f"{where} asks for the model {shown(asked.get('model'))}, not the one given"
                raise Wrong(text, cause)
            count = len(tools) if isinstance(tools, list) else 0
            if not isinstance(tools, list) or count != 1:
                raise Wrong(f"{where} offers {count} tools, not 1", cause)
            if lacks(tools[0], tool):
                raise Wrong(f"in the tools of {where}, {lacks(tools[0], tool)}", cause)
            if asked.get("tool_choice") == "none":
                raise Wrong(f'{where} forbids every call: its tool_choice is "none"', cause)
        for number, exchange in enumerate(self.exchanges[1:], 2):
            choice = exchange.asked.get("tool_choice")
            if choice == "required" or (isinstance(choice, dict) and "function" in choice):
                text = f"request {number} ({self.label}) demands a call: its tool_choice is "
                raise Wrong(f"{text}{shown(choice)}, so the model can never answer", cause)

    def remembers(self, number: int, cause: str) -> None:
        """A request holds the talk so far: the caller's messages, then each turn of the model.

        Where a tool's answer stands is looked at too, but not whether there is one.
        """
        messages = self.request(number, cause).messages
        due = [dict(one) for one in self.script.messages]
        due += [exchange.said for exchange in self.exchanges[: number - 1]]
        own = [m for m in messages if m.get("role") != "tool" and not self._added(m)]
        where = f"request {number} ({self.label})"
        for place, want in enumerate(due):
            if place < len(own) and same(own[place], want):
                continue
            if any(same(m, want) for m in own):
                raise Wrong(f"{where} has {described(want)} in another place", cause)
            raise Wrong(f"{where} lacks {described(want)}{instead(own[place:], want)}", cause)
        if len(own) > len(due):
            extra = own[len(due)]
            twice = " once more" if any(same(extra, want) for want in due) else ""
            raise Wrong(f"{where} holds {described(extra)}{twice}", cause)
        known = {call["id"]: turn.said for turn in self.exchanges for call in turn.calls}
        before: dict = {}
        for one in messages:
            if one.get("role") != "tool":
                before = one
            elif str(one.get("tool_call_id")) in known and not same(
                before, known[str(one["tool_call_id"])]
            ):
                text = (
                    f"in {where} a tool's answer does not stand behind the turn that asked for it"
                )
                raise Wrong(text, cause)

    def _added(self, one: dict) -> bool:
        """Whether it is an instruction that the agent itself adds to the caller's messages."""
        instruction = one.get("role") in ("system", "developer")
        return instruction and not any(same(one, want) for want in self.script.messages)

    def answered(self, number: int, cause: str) -> list[tuple[dict, Any]]:
        """A request answers every call so far once, and no other: (call, answer) in their order.

        An answer is read as JSON; None stands for one that is none.
        """
        messages = self.request(number, cause).messages
        calls = [call for turn in self.exchanges[: number - 1] for call in turn.calls]
        due = [call["id"] for call in calls]
        found: dict[str, str] = {}
        where = f"in request {number} ({self.label})"
        for one in messages:
            if one.get("role") != "tool":
                continue
            known = one.get("tool_call_id")
            if not isinstance(known, str) or known not in due:
                raise Wrong(f"{where} a tool_call_id is {shown(known)}, which no call has", cause)
            if known in found:
                raise Wrong(f"{where} one call is answered twice", cause)
            found[known] = content(one)
        if len(found) < len(due):
            text = f"{where} {len(found)} of {len(due)} tool calls are answered"
            raise Wrong(text, cause)
        return [(call, read(found[call["id"]])) for call in calls]

    def told(self, number: int, place: int, cause: str) -> Any:
        """What the model is told of a call, read as JSON: turn `number`, call `place` (from 1).

        An answer without the right id counts by its place; ids have a check of their own.
        """
        messages = self.request(number + 1, cause).messages
        call = self.exchanges[number - 1].calls[place - 1]
        answers = [m for m in messages if m.get("role") == "tool"]
        mine = [m for m in answers if m.get("tool_call_id") == call["id"]]
        earlier = sum(len(turn.calls) for turn in self.exchanges[: number - 1])
        mine = mine or answers[earlier + place - 1 :]
        if not mine:
            text = f"request {number + 1} holds no answer of the tool ({self.label})"
            raise Waits(text, cause)
        told = read(content(mine[0]))
        if told is None:
            text = f"the tool's answer is no JSON: {shown(content(mine[0]))} ({self.label})"
            raise Wrong(text, cause)
        return told

    def refused(self, place: int, cause: str) -> None:
        """This call of the first turn is answered with an error, and the talk goes on."""
        told = self.told(1, place, cause)
        if not isinstance(told, dict) or "error" not in told:
            text = f'the model is told {shown(told)}, not an object with "error" ({self.label})'
            raise Wrong(text, cause)


class Talks(Collected):
    """What the judge collected about one file that holds an agent."""

    configs = 1

    def __init__(self, agent: Agent, *arguments, **named):
        self.kata = agent
        super().__init__(agent, *arguments, **named)

    def collectors(self) -> dict[str, Callable[[], list]]:
        """The talks as any machine can have them, and once more with a card in sight."""
        return {"trace": partial(self._collect, "talk"), "gpu": self._collect_on_card}

    def _collect_on_card(self) -> list[Talk]:
        with card_lock(alone=False):
            return self._collect("card talk")

    def _collect(self, lane: str) -> list[Talk]:
        child = self._child(lane)
        cases = [case for case in self.kata.cases if case.group not in self.without]
        try:
            with Server() as server:
                if self.nursery.sandbox is not None:
                    child.request["port"] = server.server_address[1]
                    child.answering = server.listen
                return [self._talk(server, child, case) for case in cases]
        finally:
            child.stop()
            self.printed = self.printed or child.printed

    def _talk(self, server: Server, child: Child, case: Case) -> Talk:
        case = case.settled(())
        draw = Draw(self.seed, f"{self.kata.launcher}|{case.group}|{case.name}")
        script = self.kata.script(draw, **case.sizes)
        url, line = server.open(script)
        request = {
            "url": url,
            "model": MODEL,
            "messages": list(script.messages),
            "max_turns": script.max_turns,
            "softmax": script.softmax,
        }
        seconds = CARD_SECONDS if child.lane == "card talk" else None
        return Talk(self, case, script, line, child.call(request, [], seconds))

    def talks(self, *groups: str, lane: str = "trace") -> list[Talk]:
        """The talks of these groups. Raises NotJudged where the lane is off."""
        if lane not in self._futures:
            raise NotJudged(f"the {lane} lane is off")
        found = [t for t in self._futures[lane].result() if t.case.group in groups]
        if not found:
            raise NotJudged("these cases were left out")
        return found


def lacks(got: Any, due: Any, path: str = "") -> str:
    """What a JSON value does not have of what is due, in words; "" if it has all of it.

    Of an object these members, of a list these items; a list of values that are allowed may stand
    for the one that is due.
    """
    if isinstance(due, dict) and isinstance(got, dict):
        found = (lacks(got.get(k), v, f"{path}.{k}".strip(".")) for k, v in due.items())
        return next(filter(None, found), "")
    if got == due or (isinstance(got, list) and due in got):
        return ""
    if isinstance(due, list) and isinstance(got, list) and all(item in got for item in due):
        return ""
    return f"{path} is {shown(got)}, not {shown(due)}"


# ---- messages --------------------------------------------------------------------------------


def content(one: dict) -> str:
    """The text of a message, which may come in parts."""
    found = one.get("content")
    if isinstance(found, list):
        found = "".join(str(p.get("text", "")) for p in found if isinstance(p, dict))
    return found if isinstance(found, str) else ""


def read(text: str) -> Any:
    """JSON as a value; None if it is none. NaN and Infinity are none, though Python writes them."""
    try:
        return json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return None


def _no_json(word: str) -> None:
    raise ValueError(word)


def same(got: dict, want: dict) -> bool:
    """Whether two messages say the same: role, text, tool calls."""
    if got.get("role") != want.get("role") or content(got) != content(want):
        return False
    mine, theirs = (one.get("tool_calls") or [] for one in (got, want))
    if not isinstance(mine, list) or len(mine) != len(theirs):
        return False
    return all(same_call(*both) for both in zip(mine, theirs, strict=True))


def same_call(got: Any, want: dict) -> bool:
    """Whether two tool calls are one; their arguments may be spaced differently."""
    if not isinstance(got, dict) or not isinstance(got.get("function"), dict):
        return False
    if (got.get("id"), got.get("type")) != (want["id"], want["type"]):
        return False
    if got["function"].get("name") != want["function"]["name"]:
        return False
    texts = [one["function"].get("arguments") for one in (got, want)]
    if texts[0] == texts[1]:
        return True
    try:
        first, second = (json.loads(text) for text in texts)
        return bool(first == second)
    except (TypeError, ValueError, RecursionError):
        return False


def described(one: dict) -> str:
    """A message in a few words."""
    role = plain(str(one.get("role")))[:20]
    calls = one.get("tool_calls")
    if role == "assistant" and calls:
        many = len(calls) if isinstance(calls, list) else 1
        return f"the assistant's turn with {many} tool call{'s' if many > 1 else ''}"
    owner = "the assistant's" if role == "assistant" else f"the {role}'s"
    return f"{owner} message {shown(content(one))}"


def instead(there: list[dict], want: dict) -> str:
    """What stands in the place of a turn of the model, or what of it is another; "" for neither."""
    if not there or there[0].get("role") != "assistant":
        return ""
    if described(there[0]) != described(want):
        return f"; instead there is {described(there[0])}"
    if content(there[0]) != content(want):
        return f" as it was: its text is {shown(content(there[0]))}, not {shown(content(want))}"
    return " as it was: its calls are not those that the model made"


def shown(value: Any) -> str:
    """A value in a message, cut short and safe to print."""
    try:
        text = f'"{plain(value)}"' if isinstance(value, str) else json.dumps(value)
    except RecursionError:
        text = "something nested very deeply"
    return text if len(text) <= 60 else text[:57] + "..."
