"""Native programs, and searches over arrays."""

from __future__ import annotations

from typing import Any

import everwarp as ew
import numpy as np
import pytest
import scipy.sparse as sparse

from conftest import ROOT

KARATE = ROOT / "data" / "karate.txt"


def test_programs_are_listed_and_run(engine: ew.Engine) -> None:
    assert "bfs" in dict(ew.programs())
    assert engine.run_program("fib", n=20, verify=True).result == 6765
    found = engine.run_program("bfs", graph=KARATE, verify=True)
    assert (found.vertices, found.reached, found.verified) == (34, 34, True)
    assert len(found.text.splitlines()) == 34


def test_wrong_options_are_named(engine: ew.Engine) -> None:
    with pytest.raises(ValueError, match="no program called .dfs..*bfs"):
        engine.run_program("dfs")
    with pytest.raises(TypeError, match="bfs takes no option .start..*source"):
        engine.run_program("bfs", start=3)
    with pytest.raises(ew.ProgramError, match="needs a graph"):
        engine.run_program("bfs")
    with pytest.raises(ew.ProgramError, match="vertex 99 is not in the graph"):
        engine.run_program("bfs", graph=KARATE, source=99)


def plain(matrix: Any, source: int) -> list[int]:
    """The levels, by a plain search."""
    levels = [-1] * matrix.shape[0]
    levels[source], frontier = 0, [source]
    while frontier:
        reached = []
        for v in frontier:
            for w in matrix.indices[matrix.indptr[v] : matrix.indptr[v + 1]]:
                if levels[w] < 0:
                    levels[w] = levels[v] + 1
                    reached.append(int(w))
        frontier = reached
    return levels


@pytest.mark.parametrize("density", [0.001, 0.02])
def test_a_sparse_matrix_is_searched(engine: ew.Engine, density: float) -> None:
    matrix: Any = sparse.random_array((1500, 1500), density=density, rng=np.random.default_rng(7), format="csr")
    expected = plain(matrix, 3)
    found = engine.bfs(matrix, source=3)
    assert np.asarray(found.levels).dtype == np.int64
    assert np.asarray(found.levels).tolist() == expected
    for vertex in np.flatnonzero(np.asarray(found.levels) > 0):
        parent = found.parents[vertex]
        assert found.levels[parent] == found.levels[vertex] - 1 and matrix[[parent], [vertex]] != 0
    assert found.parents[3] == 3
    assert list(engine.bfs(matrix.tocoo(), 3).levels) == expected
    assert list(engine.bfs((matrix.indptr, matrix.indices), 3).levels) == expected
    assert list(engine.bfs((matrix.indptr.tolist(), matrix.indices.tolist()), 3).levels) == expected


def test_what_is_no_graph_is_refused(engine: ew.Engine) -> None:
    with pytest.raises(ValueError, match="square matrix, not 2 by 3"):
        engine.bfs(sparse.csr_array((2, 3)))
    with pytest.raises(ValueError, match="column 7 is no vertex"):
        engine.bfs(([0, 1], [7]))
    with pytest.raises(ValueError, match="never fall"):
        engine.bfs(([0, 2, 1], [0]))
    with pytest.raises(ValueError, match="source 5"):
        engine.bfs(([0, 1], [0]), source=5)
    with pytest.raises(ValueError, match="from 0 to"):
        engine.bfs((np.array([0, -1]), np.array([0])))
    with pytest.raises(TypeError, match="SciPy sparse matrix"):
        engine.bfs(3)
