"""The compiler of functions: from Python to WebAssembly."""
