//! The plain reference: a sequential search, level by level.

use super::Found;

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
