"""The agent of the lesson."""

import json
import math

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LARGEST = torch.finfo(torch.float32).max

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
    x = torch.tensor([values], dtype=torch.float32, device=DEVICE)
    return [round(p, 4) for p in softmax(x)[0].tolist()]


def checked(arguments):
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
    try:
        if call.function.name != "gpu_softmax":
            raise ValueError(f"there is no tool {call.function.name}, only gpu_softmax")
        result = gpu_softmax(checked(call.function.arguments), softmax)
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}

    return json.dumps(result)


def run_agent(client, model, messages, softmax, max_turns=5):
    messages = list(messages)

    for _ in range(max_turns):
        response = client.chat.completions.create(model=model, messages=messages, tools=TOOLS)
        turn = response.choices[0].message
        if not turn.tool_calls:
            return turn.content

        messages.append(turn)

        for call in turn.tool_calls:
            result = {"role": "tool", "tool_call_id": call.id, "content": answer(call, softmax)}
            messages.append(result)

    raise RuntimeError(f"no answer after {max_turns} requests")
