"""Kata 22, softmax_tool: `run_agent(client, model, messages, softmax)`, judged by what it says.

The judge plays the model. Its turns are written down below; what the agent answers is looked at,
and how it calls the softmax that it is given.
"""

import json

import torch
from grader.grading import check
from grader.kata import case
from grader.reasons import Waits, Wrong
from grader.talk import Agent, Call, Script, Turn, shown

DONE = "Here you are: these are the probabilities."
VALUES = {"type": "array", "items": {"type": "number"}}
PARAMETERS = {"type": "object", "properties": {"values": VALUES}, "required": ["values"]}
TOOL = {"type": "function", "function": {"name": "gpu_softmax", "parameters": PARAMETERS}}


def script(draw, calls=((3,),), bad=None, tool=None, end=DONE, text=None, empty=False, **more):
    """Turns that call the tool with so many numbers each, then the text `end`.

    bad, tool: other arguments, another tool in the first call of a turn.
    """
    turns = []
    for sizes in calls:
        lists = [draw.normal((n,), mean=0.0, std=2.0).tolist() for n in sizes]
        texts = [json.dumps({"values": [round(v, 2) for v in values]}) for values in lists]
        made = [Call("gpu_softmax", arguments) for arguments in texts]
        made[0] = Call(tool or "gpu_softmax", texts[0] if bad is None else bad)
        turns.append(Turn(text, tuple(made)))
    if end is not None:
        turns.append(Turn(end, empty_list=empty))
    messages = (
        {"role": "system", "content": "You work out probabilities. Leave sums to the tool."},
        {"role": "user", "content": "Turn these scores into probabilities."},
    )
    return Script(tuple(turns), messages, **more)


BAD_JSON = (
    "", "{", '{"values": [1.0, 2.0', "values=[1.0, 2.0]", "{'values': [1.0, 2.0]}", "[1.0, 2.0]",
    "null", '"1.0"',
)  # fmt: skip
BAD_VALUES = (
    "{}", '{"value": [1.0, 2.0]}', '{"values": 1.0}', '{"values": null}', '{"values": "1, 2"}',
    '{"values": {"0": 1.0}}', '{"values": ["1.0", "2.0"]}', '{"values": [1.0, null]}',
    '{"values": [[1.0, 2.0]]}', '{"values": [1.0, NaN]}', '{"values": [1.0, -Infinity]}',
    '{"values": [1.0, 1e999]}', '{"values": [true, false]}',
)  # fmt: skip

KATA = Agent(
    launcher="run_agent",
    parameters=("client", "model", "messages", "softmax"),
    script=script,
    cases=(
        case("one", name="one call"),
        case("one", name="a call of 1 number", calls=[[1]]),
        case("one", name="whole numbers", bad='{"values": [2, 1, -3]}'),
        case("one", name="a call of 300 numbers", calls=[[300]]),
        case("one", name="a call beside a text", text="I shall ask the tool."),
        case("turns", name="calls in three turns", calls=[[3], [2], [4]]),
        case("turns", name="no call", calls=[]),
        case("turns", name="no call, an empty list of them", calls=[], empty=True),
        case("turns", name="no call and no word", calls=[], end=""),
        case("turns", name="calls in four turns", calls=[[2], [2], [2], [2]]),
        case("turns", name="an answer in the last turn", calls=[[2], [2]], max_turns=3),
        case("bound", name="a model that never answers", end=None),
        case("bound", name="never an answer, max_turns=3", end=None, max_turns=3),
        case("bound", name="never an answer, max_turns=8", end=None, max_turns=8),
        case("two", name="two calls in one turn", calls=[[3, 4]]),
        case("two", name="three calls, then two", calls=[[3, 2, 4], [2, 2]]),
        case("mild", name="another softmax", softmax="mild"),
        case("mild", name="the same numbers", bad='{"values": [2, 1, -3]}', softmax="mild"),
        case("empty", name="an empty list", bad='{"values": []}'),
        case("unknown", name="a call of gpu_sum", tool="gpu_sum"),
        case("unknown", name="a call of softmax", tool="softmax"),
        case("unknown", name="a call of gpu_softmax_rows", tool="gpu_softmax_rows"),
        *(case("bad json", name=f"arguments {text or 'empty'}", bad=text) for text in BAD_JSON),
        *(case("bad values", name=f"arguments {text}", bad=text) for text in BAD_VALUES),
        case("too large", name="a number too large for fp32", bad='{"values": [1e300, 0.0]}'),
        case("fails", name="a softmax that raises", softmax="fails"),
        case("beside", name="a bad call beside a good one", calls=[[2, 3]], bad="{"),
    ),
)


def numbers(call):
    """The values in a call's arguments."""
    return json.loads(call["function"]["arguments"])["values"]


def probabilities(talk, call):
    """What the softmax of this talk gives for a call."""
    x = torch.tensor(numbers(call), dtype=torch.float32).double()
    return torch.softmax(x / (2 if talk.script.softmax == "mild" else 1), dim=-1).tolist()


def right(got, want):
    """Whether these are the numbers, the last of 4 places one up or down."""
    if not isinstance(got, list) or len(got) != len(want):
        return False
    pairs = zip(got, want, strict=True)
    return all(type(a) in (int, float) and abs(a - b) <= 1.501e-4 for a, b in pairs)


def requests(talk):
    """The numbers of the requests to look at: those there are, and a second one if it is due."""
    return range(1, max(len(talk.exchanges), min(len(talk.script.turns), 2)) + 1)


