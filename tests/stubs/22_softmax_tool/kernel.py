"""Kata 22, softmax_tool: a model that calls your own softmax.

    run_agent(client, model, messages, softmax, max_turns=5) -> the text of the model's answer

client is an openai.OpenAI or an object like it; the loop asks client.chat.completions.create (no
streaming). It offers one tool, gpu_softmax, with one parameter `values`, a list of numbers. A call
is answered with the JSON list of their softmax, rounded to 4 places; an empty list with []; a call
that cannot be served with a JSON object {"error": ...}, after which the talk goes on: an unknown
tool, bad JSON, no list of finite numbers (true and false are none, and what is too large for fp32
may be refused, too; NaN is no JSON), a softmax that raises.
softmax is the launcher of kata 7 and gets a [1, n] fp32 tensor, on the GPU where there is one.
After max_turns requests without an answer run_agent raises RuntimeError.

Fill in the TODOs below, then type `nox -s check-22`. README.md of this kata has a page to read.
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

# TODO(layout): the schema of the tool gpu_softmax, in a list: its name, a description, and an
# object of parameters with `values`, an array of numbers, which is required.
TOOLS = []


def gpu_softmax(values, softmax):
    """The softmax of a list of numbers, as a list of numbers with 4 decimals."""
    # TODO(values): make a [1, n] fp32 tensor on DEVICE, call softmax on it, and round the row that
    # comes back to 4 places, as Python numbers.
    return [1.0]


def checked(arguments):
    """The list of numbers in a call's arguments. Raises ValueError if there is none."""
    # TODO(robust): raise ValueError for what is no JSON object with a list `values` of finite
    # numbers. (json reads NaN and Infinity too, and isinstance(True, int) holds. What is above
    # LARGEST becomes infinite in fp32.)
    return json.loads(arguments)["values"]


def answer(call, softmax):
    """What the model is told about one of its calls: a list, or {"error": why there is none}."""
    # TODO(robust): a tool of another name, and whatever is raised in here, softmax included: the
    # result is then a dict with the key "error".
    result = gpu_softmax(checked(call.function.arguments), softmax)

    return json.dumps(result)


def run_agent(client, model, messages, softmax, max_turns=5):
    """Talk with the model until it answers without a tool call; the text of that answer."""
    messages = list(messages)

    # TODO(grid): ask at most max_turns times (now it is always twice), and return the text of the
    # first turn that calls no tool.
    for _ in range(2):
        response = client.chat.completions.create(model=model, messages=messages, tools=TOOLS)
        turn = response.choices[0].message

        # TODO(accumulate): the server remembers nothing. Let the next request hold this turn.

        # TODO(offsets): one message of role "tool" for each of the calls, with its tool_call_id
        # (now only the first is answered, and under no id).
        for call in (turn.tool_calls or [])[:1]:
            result = {"role": "tool", "tool_call_id": "", "content": answer(call, softmax)}
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
