"""Searches a SciPy sparse matrix breadth first: which vertices are how far from vertex 0?"""

import everwarp as ew
import numpy as np
import scipy.sparse as sparse

ring = sparse.diags_array([np.ones(9_999), [1.0]], offsets=[1, -9_999], format="csr")

with ew.engine() as engine:
    found = engine.bfs(ring, source=0)

levels = np.asarray(found.levels)  # no copy
print("the last vertex is", levels[-1], "edges away, and", (levels < 10).sum(), "vertices are nearer than 10")
