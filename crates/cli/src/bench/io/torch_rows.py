# Indexes the rows of batches in a memory map with PyTorch. Prints a line of JSON: the time of each round and the checksum.
import json
import sys
import time

try:
    import torch
except ImportError as error:
    print(json.dumps({"missing": f"PyTorch is not installed for Python {sys.version.split()[0]}: {error}"}))
    sys.exit()

features, nodes, words, batches, rounds, device = sys.argv[1:]
words, batches, rounds = int(words), int(batches), int(rounds)
if device == "cuda" and not torch.cuda.is_available():
    print(json.dumps({"missing": "this PyTorch has no CUDA"}))
    sys.exit()


def mapped(path, dtype, width):
    with open(path, "rb") as file:
        size = file.seek(0, 2)
    return torch.from_file(path, shared=False, size=size // dtype.itemsize, dtype=dtype).view(-1, width)


table = mapped(features, torch.int64, words)
nodes = mapped(nodes, torch.int64, 1).view(batches, -1)
weights = 2 * torch.arange(nodes.shape[1], dtype=torch.int64) + 1
total, times = 0, []
for number in range(rounds + 1):
    total, spent = 0, 0.0
    for batch in nodes:
        begin = time.perf_counter()
        rows = table[batch].to(device)
        if device == "cuda":
            torch.cuda.synchronize()
        spent += time.perf_counter() - begin
        total += int((rows.cpu().sum(1) * weights).sum())
    # The first round warms up.
    if number > 0:
        times.append(spent)
print(json.dumps({"times": times, "sum": str(total % 2**64), "version": torch.__version__}))
