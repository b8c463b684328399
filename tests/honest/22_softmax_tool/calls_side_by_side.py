"""The calls of a turn are served in threads, and identical ones once; json back from json."""

import functools
import json
from concurrent.futures import ThreadPoolExecutor

import torch

PARAMETERS = {"values": {"type": "array", "items": {"type": "number"}}}


def whole_number_or_float(value):
    return isinstance(value, (float, int)) and value not in (float("inf"), -float("inf"))


def run_agent(client, model, messages, softmax, max_turns=5):
    place = "cuda" if torch.cuda.is_available() else "cpu"

    @functools.cache
    def probabilities(values):
        x = torch.tensor(values, dtype=torch.float32, device=place).view(1, -1)
        y = softmax(x).cpu().double()
        assert not y.isnan().any(), "too large"
        return torch.round(y, decimals=4).squeeze(0).tolist()

    def told(call):
        name, text = call.function.name, call.function.arguments
        try:
            given = json.loads(text)["values"] if name == "gpu_softmax" else None
            if type(given) is not list:
                return {"error": f"{name}({text}) cannot be called"}
            for value in given:
                if repr(value) in ("True", "False", "nan") or not whole_number_or_float(value):
                    return {"error": f"{value} is no finite number"}
            return probabilities(tuple(given))
        except Exception as error:
            return {"error": str(error)}

    tools = [
        {
            "type": "function",
            "function": dict(
                name="gpu_softmax",
                description="",
                parameters={"type": "object", "properties": PARAMETERS, "required": ["values"]},
            ),
        }
    ]
    said, asked = None, 0
    talk = list(messages)
    with ThreadPoolExecutor(4) as pool:
        while said is None or said.tool_calls:
            if asked == max_turns:
                raise RuntimeError(f"{asked} requests, no answer")
            if said is not None:
                results = pool.map(told, said.tool_calls)
                talk.append(json.loads(said.model_dump_json()))
                for call, result in zip(said.tool_calls, results):
                    content = json.dumps(result, separators=(",", ":"))
                    talk.append({"role": "tool", "tool_call_id": call.id, "content": content})
            asked += 1
            reply = client.chat.completions.create(
                model=model, messages=talk, tools=tools, parallel_tool_calls=True, timeout=10
            )
            said = reply.choices[0].message
    return said.content