def handed(talk, call):
    """How softmax was called for a tool call; Wrong if it was not."""
    due = torch.tensor(numbers(call), dtype=torch.float32).tolist()
    made = [c for c in talk.facts["softmax"] if len(c["values"]) == len(due)]
    if not made:
        raise Wrong(f"the softmax that run_agent is given is not called ({talk.label})", "values")
    return next((c for c in made if c["values"] == due), made[0])


@check("layout", points=10)
def test_schema(kernel):
    """Every request offers gpu_softmax to the model, with values, an array of numbers."""
    for talk in kernel.talks("one", "turns"):
        talk.offers(TOOL, "layout")


@check("grid", points=10)
def test_turns(kernel):
    """A request for every turn, until one calls no tool: its text is returned."""
    for talk in kernel.talks("turns", "one"):
        talk.returns(talk.script.turns[-1].text, "grid")


@check("grid", points=5)
def test_bound(kernel):
    """At most max_turns requests, by default 5; then RuntimeError."""
    for talk in kernel.talks("bound"):
        talk.gives_up(talk.script.max_turns or 5, "grid")


@check("accumulate", points=15)
def test_memory(kernel):
    """Each request holds the whole talk: the caller's messages, every turn of the model."""
    for talk in kernel.talks("one", "two", "turns"):
        for number in requests(talk):
            talk.remembers(number, "accumulate")


@check("offsets", points=15)
def test_answers(kernel):
    """Each call has one answer, in the request that follows, under its own tool_call_id."""
    for talk in kernel.talks("one", "two", "turns"):
        for number in requests(talk):
            answers = talk.answered(number, "offsets")
            wants = [probabilities(talk, call) for call, _ in answers]
            for place, (_, told) in enumerate(answers, 1):
                fits = [n for n, want in enumerate(wants, 1) if right(told, want)]
                if fits and place not in fits:
                    text = f"call {place} is told the result of call {fits[0]} ({talk.label})"
                    raise Wrong(text, "offsets")


@check("values", points=15)
def test_values(kernel):
    """A call is answered with the softmax of its values, worked out by the function given."""
    for talk in kernel.talks("one", "mild", "two"):
        told, call = talk.told(1, 1, "values"), talk.exchanges[0].calls[0]
        made, want = handed(talk, call), probabilities(talk, call)
        if made["shape"] != [1, len(want)]:
            what = f"a tensor of shape {made['shape']}" if made["dtype"] else f"a {made['type']}"
            raise Wrong(f"softmax is handed {what}, not [1, {len(want)}] ({talk.label})", "values")
        if made["dtype"] != "float32":
            raise Wrong(f"softmax is handed {made['dtype']}, not fp32 ({talk.label})", "precision")
        if not right(told, want):
            want = [round(v, 4) for v in want]
            text = f"the model is told {shown(told)}, not {shown(want)} ({talk.label})"
            raise Wrong(text, "values")


@check("precision", points=5)
def test_rounding(kernel):
    """The model reads four decimals and no more."""
    for talk in kernel.talks("one"):
        told = talk.told(1, 1, "precision")
        if not right(told, probabilities(talk, talk.exchanges[0].calls[0])):
            raise Waits("this counts once the values are right (see values)", "values")
        long = [v for v in told if abs(v - round(v, 4)) > 1e-12]
        if long:
            raise Wrong(f"the model is told {long[0]!r}: more than four decimals", "precision")


@check("robust", points=4)
def test_unknown_tool(kernel):
    """A call of another tool is answered with an error; the talk goes on."""
    for talk in kernel.talks("unknown"):
        talk.refused(1, "robust")


@check("robust", points=4)
def test_bad_json(kernel):
    """Arguments that are not a JSON object are answered with an error."""
    for talk in kernel.talks("bad json"):
        talk.refused(1, "robust")


@check("robust", points=5)
def test_bad_values(kernel):
    """Values that are not a list of finite numbers are answered with an error."""
    for talk in kernel.talks("bad values"):
        talk.refused(1, "robust")
    for talk in kernel.talks("too large"):  # an error, or what the softmax is after all
        if not right(talk.told(1, 1, "robust"), [1.0, 0.0]):
            talk.refused(1, "robust")


@check("robust", points=4)
def test_softmax_fails(kernel):
    """A softmax that raises is answered with an error; a valid call beside a bad one is served."""
    for talk in kernel.talks("fails", "beside"):
        talk.refused(1, "robust")
    for talk in kernel.talks("beside"):
        told = talk.told(1, 2, "robust")
        if not isinstance(told, list):
            raise Wrong(f"the good call is told {shown(told)} ({talk.label})", "robust")


@check("robust", points=3)
def test_empty(kernel):
    """An empty list is answered with an empty list."""
    for talk in kernel.talks("empty"):
        told = talk.told(1, 1, "robust")
        if told != []:
            raise Wrong(f"the model is told {shown(told)}, not []", "robust")


@check("robust", points=5, lane="gpu")
def test_on_the_card(kernel):
    """Where there is a card, the tensor that softmax is handed lies there."""
    for talk in kernel.talks("one", lane="gpu"):
        made = handed(talk, talk.request(1, "robust").calls[0])
        if made["device"] == "cpu":
            raise Wrong(f"softmax is handed a tensor on the processor ({talk.label})", "robust")
        talk.returns(DONE, "robust")
