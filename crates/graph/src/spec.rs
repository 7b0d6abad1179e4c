//! Generator specs: the short strings that name a generated graph.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::direction::Direction;

/// The grammar of a spec, as error messages and help texts show it.
pub const GRAMMAR: &str = "a graph is one of chain:N, grid:WxH, random:N:M[:SEED], \
     rmat:SCALE[:EDGEFACTOR[:SEED]], and is undirected unless `,directed` follows";

/// The seed of a spec that names none.
pub const DEFAULT_SEED: u64 = 1;

/// The edge factor of an `rmat` spec that names none, as in Graph500.
pub const DEFAULT_EDGE_FACTOR: u32 = 16;

/// The `rmat` scales whose number of vertices fits a `u32`.
const SCALES: RangeInclusive<u64> = 1..=31;

/// A generated graph: shape, size, seed and direction. The same spec gives the same graph on every
/// machine. `Display` writes the spec in full, and `FromStr` reads it back; see [`GRAMMAR`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Spec {
    /// `chain:N`: vertex `i` leads to `i + 1`.
    Chain {
        /// Vertices, at least 1.
        vertices: u32,
        /// Directed edges lead to the larger id.
        direction: Direction,
    },
    /// `grid:WxH`: vertex `y * W + x` leads to its right and its lower neighbour.
    Grid {
        /// Vertices per line, at least 1.
        width: u32,
        /// Lines, at least 1.
        height: u32,
        /// Directed edges lead right and down.
        direction: Direction,
    },
    /// `random:N:M[:SEED]`: M edges, each drawn uniformly from all pairs of two different vertices.
    /// A pair may be drawn more than once.
    Random {
        /// Vertices, at least 2.
        vertices: u32,
        /// Edges as drawn, that is before an undirected one is stored both ways.
        edges: u64,
        /// The seed of the draws.
        seed: u64,
        /// Whether each edge is stored both ways.
        direction: Direction,
    },
    /// `rmat:SCALE[:EDGEFACTOR[:SEED]]`: the recursive matrix of Graph500, with A = 0.57, B = C =
    /// 0.19 and D = 0.05, and vertex ids permuted so that an id says nothing about the degree.
    /// Self loops and parallel edges occur and are kept.
    Rmat {
        /// The graph has `2^scale` vertices; 1 to 31.
        scale: u32,
        /// Edges as drawn per vertex, at least 1.
        edge_factor: u32,
        /// The seed of the draws and of the permutation.
        seed: u64,
        /// Whether each edge is stored both ways.
        direction: Direction,
    },
}

/// Why a text is not a spec, or a spec asks for a graph that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No generator has this name.
    #[error("`{name}` is not a generator; {}", GRAMMAR)]
    UnknownGenerator {
        /// The text before the first colon.
        name: String,
    },
    /// A number of the spec is absent.
    #[error("`{spec}` lacks {field}; {}", GRAMMAR)]
    MissingField {
        /// The spec as given.
        spec: String,
        /// The number that is absent.
        field: &'static str,
    },
    /// The spec goes on after its last number.
    #[error("`{field}` at the end of `{spec}` is too much; {}", GRAMMAR)]
    ExtraField {
        /// The spec as given.
        spec: String,
        /// The first field too many.
        field: String,
    },
    /// A field is not a whole number that fits.
    #[error(
        "{field} is `{found}`, not a whole number of a sensible size; {}",
        GRAMMAR
    )]
    BadNumber {
        /// The name of the number.
        field: &'static str,
        /// The field as given.
        found: String,
    },
    /// A number is outside its range.
    #[error("{field} is {value}, outside {min}..={max}; {}", GRAMMAR)]
    OutOfRange {
        /// The name of the number.
        field: &'static str,
        /// The number as given.
        value: u64,
        /// The smallest number accepted.
        min: u64,
        /// The largest number accepted.
        max: u64,
    },
    /// Something other than `directed` follows the comma.
    #[error("`,{suffix}` is not `,directed`; {}", GRAMMAR)]
    UnknownSuffix {
        /// The text after the comma.
        suffix: String,
    },
    /// The graph would have more vertices or stored edges than 32 bits count.
    #[error(
        "`{spec}` asks for {vertices} vertices and {stored} stored edges, and a graph holds at most \
         {} of either; make it smaller, or directed, which stores each edge once",
        u32::MAX
    )]
    TooLarge {
        /// The spec in full.
        spec: Spec,
        /// Vertices asked for, `u64::MAX` standing for anything larger.
        vertices: u64,
        /// Directed edges to store, at most, `u64::MAX` standing for anything larger.
        stored: u64,
    },
}

impl Spec {
    /// The number of vertices asked for; saturates.
    pub fn vertices(&self) -> u64 {
        match *self {
            Spec::Chain { vertices, .. } | Spec::Random { vertices, .. } => u64::from(vertices),
            Spec::Grid { width, height, .. } => u64::from(width) * u64::from(height),
            Spec::Rmat { scale, .. } => 2u64.saturating_pow(scale),
        }
    }

    /// The number of edges before an undirected one is stored both ways; saturates.
    pub fn input_edges(&self) -> u64 {
        match *self {
            Spec::Chain { vertices, .. } => u64::from(vertices).saturating_sub(1),
            Spec::Grid { width, height, .. } => {
                let along =
                    |line: u32, lines: u32| u64::from(line.saturating_sub(1)) * u64::from(lines);
                along(width, height).saturating_add(along(height, width))
            }
            Spec::Random { edges, .. } => edges,
            Spec::Rmat { edge_factor, .. } => {
                self.vertices().saturating_mul(u64::from(edge_factor))
            }
        }
    }

