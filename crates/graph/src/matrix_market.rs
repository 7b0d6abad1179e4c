//! Matrix Market coordinate files (<https://math.nist.gov/MatrixMarket/formats.html>): the stored
//! entries of a square matrix are the edges, row to column.
//!
//! An entry whose value is zero is an edge too, because it is stored. Entries of a symmetric matrix
//! should be on or below the diagonal; that is not enforced, since either triangle says the same.

use std::io::Read;

use crate::csr::Csr;
use crate::direction::Direction;
use crate::edges::{Edges, check_density};
use crate::error::GraphError;
use crate::lines::{Line, Lines, clip};

/// How a file of this format begins, in upper or lower case.
pub(crate) const BANNER: &[u8] = b"%%MatrixMarket";

const COMMENT: &[u8] = b"%";

/// The properties of the entries, from the banner.
struct Banner {
    has_values: bool,
    direction: Direction,
}

/// The size line.
struct Size {
    vertices: u32,
    entries: u64,
}

/// Reads all of `lines`; `direction` overrides the banner.
pub(crate) fn parse<R: Read>(
    lines: &mut Lines<R>,
    direction: Option<Direction>,
) -> Result<Csr, GraphError> {
    let banner = banner(lines)?;
    let mut edges = Edges::new(direction.unwrap_or(banner.direction));
    let Size { vertices, entries } = size(lines, edges.limit())?;
    edges.expect(entries);
    while let Some(mut line) = lines.advance()? {
        if line.is_over(COMMENT) {
            continue;
        }
        if edges.len() == entries {
            return Err(GraphError::ExtraEntry {
                line: line.number,
                declared: entries,
            });
        }
        let u = index(&mut line, vertices)?;
        let v = index(&mut line, vertices)?;
        if banner.has_values && line.is_over(COMMENT) {
            return Err(GraphError::MissingValue { line: line.number });
        }
        line.ignore_numbers(COMMENT)?;
        edges.push(line.number, u, v)?;
    }
    if edges.len() < entries {
        let (line, found) = (lines.number(), edges.len());
        return Err(GraphError::MissingEntries {
            line,
            declared: entries,
            found,
        });
    }
    edges.into_csr(vertices)
}

/// Reads the first line.
fn banner<R: Read>(lines: &mut Lines<R>) -> Result<Banner, GraphError> {
    let bad = GraphError::BadBanner { line: 1 };
    let Some(line) = lines.advance()? else {
        return Err(GraphError::NoEdges { lines: 0 });
    };
    let words: Vec<Vec<u8>> = line.words().map(<[u8]>::to_ascii_lowercase).collect();
    let [banner, object, layout, field, symmetry] = &words[..] else {
        return Err(bad);
    };
    if !banner.eq_ignore_ascii_case(BANNER) {
        return Err(bad);
    }
    let unsupported = |word: &[u8]| GraphError::UnsupportedMatrix {
        line: 1,
        found: clip(word),
    };
    for (word, wanted) in [(object, "matrix"), (layout, "coordinate")] {
        if word != wanted.as_bytes() {
            return Err(unsupported(word));
        }
    }
    let has_values = match &field[..] {
        b"pattern" => false,
        b"real" | b"integer" => true,
        _ => return Err(unsupported(field)),
    };
    let direction = match &symmetry[..] {
        b"general" => Direction::Directed,
        b"symmetric" => Direction::Undirected,
        _ => return Err(unsupported(symmetry)),
    };
    Ok(Banner {
        has_values,
        direction,
    })
}

/// Finds and checks the size line; `limit` is the most edges that can be stored.
fn size<R: Read>(lines: &mut Lines<R>, limit: u64) -> Result<Size, GraphError> {
    while let Some(mut line) = lines.advance()? {
        if line.is_over(COMMENT) {
            continue;
        }
        let number = line.number;
        let bad = |_| GraphError::BadSize { line: number };
        let rows = line.whole().map_err(bad)?;
        let columns = line.whole().map_err(bad)?;
        let entries = line.whole().map_err(bad)?;
        if !line.is_over(COMMENT) {
            return Err(GraphError::BadSize { line: number });
        }
        if rows != columns {
            return Err(GraphError::NotSquare {
                line: number,
                rows,
                columns,
            });
        }
        if entries == 0 {
            return Err(GraphError::NoEdges { lines: number });
        }
        if entries > limit {
            return Err(GraphError::FileTooLarge {
                line: number,
                limit,
            });
        }
        check_density(number, rows, entries)?;
        let Ok(vertices) = u32::try_from(rows) else {
            return Err(GraphError::IdTooLarge {
                line: number,
                found: rows.to_string(),
            });
        };
        return Ok(Size { vertices, entries });
    }
    Err(GraphError::BadSize {
        line: lines.number() + 1,
    })
}

/// The next column as a vertex: indices count from 1, vertices from 0.
#[inline]
fn index(line: &mut Line<'_>, vertices: u32) -> Result<u32, GraphError> {
    match line.whole()? {
        index if (1..=u64::from(vertices)).contains(&index) => Ok((index - 1) as u32),
        _ => Err(GraphError::OutsideMatrix {
            line: line.number,
            found: line.found(),
            vertices,
        }),
    }
}
