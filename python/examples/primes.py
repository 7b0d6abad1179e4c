"""Counts primes: an actor spawns a helper for each part of the range, asks it, and adds the replies."""

import everwarp as ew


@ew.actor(sends=32)
class Counter:
    total: ew.i64
    waits: ew.i64

    def count(self, low: ew.i64, high: ew.i64) -> ew.i64:
        primes = 0
        for n in range(low, high):
            factor = 2
            while factor * factor <= n and n % factor != 0:
                factor += 1
            if n >= 2 and factor * factor > n:
                primes += 1
        return primes

    def split(self, high: ew.i64, parts: ew.i64) -> None:
        self.waits = parts
        for part in range(parts):
            helper = ew.spawn(Counter)
            helper.count.ask(high * part // parts, high * (part + 1) // parts, then=self.add)
            helper.stop()  # once it has counted

    def add(self, primes: ew.i64) -> None:
        self.total += primes
        self.waits -= 1

    def result(self) -> ew.i64:
        assert self.waits == 0
        return self.total


with ew.engine() as engine:
    counter = engine.spawn(Counter)
    counter.split.tell(20_000, 16)
    engine.settle()
    print("there are", counter.result.ask(), "primes below 20000")
