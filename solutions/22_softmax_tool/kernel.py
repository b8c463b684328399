"""Kata 22, softmax_tool: a model that calls your own softmax.

    run_agent(client, model, messages, softmax) -> the text of the model's answer

The model cannot run anything. It can say that it wants a tool called, in a form that was agreed
upon, and wait. The agent around it is a loop: ask; if the model calls a tool, run it, put the result
into the conversation and ask again; if it does not, what it says is the answer.

Type `nox -s check-22` to see how far the agent is; README.md of this kata is the lesson.
"""

import importlib.util
import json
import math
import os
import sys
from pathlib import Path

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LARGEST = torch.finfo(torch.float32).max

# What the model is told about the tool. It sees nothing else of it: the name to call it by, in plain
# words what it is good for, and a JSON schema of the arguments.
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "gpu_softmax",
            "description": "The softmax of a list of numbers, computed on the GPU.",
            "parameters": {
                "type": "object",
                "properties": {"values": {"type": "array", "items": {"type": "number"}}},
                "required": ["values"],
            },
        },
    }
]


def gpu_softmax(values, softmax):
    """The softmax of a list of numbers, as a list of numbers with 4 decimals."""
    # The launcher takes a matrix: here it has one row. Rounding comes last and in Python. In fp32
    # 0.659 does not exist, and the model would have to read 0.6589999794960022.
    x = torch.tensor([values], dtype=torch.float32, device=DEVICE)
    return [round(p, 4) for p in softmax(x)[0].tolist()]


def checked(arguments):
    """The list of numbers in a call's arguments. Raises ValueError if there is none."""
    # A schema is a wish. What comes is a text that a model has written: perhaps no JSON, perhaps
    # JSON of something else. Python's json also reads NaN and Infinity, and its True is an int. And
    # what is larger than fp32 goes would become infinite, with NaN for a softmax, which is no JSON.
    arguments = json.loads(arguments)
    values = arguments.get("values") if isinstance(arguments, dict) else None
    if not isinstance(values, list):
        raise ValueError('the arguments must be an object like {"values": [1.0, 2.0]}')
    for value in values:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or abs(value) > LARGEST:
            raise ValueError(f"values must hold finite fp32 numbers, not {json.dumps(value)}")
    return values


def answer(call, softmax):
    """What the model is told about one of its calls: a list, or {"error": why there is none}."""
    # An error is no end but something to tell the model, which may then do better. So whatever
    # goes wrong in a call, softmax itself included, is caught and becomes its answer.
    try:
        if call.function.name != "gpu_softmax":
            raise ValueError(f"there is no tool {call.function.name}, only gpu_softmax")
        result = gpu_softmax(checked(call.function.arguments), softmax)
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}

    return json.dumps(result)


def run_agent(client, model, messages, softmax, max_turns=5):
    """Talk with the model until it answers without a tool call; the text of that answer."""
    messages = list(messages)

    # A model can go on calling tools for ever, and every request costs: there is a last one.
    for _ in range(max_turns):
        response = client.chat.completions.create(model=model, messages=messages, tools=TOOLS)
        turn = response.choices[0].message
        if not turn.tool_calls:
            return turn.content

        # The server keeps nothing between two requests. What is to be remembered is sent again.
        messages.append(turn)

        # One turn may hold several calls. Each gets an answer of its own, which its id marks.
        for call in turn.tool_calls:
            result = {"role": "tool", "tool_call_id": call.id, "content": answer(call, softmax)}
            messages.append(result)

    raise RuntimeError(f"no answer after {max_turns} requests")


# From here on nothing is left to do: this is what `python kernel.py` runs.

QUESTION = "Turn the scores 2.0, 1.0 and 0.1 into probabilities. Use the tool."


def softmax_of_kata_7():
    """Your own launcher; where there is no GPU, Triton's interpreter runs its kernel."""
    if DEVICE == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    file = Path(__file__).resolve().parents[1] / "07_softmax" / "kernel.py"
    spec = importlib.util.spec_from_file_location("softmax_kernel", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def softmax(x):
        print(f"  the model calls gpu_softmax on {x.shape[1]} numbers ({x.device})")
        return module.softmax(x)

    return softmax


def main():
    """Ask a real model: python kernel.py [QUESTION]. What is missing is said in one line."""
    url, model = os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_MODEL")
    if not url or not model:
        return "set OPENAI_BASE_URL (such as http://localhost:11434/v1) and OPENAI_MODEL"
    try:
        import openai
    except ImportError:
        return f"the client is missing: {sys.executable} -m pip install openai"
    client = openai.OpenAI(base_url=url, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    question = {"role": "user", "content": " ".join(sys.argv[1:]) or QUESTION}
    try:
        print(run_agent(client, model, [question], softmax_of_kata_7()))
    except openai.APIConnectionError:
        return f"no server answers at {url}"
    except openai.APIStatusError as error:
        return f"the server at {url} refuses: {error.message}"
    except RuntimeError as error:
        return f"the model comes to no end: {error}"
    return None


if __name__ == "__main__":
    sys.exit(main())
