//! The result of a search, and the plain reference: a sequential search, level by level.

/// The result of a search, by vertex. -1 means unreached; the source is its own parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Distance from the source in edges.
    pub levels: Vec<i64>,
    /// The smallest neighbour in the level before.
    pub parents: Vec<i64>,
}

impl Found {
    pub(super) fn from_words(words: &[u64]) -> Self {
        let part = |f: fn(u64) -> i64| {
            words
                .iter()
                .map(|&w| if w == u64::MAX { -1 } else { f(w) })
                .collect()
        };
        Self {
            levels: part(|w| (w >> 32) as i64),
            parents: part(|w| w as u32 as i64),
        }
    }
    /// How many vertices were reached.
    pub fn reached(&self) -> usize {
        self.levels.iter().filter(|&&l| l >= 0).count()
    }
    /// How many levels there are, the source's included.
    pub fn depth(&self) -> i64 {
        self.levels.iter().max().map_or(0, |l| l + 1)
    }
}

/// Searches a CSR graph from `source`.
pub fn reference(rows: &[u32], columns: &[u32], source: u32) -> Found {
    let vertices = rows.len() - 1;
    let (mut levels, mut parents) = (vec![-1; vertices], vec![-1; vertices]);
    (levels[source as usize], parents[source as usize]) = (0, i64::from(source));
    let mut frontier = vec![source];
    for level in 1.. {
        let mut next = Vec::new();
        for &v in &frontier {
            for &u in &columns[rows[v as usize] as usize..rows[v as usize + 1] as usize] {
                let u = u as usize;
                if levels[u] == -1 {
                    levels[u] = level;
                    parents[u] = i64::from(v);
                    next.push(u as u32);
                } else if levels[u] == level && i64::from(v) < parents[u] {
                    parents[u] = i64::from(v);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        frontier = next;
    }
    Found { levels, parents }
}
