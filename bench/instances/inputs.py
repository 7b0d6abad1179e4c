"""Writes the inputs of the processes that `run` starts: documents and Forth programs, one line for each process."""

import json
import random

FORTH = (
    ": fib dup 2 < if exit then dup 1- recurse swap 2 - recurse + ; "
    ": gcd begin ?dup while tuck mod repeat ; "
    ": collatz 0 swap begin dup 1 > while dup 1 and if 3 * 1+ else 2/ then swap 1+ swap repeat drop ; "
    ": sums 0 %d 1 do i collatz + loop . ; "
    ": gcds 0 %d 1 do %d 1 do i j gcd + loop loop . ; "
    "%d fib . sums gcds cr\n"
)
SMALL = ": sum 0 swap 0 do i 3 * 7 xor + loop ;\n2000 sum . cr\n"


def documents(count):
    """Documents that differ in length, structure and words."""
    dice = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(letters[dice.randrange(26)] for _ in range(dice.randint(2, 9))) for _ in range(500)]
    for i in range(count):
        items = [
            {
                "name": words[(i * 7 + k * 13) % 500],
                "price": ((i * k * 31) % 10007) / 16,
                "tags": [words[(i + k * j) % 500] for j in range(k % 5)],
                "ok": (i + k) % 3 == 0,
                "none": None,
            }
            for k in range(18 + i % 9)
        ]
        yield json.dumps({"id": i, "items": items, "note": words[i % 500] * (i % 5)}) + "\n"


def programs(count):
    """Programs that compute for different times."""
    dice = random.Random(5)
    for _ in range(count):
        sums, rows, columns = dice.randint(270, 330), dice.randint(54, 66), dice.randint(54, 66)
        yield FORTH % (sums, rows, columns, dice.randint(15, 16))


def write(folder, count):
    """Writes all inputs for `count` processes to a folder."""
    same = FORTH % (300, 60, 60, 16)
    for name, lines in [
        ("docs.jsonl", documents(count)),
        ("same.fs", (same for _ in range(count))),
        ("differ.fs", programs(count)),
        ("sum.fs", [same]),
        ("small.fs", [SMALL]),
    ]:
        with open(folder / name, "w", encoding="ascii") as file:
            file.writelines(lines)