    /// Whether each edge is stored once or both ways.
    pub fn direction(&self) -> Direction {
        match *self {
            Spec::Chain { direction, .. }
            | Spec::Grid { direction, .. }
            | Spec::Random { direction, .. }
            | Spec::Rmat { direction, .. } => direction,
        }
    }

    /// Checks every size, so that nothing is allocated for a graph that cannot be built.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let all = u64::from(u32::MAX);
        match *self {
            Spec::Chain { vertices, .. } => in_range("N", vertices, 1..=all)?,
            Spec::Grid { width, height, .. } => {
                in_range("W", width, 1..=all)?;
                in_range("H", height, 1..=all)?;
            }
            Spec::Random { vertices, .. } => in_range("N", vertices, 2..=all)?,
            Spec::Rmat {
                scale, edge_factor, ..
            } => {
                in_range("SCALE", scale, SCALES)?;
                in_range("EDGEFACTOR", edge_factor, 1..=all)?;
            }
        }
        let copies = if self.direction() == Direction::Undirected {
            2
        } else {
            1
        };
        let (vertices, stored) = (self.vertices(), self.input_edges().saturating_mul(copies));
        if vertices.max(stored) > all {
            return Err(SpecError::TooLarge {
                spec: *self,
                vertices,
                stored,
            });
        }
        Ok(())
    }
}

fn in_range(field: &'static str, value: u32, range: RangeInclusive<u64>) -> Result<(), SpecError> {
    let value = u64::from(value);
    if range.contains(&value) {
        return Ok(());
    }
    Err(SpecError::OutOfRange {
        field,
        value,
        min: *range.start(),
        max: *range.end(),
    })
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Spec::Chain { vertices, .. } => write!(f, "chain:{vertices}")?,
            Spec::Grid { width, height, .. } => write!(f, "grid:{width}x{height}")?,
            Spec::Random {
                vertices,
                edges,
                seed,
                ..
            } => {
                write!(f, "random:{vertices}:{edges}:{seed}")?;
            }
            Spec::Rmat {
                scale,
                edge_factor,
                seed,
                ..
            } => {
                write!(f, "rmat:{scale}:{edge_factor}:{seed}")?;
            }
        }
        match self.direction() {
            Direction::Directed => f.write_str(",directed"),
            Direction::Undirected => Ok(()),
        }
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        let (shape, direction) = match text.split_once(',') {
            None => (text, Direction::Undirected),
            Some((shape, "directed")) => (shape, Direction::Directed),
            Some((_, suffix)) => {
                return Err(SpecError::UnknownSuffix {
                    suffix: suffix.to_owned(),
                });
            }
        };
        let mut fields = Fields {
            spec: text,
            fields: shape.split(':'),
        };
        let spec = match fields.fields.next().unwrap_or_default() {
            "chain" => Spec::Chain {
                vertices: fields.number("N", None)?,
                direction,
            },
            "grid" => {
                let size = fields.text("WxH")?;
                let Some((width, height)) = size.split_once('x') else {
                    return Err(SpecError::BadNumber {
                        field: "WxH",
                        found: size.to_owned(),
                    });
                };
                let (width, height) = (number("W", width)?, number("H", height)?);
                Spec::Grid {
                    width,
                    height,
                    direction,
                }
            }
            "random" => Spec::Random {
                vertices: fields.number("N", None)?,
                edges: fields.number("M", None)?,
                seed: fields.number("SEED", Some(DEFAULT_SEED))?,
                direction,
            },
            "rmat" => Spec::Rmat {
                scale: fields.number("SCALE", None)?,
                edge_factor: fields.number("EDGEFACTOR", Some(DEFAULT_EDGE_FACTOR))?,
                seed: fields.number("SEED", Some(DEFAULT_SEED))?,
                direction,
            },
            name => {
                return Err(SpecError::UnknownGenerator {
                    name: name.to_owned(),
                });
            }
        };
        if let Some(field) = fields.fields.next() {
            let (spec, field) = (text.to_owned(), field.to_owned());
            return Err(SpecError::ExtraField { spec, field });
        }
        spec.check()?;
        Ok(spec)
    }
}

/// The fields of a spec between its colons.
struct Fields<'a> {
    spec: &'a str,
    fields: std::str::Split<'a, char>,
}

impl<'a> Fields<'a> {
    fn text(&mut self, field: &'static str) -> Result<&'a str, SpecError> {
        let missing = || SpecError::MissingField {
            spec: self.spec.to_owned(),
            field,
        };
        self.fields.next().ok_or_else(missing)
    }

    fn number<T: FromStr>(
        &mut self,
        field: &'static str,
        default: Option<T>,
    ) -> Result<T, SpecError> {
        match (self.text(field), default) {
            (Ok(text), _) => number(field, text),
            (Err(_), Some(default)) => Ok(default),
            (Err(missing), None) => Err(missing),
        }
    }
}

/// Digits only: the standard parser would also take a plus sign.
fn number<T: FromStr>(field: &'static str, text: &str) -> Result<T, SpecError> {
    let bad = || SpecError::BadNumber {
        field,
        found: text.to_owned(),
    };
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    text.parse().map_err(|_| bad())
}
