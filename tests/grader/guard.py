"""Notices when the file under test rewrites what its verdict rests on. Worker side.

Nothing inside one process holds against a file that sets out to deceive: whoever runs code there
can in the end change anything. But what a kernel has no business with is seen when it is done in
the open: a replaced function of the grader, of Triton's language and interpreter, of PyTorch or of
Python itself. The judge relies on none of it for values, which it compares in its own process.
"""

from __future__ import annotations

import sys
import types

MODULES = (
    "builtins",
    "gc",
    "json",
    "json.encoder",
    "numpy",
    "os",
    "socket",
    "struct",
    "time",
    "torch",
    "torch.cuda",
    "torch.utils._python_dispatch",
)
# torch._dynamo, which a file may well import, wraps this one itself. Nothing that is judged draws
# random numbers in this process.
REPLACEABLE = {"torch.manual_seed"}
PACKAGES = ("grader", "triton.language", "triton.runtime")  # with the classes defined in them
MOST = 3  # names that a message gives


class Guard:
    """What the functions and classes of these modules were when it was made."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, object, str, object]] = []
        self._codes: list[tuple[str, types.FunctionType, types.CodeType]] = []
        self._seen: list[str] = []
        for name, module in list(sys.modules.items()):
            own = name == "__main__" or name.startswith("grader")
            if name in MODULES:
                self._keep(name, vars(module))
            elif own or (
                name.startswith(PACKAGES) and not name.startswith("triton.language.extra")
            ):
                self._keep(name, vars(module), own)
                for value in list(vars(module).values()):
                    if isinstance(value, type) and value.__module__ == name:
                        self._keep(f"{name}.{value.__name__}", vars(value), own)
        torch = sys.modules["torch"]
        self._keep("torch.Tensor", vars(torch.Tensor))
        self._keep("torch.cuda.Event", vars(torch.cuda.Event))

    def _keep(self, owner: str, namespace, own: bool = False) -> None:
        for name, value in list(namespace.items()):
            if owner == "torch" and isinstance(value, type):
                continue  # setting a default dtype changes torch.Storage
            if f"{owner}.{name}" in REPLACEABLE:
                continue
            if own or callable(value) or isinstance(value, (staticmethod, classmethod)):
                if name.startswith("__") and not callable(value):
                    continue
                self._kept.append((f"{owner}.{name}", namespace, name, value))
                if own and isinstance(value, types.FunctionType):
                    self._codes.append((f"{owner}.{name}", value, value.__code__))

    def hold(self, thing: object, *names: str) -> None:
        """Keep an eye on these attributes of one object too."""
        for name in names:
            kept = (f"{type(thing).__name__}.{name}", vars(thing), name, vars(thing)[name])
            self._kept.append(kept)

    def look(self, *things: object) -> None:
        """Note methods of these objects that are hidden behind attributes of the same name."""
        for thing in things:
            for name in vars(thing):
                if callable(getattr(type(thing), name, None)):
                    self._note(f"{type(thing).__name__}.{name}")

    def changed(self) -> list[str]:
        """The names of what was replaced at any time at which this was asked."""
        for label, namespace, name, value in self._kept:
            if namespace.get(name) is not value:  # type: ignore[attr-defined]
                self._note(label)
        for label, function, code in self._codes:
            if function.__code__ is not code:
                self._note(label)
        return self._seen

    def _note(self, label: str) -> None:
        if label not in self._seen and len(self._seen) < MOST:
            self._seen.append(label)
