"""Turns go back as dicts made by hand; tools stand in a table; arguments are told by keyword."""

import json
from math import isfinite

import torch

NUMBERS = {
    "type": "array",
    "description": "the scores",
    "items": {"type": ["number"]},
    "minItems": 0,
}


def schema(name, **properties):
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": "probabilities of scores",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            },
        },
    }


def is_number(value):
    return type(value) in (int, float) and isfinite(value)


class Softmax:
    def __init__(self, launcher):
        self.launcher = launcher

    def __call__(self, values):
        if type(values) is not list or not all(map(is_number, values)):
            raise TypeError("values: a list of finite numbers is needed")
        row = torch.zeros(1, len(values), device="cuda" if torch.cuda.is_available() else "cpu")
        largest = torch.finfo(row.dtype).max
        for place, value in enumerate(values):
            row[0, place] = min(max(value, -largest), largest)
        return [float(f"{p.item():.4f}") for p in self.launcher(row).flatten()]


def as_dict(turn):
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in turn.tool_calls
    ]
    return {"role": "assistant", "content": turn.content or "", "tool_calls": calls}


def run_agent(client, model, messages, softmax, max_turns=5):
    tools = {"gpu_softmax": Softmax(softmax)}
    talk = [*messages]
    left = max_turns
    while left:
        left -= 1
        choice = client.chat.completions.create(
            messages=talk,
            model=model,
            tools=[schema("gpu_softmax", values=NUMBERS)],
            tool_choice="auto",
            temperature=0,
        ).choices[0]
        if not choice.message.tool_calls:
            break
        talk += [as_dict(choice.message)]
        for call in choice.message.tool_calls:
            try:
                told = tools[call.function.name](**json.loads(call.function.arguments))
            except BaseException as error:
                told = {"error": type(error).__name__, "tool": call.function.name}
            talk += [
                {"role": "tool", "content": json.dumps(told, indent=1), "tool_call_id": call.id}
            ]
    else:
        raise RuntimeError("too many turns")
    return choice.message.content
