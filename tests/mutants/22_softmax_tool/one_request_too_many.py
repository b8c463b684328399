"""grid: max_turns counts the rounds of tool calls, the last answer comes on top

symptom: max_turns=3 makes 4 requests
"""

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
            "description": "Softmax of a list of numbers on the GPU",
            "parameters": {
                "type": "object",
                "properties": {"values": {"type": "array", "items": {"type": "number"}}},
                "required": ["values"],
            },
        },
    }
]


def read_values(arguments):
    """The numbers in a call's arguments; ValueError for anything else."""
    given = json.loads(arguments)
    if not isinstance(given, dict) or not isinstance(given.get("values"), list):
        raise ValueError("values must be a list of numbers")
    for value in given["values"]:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{value!r} is no number")
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise ValueError(f"{value!r} is not finite in fp32")
    return given["values"]


def call_softmax(values, softmax):
    """Softmax of a list, rounded."""
    x = torch.tensor([values], dtype=torch.float32, device=DEVICE)
    return [round(p, 4) for p in softmax(x)[0].tolist()]


def serve(call, softmax):
    """The content of the tool message for one call."""
    try:
        if call.function.name != "gpu_softmax":
            raise ValueError(f"unknown tool {call.function.name}")
        values = read_values(call.function.arguments)
        return json.dumps(call_softmax(values, softmax))
    except Exception as error:
        return json.dumps({"error": str(error)})


def run_agent(client, model, messages, softmax, max_turns=5):
    """Ask the model until it answers."""
    history = list(messages)
    for _ in range(max_turns + 1):
        reply = client.chat.completions.create(model=model, messages=history, tools=TOOLS)
        turn = reply.choices[0].message
        if not turn.tool_calls:
            return turn.content
        history.append(turn)
        for call in turn.tool_calls:
            content = serve(call, softmax)
            history.append({"role": "tool", "tool_call_id": call.id, "content": content})
    raise RuntimeError(f"the model has not answered in {max_turns} turns")
