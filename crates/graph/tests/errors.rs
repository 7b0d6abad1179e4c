//! Each way in which a text can be wrong, with the line that the error must name.

use std::io::{self, BufReader, Read};

use everwarp_graph::{Csr, Direction, Format, GraphError, MAX_ID, ReadOptions, read};

const EDGE_LIST: ReadOptions = ReadOptions {
    format: Format::EdgeList,
    direction: None,
};
const MATRIX: ReadOptions = ReadOptions {
    format: Format::MatrixMarket,
    direction: None,
};
const GENERAL: &str = "%%MatrixMarket matrix coordinate pattern general\n";

fn auto(text: &str) -> Result<Csr, GraphError> {
    read(text.as_bytes(), &ReadOptions::default())
}

/// Asserts that reading `$text` fails with `$error`, guards included, and that the message is a
/// sentence that names `$line`.
macro_rules! fails {
    ($result:expr, line $line:literal, $error:pat $(if $guard:expr)?) => {{
        let error = $result.unwrap_err();
        assert!(matches!(&error, $error $(if $guard)?), "{error:?}");
        assert!(error.to_string().contains(&format!("line {}", $line)), "{error}");
    }};
}

#[test]
fn empty_inputs_are_refused() {
    for (text, count) in [
        ("", 0),
        ("\n", 1),
        ("# no edges\n% none\n \t\r\n", 3),
        ("# open", 1),
    ] {
        let error = auto(text).unwrap_err();
        assert!(
            matches!(error, GraphError::NoEdges { lines } if lines == count),
            "{error:?}"
        );
    }
}

#[test]
fn malformed_edge_lines_are_named_in_the_error() {
    use GraphError::{IdTooLarge, MissingColumn, NegativeId, NotANumber, NotAnId};
    fails!(auto("# c\n0 1\n\n7\n"), line 4, MissingColumn { line: 4 });
    fails!(auto("0 1\n7 \t\r\n"), line 2, MissingColumn { line: 2 });
    fails!(auto("0 1\n2 3\n7"), line 3, MissingColumn { line: 3 });
    fails!(auto("0 1\n1 -2\n"), line 2, NegativeId { line: 2, found } if found == "-2");
    fails!(auto("from to\n0 1\n"), line 1, NotAnId { line: 1, found } if found == "from");
    fails!(auto("0 1\n0,1\n"), line 2, NotAnId { line: 2, found } if found == "0,1");
    fails!(auto("0 1\n0 1.0\n"), line 2, NotAnId { line: 2, found } if found == "1.0");
    fails!(auto("0 1\n+1 2\n"), line 2, NotAnId { line: 2, found } if found == "+1");
    fails!(auto("0 1\n- 2\n"), line 2, NotAnId { line: 2, found } if found == "-");
    fails!(auto("0 4294967295\n"), line 1, IdTooLarge { line: 1, found } if found == "4294967295");
    let huge = "99999999999999999999999";
    fails!(auto(&format!("0 1\n{huge} 1\n")), line 2, IdTooLarge { line: 2, found } if found == huge);
    fails!(auto("0 1 2.5 x\n"), line 1, NotANumber { line: 1, found } if found == "x");
    fails!(auto("0 1\n0 1 2024-01-01\n"), line 2, NotANumber { line: 2, .. });
}

#[test]
fn found_text_is_printable_and_short() {
    let noise = format!("0 1\n\u{1b}[31m{}\n", "x".repeat(500));
    fails!(auto(&noise), line 2, GraphError::NotAnId { line: 2, found }
        if found.len() < 60 && found.starts_with("\\u{1b}[31mx"));
}

#[test]
fn sparse_ids_are_refused_before_they_cost_memory() {
    fails!(
        auto(&format!("0 1\n2 {MAX_ID}\n3 4\n")), line 2,
        GraphError::SparseIds { line: 2, vertices: 4_294_967_295, edges: 3, limit: 1_000_193 }
    );
    assert_eq!(auto("0 1\n0 1000128\n").unwrap().vertices(), 1_000_129);
    fails!(auto("0 1\n0 1000129\n"), line 2, GraphError::SparseIds { line: 2, .. });
    let matrix = format!("{GENERAL}4000000000 4000000000 1\n1 1\n");
    fails!(auto(&matrix), line 2, GraphError::SparseIds { line: 2, edges: 1, .. });
}

