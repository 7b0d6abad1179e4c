//! From a file to a graph: opening, gzip, choice of the format.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::csr::Csr;
use crate::direction::Direction;
use crate::edges::Edges;
use crate::error::GraphError;
use crate::lines::Lines;
use crate::{edge_list, matrix_market};

/// How every gzip file begins (RFC 1952, section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Bytes read from a file at once; also how often progress is reported.
const BLOCK: usize = 256 * 1024;

/// The format of a graph file, before compression.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Matrix Market if the first line is its banner, an edge list otherwise.
    #[default]
    Auto,
    /// One edge per line as `u v`, ids from 0, columns separated by blanks. The vertices are
    /// `0..=largest id`. Blank lines, `#` and `%` comments and further numeric columns (weights,
    /// times) are passed over. This is the format of SNAP, KONECT and others.
    EdgeList,
    /// Matrix Market `coordinate`: `pattern`, `real` or `integer`, `general` or `symmetric`. Each
    /// stored entry is an edge from its row to its column, whatever its value; ids count from 1 in
    /// the file and from 0 in the graph.
    MatrixMarket,
}

/// How to read a graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ReadOptions {
    /// The format of the text.
    pub format: Format,
    /// Whether to store each edge in both directions. `None`: as the file says. A Matrix Market
    /// file says undirected by `symmetric` and directed by `general`; an edge list cannot say and
    /// counts as undirected.
    ///
    /// A file that already lists each edge in both directions, as SNAP's road networks do, is to be
    /// read as [`Direction::Directed`]: read as undirected it would hold each edge twice.
    pub direction: Option<Direction>,
}

/// Reads a graph from plain text, after any decompression.
///
/// Parallel edges and self loops are kept as given; see [`Csr`].
///
/// # Errors
/// All of [`GraphError`] but those that concern opening a file, gzip and generators.
pub fn read(reader: impl BufRead, options: &ReadOptions) -> Result<Csr, GraphError> {
    parse(reader, options)
}

/// Reads a graph from a file, plain or gzip; its first bytes tell which, not its
/// name. A gzip file may have several members.
///
/// `progress` is called with the bytes of the file read so far, as stored (before decompression),
/// and the size of the file, after every block of at most 256 KiB. The second never is below the
/// first, so that for a pipe, whose size is unknown, both are the same.
///
/// # Errors
/// [`GraphError::NotFound`] and [`GraphError::Open`] for the file itself, and
/// [`GraphError::InFile`] around everything that is wrong with its content.
pub fn read_path(
    path: &Path,
    options: &ReadOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Csr, GraphError> {
    let file = File::open(path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => GraphError::NotFound {
            path: path.to_owned(),
        },
        _ => GraphError::Open {
            path: path.to_owned(),
            source,
        },
    })?;
    read_file(file, path, options, progress)
}

/// The same for a file that is open. Errors name it by `path`.
///
/// # Errors
/// [`GraphError::InFile`].
pub fn read_file(
    file: File,
    path: &Path,
    options: &ReadOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Csr, GraphError> {
    let in_file = |error| GraphError::InFile {
        path: path.to_owned(),
        error: Box::new(error),
    };
    let metadata = file.metadata();
    if metadata.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        return Err(in_file(GraphError::Folder));
    }
    let total = metadata.map_or(0, |metadata| metadata.len());
    unpack(
        Watched {
            inner: file,
            read: 0,
            total,
            progress,
        },
        options,
    )
    .map_err(in_file)
}

/// Reads a graph from a file's bytes, decompressing them if need be.
fn unpack(mut file: impl Read, options: &ReadOptions) -> Result<Csr, GraphError> {
    let mut magic = Vec::with_capacity(GZIP_MAGIC.len());
    let peeked = file
        .by_ref()
        .take(GZIP_MAGIC.len() as u64)
        .read_to_end(&mut magic);
    peeked.map_err(|source| GraphError::Read { line: 0, source })?;
    let is_gzip = magic == GZIP_MAGIC;
    let file = BufReader::with_capacity(BLOCK, Cursor::new(magic).chain(file));
    if !is_gzip {
        return parse(file, options);
    }
    parse(MultiGzDecoder::new(file), options).map_err(|error| match error {
        GraphError::Read { line, source } => match source.kind() {
            ErrorKind::UnexpectedEof => GraphError::TruncatedGzip { line },
            ErrorKind::InvalidData | ErrorKind::InvalidInput => GraphError::CorruptGzip { line },
            _ => GraphError::Read { line, source },
        },
        other => other,
    })
}

/// Chooses the format and reads the text.
fn parse(reader: impl Read, options: &ReadOptions) -> Result<Csr, GraphError> {
    let mut lines = Lines::new(reader)?;
    let has_banner = lines.begins_with(matrix_market::BANNER)?;
    match options.format {
        Format::EdgeList if has_banner => Err(GraphError::UnexpectedBanner { line: 1 }),
        Format::MatrixMarket => matrix_market::parse(&mut lines, options.direction),
        Format::Auto if has_banner => matrix_market::parse(&mut lines, options.direction),
        Format::Auto | Format::EdgeList => {
            let direction = options.direction.unwrap_or(Direction::Undirected);
            edge_list::parse(&mut lines, Edges::new(direction))
        }
    }
}

/// A reader that reports how far it is.
struct Watched<'a, R> {
    inner: R,
    read: u64,
    total: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read += count as u64;
        (self.progress)(self.read, self.total.max(self.read));
        Ok(count)
    }
}
