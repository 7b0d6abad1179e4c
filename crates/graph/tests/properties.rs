//! A graph that is written with any edges is read back as the same graph, and its rows are consistent.

use std::fmt::Write as _;
use std::io::Write as _;

use everwarp_graph::{Csr, Direction, Format, ReadOptions, Spec, read, read_path};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::collection::vec;
use proptest::prelude::*;

fn edges() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop_oneof![Just(4u32), Just(60), Just(100_000)]
        .prop_flat_map(|ids| vec((0..ids, 0..ids), 1..200))
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Directed), Just(Direction::Undirected)]
}

/// Text around the two ids of an edge: comments, blanks, weights, line ends.
fn decoration() -> impl Strategy<Value = (&'static str, &'static str, &'static str)> {
    let before = prop::sample::select(vec!["", " ", "# note\n", "%\n\n", "\t"]);
    let between = prop::sample::select(vec![" ", "\t", "  \t "]);
    let after = prop::sample::select(vec![
        "\n",
        "\r\n",
        " 1\n",
        " -2.5e3 17\n",
        " # why\n",
        " \n",
    ]);
    (before, between, after)
}

fn vertices(edges: &[(u32, u32)]) -> u32 {
    edges.iter().map(|&(u, v)| u.max(v)).max().unwrap() + 1
}

fn spec() -> impl Strategy<Value = Spec> {
    prop_oneof![
        (1..500u32, direction()).prop_map(|(vertices, direction)| Spec::Chain {
            vertices,
            direction
        }),
        (1..30u32, 1..30u32, direction()).prop_map(|(width, height, direction)| Spec::Grid {
            width,
            height,
            direction
        }),
        (2..500u32, 0..900u64, any::<u64>(), direction()).prop_map(
            |(vertices, edges, seed, direction)| Spec::Random {
                vertices,
                edges,
                seed,
                direction
            }
        ),
        (1..9u32, 1..9u32, any::<u64>(), direction()).prop_map(
            |(scale, edge_factor, seed, direction)| Spec::Rmat {
                scale,
                edge_factor,
                seed,
                direction
            }
        ),
    ]
}

/// Every arc of the graph, in the order of the rows.
fn arcs(graph: &Csr) -> Vec<(u32, u32)> {
    let row = |u| graph.neighbors(u).iter().map(move |&v| (u, v));
    (0..graph.vertices()).flat_map(row).collect()
}

