"""What an agent gets to talk with: a client of the chat completions protocol. Worker side.

The real `openai` client where it is installed, otherwise a look-alike of the small part of it that
an agent uses. A learner who wants no more than a verdict need not install anything. What the agent
says reaches the judge through its server (see `talk`); here is only noted how softmax is called.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import math
import os
import sys
import types
import urllib.parse
from collections.abc import Callable
from typing import Any

KEY = "scripted"  # as if it were an API key
SECONDS = 15  # for one answer, which comes at once
MOST_CALLS, MOST_VALUES = 50, 5000  # of softmax that are told to the judge

made: list[Any] = []  # the clients of this process


def warm_up() -> None:
    """Import the real client, which takes a second, so that every child has it already."""
    if importlib.util.find_spec("openai") is not None:
        import openai  # noqa: F401


def prepare() -> None:
    """Make this process one in which nothing but the judge's server is talked to."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("OPENAI_"):
            del os.environ[name]
    if importlib.util.find_spec("openai") is None:  # a file may import it at its top
        stand_in: Any = types.ModuleType("openai")
        stand_in.OpenAI, stand_in.__getattr__ = Client, _missing
        sys.modules["openai"] = stand_in


def _missing(name: str) -> Any:
    """What the stand-in says of all that it does not have."""
    if name.startswith("__"):
        raise AttributeError(name)
    install = f"{sys.executable} -m pip install openai"
    raise ImportError(f"openai.{name} needs the real client, which is not installed: {install}")


def connect(url: str) -> Any:
    """A client of the server at this address, which asks once and does not try again."""
    import openai

    if not made or made[-1].is_closed():  # a new one takes a quarter second, a copy nothing
        made.append(openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=SECONDS))
    return made[-1].with_options(base_url=url)


def gives_up(error: BaseException) -> bool:
    """Whether it is a RuntimeError, or a kind of its own made by the file under test."""
    return isinstance(error, RuntimeError) and not isinstance(
        error, (RecursionError, NotImplementedError)
    )


class OutOfResources(Exception):
    """What a launcher may raise; like Triton's error of this name, no RuntimeError."""


def noted_softmax(kind: str, calls: list[dict]) -> Callable[[Any], Any]:
    """The softmax that is handed to an agent: puts into `calls` what it is called with.

    It takes as little as the launcher of kata 7 and is a plain function like that one, so it does
    not tell of what kind it is: "plain"; "mild", softmax(x / 2), which no agent works out by
    itself; "fails".
    """

    def softmax(x):
        import torch

        tensor = isinstance(x, torch.Tensor)
        values = x.detach().double().flatten().tolist() if tensor else []
        called = {
            "type": type(x).__name__,
            "shape": list(x.shape) if tensor else [],
            "dtype": str(x.dtype).removeprefix("torch.") if tensor else "",
            "device": x.device.type if tensor else "",
            "values": values[:MOST_VALUES],
        }
        if len(calls) < MOST_CALLS:
            calls.append(called)
        if kind == "fails":
            raise OutOfResources("out of resource: shared memory")
        if not tensor:
            raise AttributeError(f"'{type(x).__name__}' object has no attribute 'dim'")
        if x.dim() != 2:
            raise ValueError(f"x must have two dimensions, got shape {x.shape}")
        if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
            raise ValueError(f"x must be fp16, bf16 or fp32, got {x.dtype}")
        return torch.softmax(x.float() / (2 if kind == "mild" else 1), dim=-1).to(x.dtype)

    return softmax


# ---- the look-alike --------------------------------------------------------------------------


class Fields:
    """A JSON object whose members are attributes, as the models of the real client are."""

    def __init__(self, members: dict, **absent):
        self.__dict__.update(absent)
        self.__dict__.update({k: _wrapped(v) for k, v in members.items()})
        self.model_fields_set = set(members)

    def __iter__(self):
        return iter([(k, v) for k, v in vars(self).items() if k != "model_fields_set"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self)})"

    def model_dump(self, *, exclude_unset=False, exclude_none=False, exclude=(), **_) -> dict:
        """A dict of dicts and lists."""
        return {
            key: _plain(value, exclude_unset=exclude_unset, exclude_none=exclude_none)
            for key, value in self
            if key not in (exclude or ())
            and not (exclude_unset and key not in self.model_fields_set)
            and not (exclude_none and value is None)
        }

    def to_dict(self, *, exclude_unset=True, exclude_none=False, **_) -> dict:
        """The same, of what the server sent."""
        return self.model_dump(exclude_unset=exclude_unset, exclude_none=exclude_none)

    def model_dump_json(self, **options) -> str:
        """The same as a text."""
        return json.dumps(self.model_dump(**options))

    def to_json(self, **options) -> str:
        """The same, of what the server sent, as a text."""
        return json.dumps(self.to_dict(**options))

    dict = model_dump
    json = model_dump_json


class Message(Fields):
    """What the model says; its members are there even if the server left them out."""

    def __init__(self, members: dict):
        left_out = ("content", "refusal", "annotations", "audio", "function_call", "tool_calls")
        super().__init__(members, **dict.fromkeys(left_out))


def _wrapped(value):
    if isinstance(value, dict):
        return Message(value) if "role" in value else Fields(value)
    return [_wrapped(v) for v in value] if isinstance(value, list) else value


def _plain(value, **options):
    if isinstance(value, Fields):
        return value.model_dump(**options)
    return [_plain(v, **options) for v in value] if isinstance(value, list) else value


def _sent(value):
    """How the real client sends a model: without what the server had left out."""
    if isinstance(value, Fields):
        return value.model_dump(exclude_unset=True)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


class Client:
    """As much of `openai.OpenAI` as an agent needs: client.chat.completions.create(...)."""

    def __init__(self, *, base_url: str, api_key: str = "", **_):
        self.base_url, self.api_key = base_url, api_key
        completions = types.SimpleNamespace(create=self._create)
        self.chat = types.SimpleNamespace(completions=completions)

    def with_options(self, *, base_url: str = "", **_) -> Client:
        """A copy with another address."""
        return Client(base_url=base_url or self.base_url, api_key=self.api_key)

    def is_closed(self) -> bool:
        """Whether it can no longer be used; here every request has a connection of its own."""
        return False

    def _create(self, *, model, messages, timeout=None, extra_body=None, **more) -> Fields:
        for name in ("extra_headers", "extra_query"):
            more.pop(name, None)
        if more.get("stream"):
            raise NotImplementedError("the look-alike of the openai client does not stream")
        body = {"model": model, "messages": list(messages)} | more | (extra_body or {})
        text = json.dumps(body, default=_sent).encode()
        address = urllib.parse.urlsplit(self.base_url)
        patience = timeout if isinstance(timeout, (int, float)) and math.isfinite(timeout) else 0
        line = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=patience or SECONDS
        )
        try:
            headers = {
                "Content-Type": "application/json",
                "Authorization": f"Bearer {self.api_key}",
            }
            line.request("POST", f"{address.path}/chat/completions", text, headers)
            answer = line.getresponse()
            said = json.loads(answer.read())
        finally:
            line.close()
        if answer.status != 200:
            raise ConnectionError(f"Error code: {answer.status} - {said}")
        return Fields(said)
