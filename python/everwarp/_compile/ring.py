"""A function as the module of a ring kernel: the handler of its messages."""

from __future__ import annotations

from . import wasm
from .actor import ActorCompiler
from .module import STACK_HIGH, Signature
from .values import ArrayType, StructType
from .wasm import FunctionBody


def compile_ring(signature: Signature) -> tuple[bytes, tuple[ArrayType, ArrayType]]:
    """The module of a function, and the types of its message and its result."""
    kinds = [kind for _, kind in signature.parameters]
    arrays, rest = kinds[:2], kinds[2:]
    fits = len(arrays) == 2 and all(isinstance(kind, ArrayType) for kind in arrays)
    if not fits or signature.result is not None or len(rest) > 1 or not all(isinstance(kind, StructType) for kind in rest):
        raise signature.source.error(
            signature.tree,
            "a handler of a ring kernel takes two arrays, the message and the result, then a struct if it has a state, and "
            "returns None",
        )
    module = ActorCompiler()
    writer = module.writer
    writer.add_global(wasm.I32, wasm.i32(STACK_HIGH))
    index = module.function(signature)
    at, places = STACK_HIGH, []
    for kind in kinds:
        places.append(at)
        at += -(-kind.size // 16) * 16
    code = b"".join(wasm.i32(place) for place in places) + wasm.call(index)
    # A failure leaves the stack as it was then.
    code = wasm.i32(STACK_HIGH) + wasm.global_set(0) + code
    writer.export("handle", module.add(FunctionBody("handle", [], [], [], code)))
    for name, place in zip(("input", "output"), places):
        writer.export(name, writer.add_global(wasm.I32, wasm.i32(place)), 3)
    module.finish()
    writer.export("memory", 0, 2)
    writer.pages = -(-at // (64 << 10))
    first, second = arrays
    assert isinstance(first, ArrayType) and isinstance(second, ArrayType)
    return writer.encode(), (first, second)