fn check_invariants(graph: &Csr) {
    let (rows, columns) = (graph.rows(), graph.columns());
    assert_eq!(rows.len(), graph.vertices() as usize + 1);
    assert_eq!(
        (rows[0], u64::from(rows[rows.len() - 1])),
        (0, graph.edges())
    );
    assert!(rows.is_sorted());
    assert_eq!(columns.len() as u64, graph.edges());
    assert!(columns.iter().all(|&v| v < graph.vertices()));
    assert!((0..graph.vertices()).all(|v| graph.neighbors(v).is_sorted()));
    let degrees = (0..graph.vertices()).map(|v| graph.neighbors(v).len() as u32);
    assert_eq!(graph.max_degree(), degrees.max().unwrap_or(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn rows_hold_exactly_the_edges(edges in edges(), direction in direction()) {
        let graph = Csr::from_edges(vertices(&edges), &edges, direction).unwrap();
        check_invariants(&graph);
        let mut expected = edges.clone();
        if direction == Direction::Undirected {
            expected.extend(edges.iter().filter(|(u, v)| u != v).map(|&(u, v)| (v, u)));
        }
        expected.sort_unstable();
        prop_assert_eq!(arcs(&graph), expected);
        prop_assert_eq!(graph.input_edges(), edges.len() as u64);
    }

    #[test]
    fn transposing_reverses_every_arc(edges in edges(), direction in direction()) {
        let graph = Csr::from_edges(vertices(&edges), &edges, direction).unwrap();
        let reversed = graph.transpose();
        check_invariants(&reversed);
        let mut expected: Vec<_> = arcs(&graph).into_iter().map(|(u, v)| (v, u)).collect();
        expected.sort_unstable();
        prop_assert_eq!(arcs(&reversed), expected);
        prop_assert_eq!(&reversed.transpose(), &graph);
        prop_assert_eq!(direction == Direction::Directed || reversed == graph, true);
    }

    #[test]
    fn written_edge_lists_are_read_back(
        edges in vec(((0..5000u32, 0..5000u32), decoration()), 1..200),
        direction in direction(),
        open_end: bool,
        mark: bool,
    ) {
        let mut text = String::from(if mark { "\u{feff}" } else { "" });
        for ((u, v), (before, between, after)) in &edges {
            write!(text, "{before}{u}{between}{v}{after}").unwrap();
        }
        let text = if open_end { text.trim_end_matches(['\r', '\n']) } else { &text };
        let edges: Vec<_> = edges.iter().map(|&(edge, _)| edge).collect();
        let expected = Csr::from_edges(vertices(&edges), &edges, direction).unwrap();
        for format in [Format::Auto, Format::EdgeList] {
            let options = ReadOptions { format, direction: Some(direction) };
            prop_assert_eq!(&read(text.as_bytes(), &options).unwrap(), &expected);
        }
    }

    #[test]
    fn written_matrices_are_read_back(
        edges in edges(),
        isolated in 0..3u32,
        symmetric: bool,
        field in prop::sample::select(vec![("pattern", ""), ("real", " 1e-3"), ("integer", " -7")]),
    ) {
        let (size, (field, value)) = (vertices(&edges) + isolated, field);
        let (symmetry, direction) = match symmetric {
            true => ("symmetric", Direction::Undirected),
            false => ("general", Direction::Directed),
        };
        let mut text = format!("%%MatrixMarket matrix coordinate {field} {symmetry}\n% made up\n");
        writeln!(text, "{size} {size} {}", edges.len()).unwrap();
        for (u, v) in &edges {
            writeln!(text, "{} {}{value}", u + 1, v + 1).unwrap();
        }
        let expected = Csr::from_edges(size, &edges, direction).unwrap();
        prop_assert_eq!(&read(text.as_bytes(), &ReadOptions::default()).unwrap(), &expected);
        let other = [Direction::Undirected, Direction::Directed][usize::from(symmetric)];
        let options = ReadOptions { format: Format::MatrixMarket, direction: Some(other) };
        let expected = Csr::from_edges(size, &edges, other).unwrap();
        prop_assert_eq!(&read(text.as_bytes(), &options).unwrap(), &expected);
    }

    #[test]
    fn written_gzip_files_are_read_back(edges in edges(), level in 0..10u32, cut: prop::sample::Index) {
        let text: String = edges.iter().map(|(u, v)| format!("{u}\t{v}\n")).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let (first, second) = text.split_at(cut.index(text.len()));
        for member in [first, second] {
            let mut encoder = GzEncoder::new(&mut file, Compression::new(level));
            encoder.write_all(member.as_bytes()).unwrap();
            encoder.finish().unwrap();
        }
        let graph = read_path(file.path(), &ReadOptions::default(), &mut |_, _| {}).unwrap();
        let expected = Csr::from_edges(vertices(&edges), &edges, Direction::Undirected).unwrap();
        prop_assert_eq!(graph, expected);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..300)) {
        for format in [Format::Auto, Format::EdgeList, Format::MatrixMarket] {
            let _ = read(&bytes[..], &ReadOptions { format, direction: None });
        }
    }

    #[test]
    fn specs_are_parsed_back_and_generate_what_they_say(spec in spec()) {
        prop_assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec);
        let graph = everwarp_graph::generate(&spec).unwrap();
        check_invariants(&graph);
        prop_assert_eq!(u64::from(graph.vertices()), spec.vertices());
        prop_assert_eq!(graph.input_edges(), spec.input_edges());
        prop_assert_eq!(everwarp_graph::generate(&spec).unwrap(), graph);
    }
}