#[test]
fn endless_lines_are_refused() {
    let text = format!("0 1\n{}", " ".repeat(1 << 20));
    fails!(auto(&text), line 2, GraphError::LineTooLong { line: 2, limit: 262_144 });
    let comment = format!("#{}\n0 1\n", "-".repeat(200_000));
    assert_eq!(auto(&comment).unwrap().input_edges(), 1);
}

#[test]
fn wrong_matrix_banners_are_refused() {
    use GraphError::{BadBanner, UnexpectedBanner, UnsupportedMatrix};
    let matrix = |text: &str| read(text.as_bytes(), &MATRIX);
    fails!(matrix("3 3 1\n1 2\n"), line 1, BadBanner { line: 1 });
    fails!(auto("%%MatrixMarket matrix coordinate\n"), line 1, BadBanner { line: 1 });
    fails!(auto("%%MatrixMarketing matrix coordinate real general\n"), line 1, BadBanner { .. });
    let banner = |words: &str| auto(&format!("%%MatrixMarket {words}\n1 1 1\n1 1 1\n"));
    for (words, odd) in [
        ("vector coordinate real general", "vector"),
        ("matrix array real general", "array"),
        ("matrix coordinate complex general", "complex"),
        ("matrix coordinate real skew-symmetric", "skew-symmetric"),
        ("matrix coordinate pattern hermitian", "hermitian"),
    ] {
        fails!(banner(words), line 1, UnsupportedMatrix { line: 1, found } if found == odd);
    }
    assert!(banner("MATRIX Coordinate Real GENERAL").is_ok());
    let text = format!("{GENERAL}2 2 1\n1 2\n");
    fails!(read(text.as_bytes(), &EDGE_LIST), line 1, UnexpectedBanner { line: 1 });
    assert!(matches!(matrix(""), Err(GraphError::NoEdges { lines: 0 })));
}

#[test]
fn wrong_matrix_sizes_are_refused() {
    use GraphError::{BadSize, FileTooLarge, NotSquare};
    let body = |body: &str| auto(&format!("{GENERAL}% comment\n{body}"));
    fails!(body(""), line 3, BadSize { line: 3 });
    fails!(body("3 3\n"), line 3, BadSize { line: 3 });
    fails!(body("\n3 3 x\n"), line 4, BadSize { line: 4 });
    fails!(body("3 3 1 1\n"), line 3, BadSize { line: 3 });
    fails!(body("3 4 1\n"), line 3, NotSquare { line: 3, rows: 3, columns: 4 });
    fails!(body("9 9 4294967296\n"), line 3, FileTooLarge { line: 3, limit: 4_294_967_295 });
    assert!(matches!(
        body("3 3 0\n"),
        Err(GraphError::NoEdges { lines: 3 })
    ));
}

#[test]
fn wrong_matrix_entries_are_refused() {
    use GraphError::{
        ExtraEntry, MissingColumn, MissingEntries, MissingValue, NegativeId, OutsideMatrix,
    };
    let body = |body: &str| auto(&format!("{GENERAL}{body}"));
    fails!(body("3 3 2\n1 2\n4 1\n"), line 4, OutsideMatrix { line: 4, found, vertices: 3 } if found == "4");
    fails!(body("3 3 1\n1 0\n"), line 3, OutsideMatrix { line: 3, found, .. } if found == "0");
    fails!(body("3 3 1\n-1 1\n"), line 3, NegativeId { line: 3, .. });
    fails!(body("3 3 1\n1\n"), line 3, MissingColumn { line: 3 });
    fails!(body("3 3 1\n1 2\n\n2 3\n"), line 5, ExtraEntry { line: 5, declared: 1 });
    fails!(body("3 3 3\n1 2\n2 3\n"), line 4, MissingEntries { line: 4, declared: 3, found: 2 });
    let real = "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 0.5\n3 1\n";
    fails!(auto(real), line 4, MissingValue { line: 4 });
}

#[test]
fn edges_of_a_slice_are_checked() {
    let edges = [(0, 1), (1, 3)];
    let error = Csr::from_edges(3, &edges, Direction::Directed).unwrap_err();
    assert!(
        matches!(
            error,
            GraphError::NoSuchVertex {
                edge: 1,
                id: 3,
                vertices: 3
            }
        ),
        "{error}"
    );
}

#[test]
fn failing_reader_is_reported_with_its_line() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("unplugged"))
        }
    }
    let reader = BufReader::new(b"0 1\n1 2\n2".chain(Broken));
    fails!(read(reader, &EDGE_LIST), line 2, GraphError::Read { line: 2, .. });
}
