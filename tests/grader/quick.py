"""The interpreter's tensors made quicker: what depends on a shape alone is worked out once. Worker side.

Every operation of a kernel makes a type and a tensor, and Triton wraps each number of their shapes anew
and checks it. A kernel meets few shapes and carries out many operations, so both are remembered here;
what they hold is what Triton itself has made for that shape, and nobody changes it afterwards.
"""

from __future__ import annotations

import triton.language as tl
from triton.runtime import interpreter as interp


def whole(sizes: tuple) -> bool:
    """Only whole numbers? (4.0 and True are the same keys as 4 and 1, and not the same sizes.)"""
    return all(type(size) is int for size in sizes)


def remember_shapes() -> None:
    """Replace the constructors of the language's block types and tensors in this process."""
    types: dict[tuple, tuple] = {}
    tensors: dict[tuple, tuple] = {}
    make_type, make_tensor = tl.block_type.__init__, tl.tensor.__init__

    def block_type(self, element_ty, shape):
        key = tuple(getattr(size, "value", size) for size in shape)
        made = types.get(key) if whole(key) else None
        if made is None:
            make_type(self, element_ty, shape)
            if whole(key):
                types[key] = self.shape, self.numel, f"<{self.shape}, "
            return
        self.element_ty = element_ty
        self.shape, self.numel, name = made
        self.name = f"{name}{element_ty}>"

    def tensor(self, handle, type):
        key = tuple(type.shape) if type.is_block() else ()
        made = tensors.get(key)
        if made is None:
            make_tensor(self, handle, type)
            if whole(key):
                tensors[key] = self.shape, self.numel
            return
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = made

    tl.block_type.__init__, tl.tensor.__init__ = block_type, tensor


def call_directly() -> None:
    """Let what Triton puts in place of a builtin call the builtin's own function, not its wrapper.

    The wrapper asks for `_semantic`, which is always there.
    """
    semantic = interp.interpreter_semantic

    def patch(obj, name, member, builder, scope):
        function = getattr(member, "__wrapped__", member)

        def call(*args, **named):
            named["_semantic"] = semantic
            return function(*args, **named)

        scope.set_attr(obj, name, call)

    interp._patch_attr = patch
