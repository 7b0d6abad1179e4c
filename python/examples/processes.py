"""Runs 10,000 WebAssembly processes and keeps what each wrote, as a list."""

import sys

import everwarp as ew

module = ew.Module(sys.argv[1])  # guests/built/hashes.wasm

with ew.engine() as engine:  # a GPU if there is one
    texts = [f"document {n}" for n in range(10_000)]
    exits = engine.run(module, args=["sha256"], each_stdin=texts, fuel=10_000_000, check=True)

digests = [line.split()[0].decode() for line in exits.stdout]
print(len(digests), "digests; the last is", digests[-1])
