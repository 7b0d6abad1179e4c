//! Edge lists in the style of SNAP: one `u v` per line.

use std::io::Read;

use crate::csr::Csr;
use crate::edges::{Edges, check_density};
use crate::error::GraphError;
use crate::lines::Lines;

/// The bytes that start a comment: `#` in SNAP's files, `%` in KONECT's.
const COMMENT: &[u8] = b"#%";

/// Reads the rest of `lines` into `edges` and builds the graph of the vertices `0..=largest id`.
pub(crate) fn parse<R: Read>(lines: &mut Lines<R>, mut edges: Edges) -> Result<Csr, GraphError> {
    let (mut largest, mut largest_line) = (0, 0);
    while let Some(mut line) = lines.advance()? {
        if line.is_over(COMMENT) {
            continue;
        }
        let u = line.id()?;
        let v = line.id()?;
        line.ignore_numbers(COMMENT)?;
        edges.push(line.number, u, v)?;
        if u.max(v) > largest {
            (largest, largest_line) = (u.max(v), line.number);
        }
    }
    if edges.len() == 0 {
        return Err(GraphError::NoEdges {
            lines: lines.number(),
        });
    }
    check_density(largest_line, u64::from(largest) + 1, edges.len())?;
    edges.into_csr(largest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::Direction;

    fn with_limit(text: &str, direction: Direction, limit: u64) -> Result<Csr, GraphError> {
        parse(
            &mut Lines::new(text.as_bytes())?,
            Edges::with_limit(direction, limit),
        )
    }

    #[test]
    fn line_beyond_the_offset_range_is_named_in_the_error() {
        let text = "# four stored edges\n0 1\n\n1 1\n0 0\n2 3\n";
        let error = with_limit(text, Direction::Undirected, 4).unwrap_err();
        assert!(
            matches!(error, GraphError::FileTooLarge { line: 6, limit: 4 }),
            "{error}"
        );
        assert_eq!(
            with_limit(text, Direction::Undirected, 6).unwrap().edges(),
            6
        );
        assert_eq!(with_limit(text, Direction::Directed, 4).unwrap().edges(), 4);
    }
}
