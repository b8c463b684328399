"""The client is imported at the top; an instruction of its own comes first; no tools in the end."""

import copy
import json
import math
from openai import OpenAI

import numpy as np
import torch

RULE = {"role": "system", "content": "Use gpu_softmax for every softmax."}
FUNCTION = {
    "name": "gpu_softmax",
    "description": "softmax on the GPU",
    "parameters": {
        "type": "object",
        "properties": {"values": {"type": "array", "items": {"type": "number"}}},
        "required": ["values"],
    },
}


class Agent:
    def __init__(self, client: OpenAI, model, softmax, limit):
        self.client, self.model, self.softmax, self.limit = client, model, softmax, limit

    def serve(self, name, arguments):
        if name not in {"gpu_softmax"}:
            raise LookupError(name)
        values = arguments["values"]
        if not isinstance(values, list):
            raise TypeError(type(values).__name__)
        for value in values:
            if value is True or value is False or not math.isfinite(value):
                raise ValueError(value)
        with np.errstate(over="raise"):
            x = torch.from_numpy(np.array([values], dtype=float).astype(np.float32).reshape(1, -1))
        if torch.cuda.is_available():
            x = x.to("cuda")
        return np.round(self.softmax(x).cpu().numpy()[0].astype(np.float64), 4).tolist()

    def run(self, messages):
        history = [RULE, *copy.deepcopy(messages)]
        for turn in range(self.limit):
            last = turn + 1 == self.limit and turn > 0
            tools = {} if last else {"tools": [{"type": "function", "function": FUNCTION}]}
            said = (
                self.client.chat.completions.create(model=self.model, messages=history, **tools)
                .choices[0]
                .message.to_dict()
            )
            if not said.get("tool_calls"):
                return said["content"]
            history.append(said)
            for call in said["tool_calls"]:
                function = call["function"]
                try:
                    content = self.serve(function["name"], json.loads(function["arguments"]))
                except Exception as error:
                    content = dict(error=type(error).__name__)
                history.append(
                    dict(role="tool", tool_call_id=call["id"], content=json.dumps(content))
                )
        raise RuntimeError(f"{self.limit} requests and no answer")


def run_agent(client, model, messages, softmax, max_turns=5):
    return Agent(client, model, softmax, max_turns).run(messages)
