//! Files: gzip in all its states, file names in errors, progress.

use std::fs;
use std::io::Write;
use std::path::Path;

use everwarp_graph::{Csr, Direction, GraphError, ReadOptions, read_path};
use flate2::Compression;
use flate2::write::GzEncoder;

const EDGES: [(u32, u32); 4] = [(0, 1), (1, 2), (2, 0), (3, 3)];
const TEXT: &str = "0 1\n1 2\n2 0\n3 3\n";

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Reads `bytes` from a file whose name says nothing about its content.
fn read_bytes(bytes: &[u8]) -> Result<Csr, GraphError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, bytes).unwrap();
    read_path(file.path(), &ReadOptions::default(), &mut |_, _| {})
}

fn expected() -> Csr {
    Csr::from_edges(4, &EDGES, Direction::Undirected).unwrap()
}

#[test]
fn gzip_is_recognized_by_its_first_bytes() {
    assert_eq!(read_bytes(TEXT.as_bytes()).unwrap(), expected());
    assert_eq!(read_bytes(&gzip(TEXT)).unwrap(), expected());
}

#[test]
fn gzip_members_are_joined_even_within_a_line() {
    let members = [gzip(&TEXT[..5]), gzip(""), gzip(&TEXT[5..])].concat();
    assert_eq!(read_bytes(&members).unwrap(), expected());
}

#[test]
fn every_truncation_is_an_error() {
    let members = [gzip(&TEXT[..8]), gzip(&TEXT[8..])].concat();
    let boundary = gzip(&TEXT[..8]).len();
    for length in (2..members.len()).filter(|&length| length != boundary) {
        let error = read_bytes(&members[..length]).unwrap_err();
        assert!(
            matches!(error.kind(), GraphError::TruncatedGzip { .. }),
            "{length}: {error:?}"
        );
    }
    let error = read_bytes(&members[..members.len() - 1]).unwrap_err();
    assert!(error.to_string().contains("after line 4"), "{error}");
}

#[test]
fn damaged_gzip_is_an_error() {
    let whole = gzip(TEXT);
    let mut checksum = whole.clone();
    checksum[whole.len() - 6] ^= 1;
    let mut method = whole.clone();
    method[2] = 9;
    let mut block = whole.clone();
    block[10] |= 0b110;
    let trailing = [&whole[..], b"left over from another file"].concat();
    for bytes in [checksum, method, block, trailing] {
        let error = read_bytes(&bytes).unwrap_err();
        assert!(
            matches!(error.kind(), GraphError::CorruptGzip { .. }),
            "{error:?}"
        );
    }
}

#[test]
fn errors_name_the_file_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("roads.txt");
    let read = |path: &Path| read_path(path, &ReadOptions::default(), &mut |_, _| {}).unwrap_err();
    assert!(matches!(read(&path), GraphError::NotFound { .. }));
    fs::write(&path, gzip("0 1\n1 x\n")).unwrap();
    let error = read(&path);
    assert!(
        matches!(error.kind(), GraphError::NotAnId { line: 2, .. }),
        "{error:?}"
    );
    assert_eq!(error.to_string().matches("roads.txt").count(), 1, "{error}");
    assert!(std::error::Error::source(&error).is_none());
    assert!(matches!(
        read(folder.path()),
        GraphError::Open { .. } | GraphError::InFile { .. }
    ));
    assert!(matches!(read(folder.path()).kind(), GraphError::Folder));
}

#[test]
fn progress_counts_stored_bytes_up_to_the_file_size() {
    let text: String = (0..200_000u32)
        .map(|v| format!("{v} {}\n", v / 2))
        .collect();
    for bytes in [text.clone().into_bytes(), gzip(&text)] {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, &bytes).unwrap();
        let mut reports = Vec::new();
        let graph = read_path(file.path(), &ReadOptions::default(), &mut |read, total| {
            reports.push((read, total));
        });
        // Some two megabytes, so lines straddle the blocks in many places.
        let edges: Vec<_> = (0..200_000).map(|v| (v, v / 2)).collect();
        let expected = Csr::from_edges(200_000, &edges, Direction::Undirected);
        assert_eq!(graph.unwrap(), expected.unwrap());
        let size = bytes.len() as u64;
        assert!(reports.len() >= 3 && reports.is_sorted(), "{reports:?}");
        assert!(reports.iter().all(|&(_, total)| total == size));
        assert_eq!(reports.last(), Some(&(size, size)));
    }
}
