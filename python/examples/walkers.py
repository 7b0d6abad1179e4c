"""A thousand walkers on a map: each is an actor that walks at random, and a plot shows where they went."""

import sys

import everwarp as ew
import matplotlib
import numpy as np

matplotlib.use("Agg")  # it draws to a file
from matplotlib import pyplot as plt  # noqa: E402

SIZE = 64


@ew.actor
class Walker:
    x: ew.i64
    y: ew.i64
    steps: ew.u64
    key: ew.u64

    def begin(self, key: ew.u64) -> None:
        self.key = key
        self.x = SIZE // 2
        self.y = SIZE // 2

    def walk(self, steps: ew.i64) -> None:
        for _ in range(steps):
            way = ew.random_bits(self.key, self.steps) & 3
            self.steps += 1
            if way == 0:
                self.x = min(self.x + 1, SIZE - 1)
            elif way == 1:
                self.x = max(self.x - 1, 0)
            elif way == 2:
                self.y = min(self.y + 1, SIZE - 1)
            else:
                self.y = max(self.y - 1, 0)

    def place(self) -> ew.i64:
        return self.y * SIZE + self.x


with ew.engine() as engine:
    walkers = engine.spawn(Walker, 1000)
    walkers.begin.tell(np.arange(1000, dtype=np.uint64))
    days = []
    for _ in range(3):
        walkers.walk.tell(100)
        places = np.array(walkers.place.ask())
        days.append(np.bincount(places, minlength=SIZE * SIZE).reshape(SIZE, SIZE))

figure, maps = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for day, (axes, counts) in enumerate(zip(maps, days), 1):
    axes.imshow(counts, origin="lower", cmap="magma")
    axes.set_title(f"after {100 * day} steps")
figure.savefig(sys.argv[1])  # walkers.png

reached = [int((counts > 0).sum()) for counts in days]
print("the walkers stand on", ", ".join(map(str, reached)), "places of", SIZE * SIZE)
