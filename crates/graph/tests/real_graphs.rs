//! Real networks against their published numbers.

use std::io::Write;
use std::path::Path;

use everwarp_graph::{Csr, ReadOptions, read_path};

/// Degrees of the members in the order of the paper; its member 1 is vertex 0 here.
const KARATE_DEGREES: [usize; 34] = [
    16, 9, 10, 6, 3, 4, 4, 4, 5, 2, 3, 1, 2, 5, 2, 2, 2, 2, 2, 3, 2, 2, 2, 5, 3, 3, 2, 4, 3, 4, 4,
    6, 12, 17,
];

fn read(path: &str) -> Csr {
    read_path(Path::new(path), &ReadOptions::default(), &mut |_, _| {}).unwrap()
}

/// The sizes of the connected components, largest first.
fn components(graph: &Csr) -> Vec<usize> {
    let mut seen = vec![false; graph.vertices() as usize];
    let mut sizes = Vec::new();
    for start in 0..graph.vertices() {
        if std::mem::replace(&mut seen[start as usize], true) {
            continue;
        }
        let (mut found, mut next) = (vec![start], 0);
        while let Some(&u) = found.get(next) {
            next += 1;
            for &v in graph.neighbors(u) {
                if !std::mem::replace(&mut seen[v as usize], true) {
                    found.push(v);
                }
            }
        }
        sizes.push(found.len());
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

#[test]
fn karate_club_has_its_published_degrees() {
    let karate = read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../data/karate.txt"
    ));
    assert_eq!(
        (karate.vertices(), karate.input_edges(), karate.edges()),
        (34, 78, 156)
    );
    let degrees: Vec<_> = (0..34).map(|v| karate.neighbors(v).len()).collect();
    assert_eq!(degrees, KARATE_DEGREES);
    assert_eq!(karate.neighbors(16), [5, 6]);
    assert_eq!(components(&karate), [34]);
    assert!((0..34).all(|v| karate.neighbors(v).windows(2).all(|pair| pair[0] < pair[1])));
}

#[test]
fn moscow_roads_have_their_published_numbers() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/data/moscow-roads.txt.gz"
    );
    if !Path::new(path).exists() {
        // Not println!, because the harness hides its output when a test passes.
        writeln!(
            std::io::stderr(),
            "skipped: moscow-roads.txt.gz is not next to this checkout"
        )
        .expect("stderr takes a line");
        return;
    }
    let roads = read(path);
    assert_eq!((roads.vertices(), roads.input_edges()), (411_992, 451_135));
    assert_eq!(roads.max_degree(), 6);
    let components = components(&roads);
    assert_eq!((components.len(), components[0]), (440, 404_060));
}
