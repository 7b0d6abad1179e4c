"""The error for what the compiler does not accept, at its line."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .errors import EverwarpError


class Unsupported(EverwarpError, SyntaxError):
    """A function uses a part of Python that everwarp does not compile; the message says what to write instead."""


@dataclass(frozen=True)
class Source:
    """Where a function's text is."""

    file: str
    first_line: int
    lines: list[str]
    indent: int

    def error(self, node: ast.AST, message: str) -> Unsupported:
        line = getattr(node, "lineno", 1)
        column = getattr(node, "col_offset", 0) + self.indent + 1
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        end = getattr(node, "end_lineno", line) or line
        end_column = getattr(node, "end_col_offset", column) + self.indent + 1 if end == line else len(text)
        place = (self.file, line + self.first_line - 1, column, text, end + self.first_line - 1, end_column)
        return Unsupported(message, place)

    def line(self, node: ast.AST) -> int:
        return int(getattr(node, "lineno", 1)) + self.first_line - 1
