//! The errors of reading, building and generating graphs, with their remedies.

use std::io;
use std::path::PathBuf;

use crate::spec::SpecError;

/// The largest vertex id: one below `u32::MAX`, so that the number of vertices fits a `u32` too and
/// `u32::MAX` is free to mean "no vertex" in the programs.
pub const MAX_ID: u32 = u32::MAX - 1;

/// Why a graph could not be read, built or generated.
///
/// Lines are counted from 1, in the text after decompression. `found` is the offending column as
/// text, escaped and clipped to 40 characters.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// There is no file at this path.
    #[error("there is no file {}; check the path", path.display())]
    NotFound {
        /// The path as given.
        path: PathBuf,
    },
    /// The path names a folder.
    #[error("this is a folder; name a file in it")]
    Folder,
    /// The file exists but could not be opened.
    #[error("cannot open {}; check its permissions", path.display())]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// One of the errors below, with the file that it concerns. Only [`crate::read_path`] returns it.
    ///
    /// The inner error is part of the message and deliberately not its `source()`, so that a report
    /// that prints the chain of causes does not say it twice.
    #[error("{}: {error}", path.display())]
    InFile {
        /// The path as given.
        path: PathBuf,
        /// The error in the file's content.
        error: Box<GraphError>,
    },
    /// The input failed while it was read.
    #[error("reading failed after line {line}; check the disk or the pipe that it comes from")]
    Read {
        /// The last complete line before the failure; 0 when there was none.
        line: u64,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A gzip file ends in the middle of a member.
    #[error(
        "the gzip data ends too early, after line {line}; the file was cut off: fetch or pack it again"
    )]
    TruncatedGzip {
        /// The last complete line that could be unpacked; 0 when there was none.
        line: u64,
    },
    /// A gzip file is damaged: bad header, bad block, or a checksum that does not match.
    #[error("the gzip data is damaged after line {line}; fetch or pack the file again")]
    CorruptGzip {
        /// The last complete line that could be unpacked; 0 when there was none.
        line: u64,
    },
    /// The input holds no edge: it is empty, or all of it is comments and blank lines.
    #[error("the input has {lines} lines and no edge among them; each edge is a line `u v`")]
    NoEdges {
        /// Lines in the input.
        lines: u64,
    },
    /// A line does not fit the line buffer, which a line of a graph file never fills.
    #[error("line {line} is longer than {limit} bytes; is this a text file?")]
    LineTooLong {
        /// The line at fault.
        line: u64,
        /// The longest line accepted, in bytes.
        limit: usize,
    },
    /// A line ends where a vertex id was expected.
    #[error("line {line} has only one column; an edge needs two vertex ids separated by blanks")]
    MissingColumn {
        /// The line at fault.
        line: u64,
    },
    /// A vertex id is below zero.
    #[error("line {line}: `{found}` is negative; number the vertices from 0 up")]
    NegativeId {
        /// The line at fault.
        line: u64,
        /// The column as text.
        found: String,
    },
    /// A vertex id is not a whole number.
    #[error(
        "line {line}: `{found}` is not a vertex id; ids are whole numbers separated by blanks, \
         and header lines start with `#` or `%`"
    )]
    NotAnId {
        /// The line at fault.
        line: u64,
        /// The column as text.
        found: String,
    },
    /// A vertex id is above [`MAX_ID`].
    #[error("line {line}: vertex id `{found}` is above {MAX_ID}; renumber the vertices from 0 up")]
    IdTooLarge {
        /// The line at fault.
        line: u64,
        /// The column as text.
        found: String,
    },
    /// A column after the two vertex ids, which would be ignored if it were a number, is not one.
    #[error(
        "line {line}: extra column `{found}` is not a number; only numbers such as weights are \
         ignored after the two vertex ids, so remove it"
    )]
    NotANumber {
        /// The line at fault.
        line: u64,
        /// The column as text.
        found: String,
    },
    /// The ids are so sparse that the graph would be nearly all isolated vertices, and gigabytes of them.
    #[error(
        "line {line} makes a graph of {vertices} vertices, but the input has only {edges} edges \
         (the limit is {limit} vertices); renumber the vertices to 0, 1, 2, ... without gaps"
    )]
    SparseIds {
        /// The line with the largest id, or the size line of a Matrix Market file.
        line: u64,
        /// Vertices that the graph would have.
        vertices: u64,
        /// Edges in the input.
        edges: u64,
        /// Most vertices accepted with that many edges.
        limit: u64,
    },
    /// A file holds more edges than row offsets of 32 bits can count.
    #[error(
        "line {line} takes the graph beyond {limit} stored edges; split the graph, or read it as \
         directed, which stores each edge once"
    )]
    FileTooLarge {
        /// The first line that does not fit, or the size line of a Matrix Market file.
        line: u64,
        /// Most directed edges that can be stored.
        limit: u64,
    },
    /// A list of edges is longer than row offsets of 32 bits can count.
    #[error(
        "{stored} stored edges are more than the {} that a graph can hold; split it",
        u32::MAX
    )]
    TooManyEdges {
        /// Directed edges that would have to be stored.
        stored: u64,
    },
    /// An edge given to [`crate::Csr::from_edges`] names a vertex that the graph does not have.
    #[error("edge {edge} names vertex {id}, but the graph has {vertices} vertices, from 0 up")]
    NoSuchVertex {
        /// Index of the edge in the slice.
        edge: usize,
        /// The vertex that it names.
        id: u32,
        /// Vertices of the graph.
        vertices: u32,
    },
    /// The host refused the memory that the graph needs.
    #[error("cannot allocate {bytes} bytes for the graph; use a smaller one or a larger machine")]
    OutOfMemory {
        /// Bytes asked for in the allocation that failed.
        bytes: u64,
    },
    /// The first line of a Matrix Market file is not a banner of five words.
    #[error(
        "line {line} is not a Matrix Market banner; it must read \
         `%%MatrixMarket matrix coordinate pattern|real|integer general|symmetric`"
    )]
    BadBanner {
        /// The line at fault, always 1.
        line: u64,
    },
    /// A file read as an edge list starts with a Matrix Market banner, so its size line and its ids,
    /// which count from 1, would be misread.
    #[error("line {line} is a Matrix Market banner; read the file as Matrix Market, or as `Auto`")]
    UnexpectedBanner {
        /// The line at fault, always 1.
        line: u64,
    },
    /// A banner names a kind of matrix that is not read.
    #[error(
        "line {line}: `{found}` matrices are not read; convert the file to `coordinate` with \
         `pattern`, `real` or `integer` entries, `general` or `symmetric`"
    )]
    UnsupportedMatrix {
        /// The line at fault, always 1.
        line: u64,
        /// The word of the banner that is not supported.
        found: String,
    },
    /// The size line of a Matrix Market file is absent or malformed.
    #[error(
        "line {line} should hold the matrix size as three whole numbers: rows, columns, entries"
    )]
    BadSize {
        /// The line at fault, or the line after the last when the file ends before it.
        line: u64,
    },
    /// The matrix is not square, so it is not the adjacency matrix of a graph.
    #[error("line {line}: a matrix of {rows} x {columns} is not square, so it is not a graph")]
    NotSquare {
        /// The size line.
        line: u64,
        /// Declared rows.
        rows: u64,
        /// Declared columns.
        columns: u64,
    },
    /// An entry is outside the declared matrix.
    #[error("line {line}: index `{found}` is outside 1..={vertices}, the declared matrix size")]
    OutsideMatrix {
        /// The line at fault.
        line: u64,
        /// The index as text.
        found: String,
        /// Declared rows, which are the vertices.
        vertices: u32,
    },
    /// An entry of a real or integer matrix has no value.
    #[error(
        "line {line} has no value; entries are `row column value` unless the banner says pattern"
    )]
    MissingValue {
        /// The line at fault.
        line: u64,
    },
    /// A Matrix Market file goes on after the last declared entry.
    #[error(
        "line {line} is one entry more than the {declared} that the size line declares; correct it"
    )]
    ExtraEntry {
        /// The first line too many.
        line: u64,
        /// Declared entries.
        declared: u64,
    },
    /// A Matrix Market file ends before the last declared entry.
    #[error(
        "the input ends after line {line} with {found} of {declared} declared entries; it was cut off, \
         or its size line is wrong"
    )]
    MissingEntries {
        /// The last line of the input.
        line: u64,
        /// Declared entries.
        declared: u64,
        /// Entries found.
        found: u64,
    },
    /// The spec given to [`crate::generate`] asks for a graph that cannot be built.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

impl GraphError {
    /// The error itself, without the file name that [`crate::read_path`] put around it.
    pub fn kind(&self) -> &GraphError {
        match self {
            GraphError::InFile { error, .. } => error.kind(),
            other => other,
        }
    }
}
