//! The programs of the registry: each result equals the plain reference.

use everwarp::{Device, Engine, EngineKind, Select};
use everwarp_graph::{Spec, generate};
use everwarp_programs::operators::{self, Operators};
use everwarp_programs::pairs::Pairs;
use everwarp_programs::range::{self, Range};
use everwarp_programs::{REGISTRY, bfs, fib, noop, pagerank, pingpong, tree};
use everwarp_testkit::cases;

use crate::support::{Case, least_size, parked_count, start, with};

pub(crate) const ALL: &[Case] = cases![
    every_program_equals_its_reference,
    noop_round_trips,
    fib_is_right_and_counts_every_call,
    pingpong_ends_with_the_right_one,
    block_tree,
    bfs_equals_the_reference,
    pagerank_equals_the_reference,
    pairs_run_in_order,
    ranges_are_covered_once,
    ranges_survive_other_sizes,
    operators_equal_the_reference,
];

/// On other engines they are among all programs of the registry.
pub(crate) const ONLY_WGPU: &[Case] = cases![programs_of_actors_equal_their_references];

/// One image with everything: no program may disturb the others.
fn start_all(select: Select) -> Engine {
    let device = Device::open(select).expect("the device opens");
    let others = REGISTRY.into_iter();
    // On wgpu programs of actors have an image of their own, so that a driver in software compiles neither for too long.
    let actors = device.kind() != EngineKind::Wgpu;
    let others = others.filter(|entry| {
        let standard = everwarp_programs::standard().any(|p| p.name == entry.name());
        let wanted = actors || !entry.program().has_actors();
        !standard && entry.runs_on(device.kind()) && wanted
    });
    let builder = others.fold(with(&device), |b, entry| b.program(entry.program()));
    builder.start().expect("the engine starts")
}

/// Every entry of the registry, with its example's options, on one engine after the other's work.
fn every_program_equals_its_reference(select: Select) {
    let engine = start_all(select);
    for entry in REGISTRY {
        let apart = engine.kind() == EngineKind::Wgpu && entry.program().has_actors();
        if apart || !entry.runs_on(engine.kind()) {
            continue;
        }
        let prepared = entry.prepare(&entry.example_values(), &mut |_, _| {});
        let prepared = prepared.unwrap_or_else(|e| panic!("{}: {e}", entry.name()));
        let finished = prepared.run(&engine).expect("it runs");
        assert_eq!(finished.verify(), Ok(()), "{}", entry.name());
    }
}

/// All of them in one image.
fn programs_of_actors_equal_their_references(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let actors = || {
        let of_actors = REGISTRY
            .into_iter()
            .filter(|entry| entry.program().has_actors());
        of_actors.filter(|entry| entry.runs_on(device.kind()))
    };
    let builder = actors().fold(device.engine(), |b, entry| b.program(entry.program()));
    let engine = builder.start().expect("the engine starts");
    for entry in actors() {
        let prepared = entry.prepare(&entry.example_values(), &mut |_, _| {});
        let prepared = prepared.unwrap_or_else(|e| panic!("{}: {e}", entry.name()));
        let finished = prepared.run(&engine).expect("it runs");
        assert_eq!(finished.verify(), Ok(()), "{}", entry.name());
    }
}

fn noop_round_trips(select: Select) {
    let engine = start(select);
    let instance = noop::instance(&engine).expect("noop is there");
    for _ in 0..1000 {
        let done = engine.run(instance.task(noop::NOTHING));
        assert_eq!(done.expect("it runs").value, 0);
    }
    engine.park().expect("it parks");
    assert_eq!(engine.stats().expect("there are counters").executed, 1000);
}

fn fib_is_right_and_counts_every_call(select: Select) {
    let engine = start(select);
    let instance = fib::instance(&engine).expect("fib is there");
    for n in [0, 1, 2, 5, 20, 25] {
        assert_eq!(
            fib::run(&engine, &instance, n).expect("it runs"),
            fib::reference(n),
            "fib({n})"
        );
    }
    let before = parked_count(&engine);
    assert_eq!(
        fib::run(&engine, &instance, 24).expect("it runs"),
        fib::reference(24)
    );
    // Every call runs once, and so does the addition after each call that forks.
    let calls = fib::calls(24);
    assert_eq!(parked_count(&engine) - before, calls + calls / 2);
}

fn pingpong_ends_with_the_right_one(select: Select) {
    let engine = start(select);
    let instance = pingpong::instance(&engine).expect("pingpong is there");
    for steps in [0, 1, 2, 999, 10_000] {
        let last = pingpong::run(&engine, &instance, steps).expect("it runs");
        assert_eq!(last, pingpong::reference(steps), "{steps} steps");
    }
}

fn block_tree(select: Select) {
    let engine = start(select);
    let tree = tree::Tree::new(&engine).expect("there is memory");
    for depth in [0, 1, 5, 12] {
        assert_eq!(
            tree.run(&engine, depth).expect("it runs"),
            tree::reference(depth),
            "depth {depth}"
        );
    }
}

fn graphs() -> Vec<everwarp_graph::Csr> {
    [
        "chain:500",
        "grid:60x40",
        "random:3000:9000:7",
        "rmat:12:16:3",
        "rmat:10:8:5,directed",
        "rmat:15:16:1",
        "random:60000:600000:2",
    ]
    .iter()
    .map(|s| generate(&s.parse::<Spec>().expect("a valid spec")).expect("it generates"))
    .collect()
}

fn bfs_equals_the_reference(select: Select) {
    let engine = start(select);
    let ways = [bfs::Way::Visits, bfs::Way::Levels];
    for (graph, way) in graphs().iter().flat_map(|g| ways.map(|w| (g, w))) {
        let search = bfs::Bfs::with_way(&engine, graph.rows(), graph.columns(), way)
            .expect("there is memory");
        for source in [0, graph.vertices() / 2, graph.vertices() - 1] {
            search.reset(&engine, source).expect("it resets");
            search.search(&engine, source).expect("it runs");
            let expected = bfs::reference(graph.rows(), graph.columns(), source);
            assert!(
                search.found().expect("it reads") == expected,
                "{way:?} from {source} of {} vertices",
                graph.vertices()
            );
        }
    }
}

fn pagerank_equals_the_reference(select: Select) {
    let engine = start(select);
    for graph in graphs() {
        let incoming = graph.transpose();
        let degrees: Vec<u32> = graph.rows().windows(2).map(|w| w[1] - w[0]).collect();
        let ranks =
            pagerank::PageRank::new(&engine, incoming.rows(), incoming.columns(), &degrees, 20)
                .and_then(|p| p.run(&engine))
                .expect("it runs");
        let expected = pagerank::reference(incoming.rows(), incoming.columns(), &degrees, 20);
        let worst = ranks
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs() / b)
            .fold(0.0, f64::max);
        assert!(worst < 1e-9, "relative error {worst}");
        assert!((ranks.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

fn pairs_run_in_order(select: Select) {
    let engine = start_all(select);
    for n in [1u32, 2, 3, 1000, 30_000] {
        let pairs = Pairs::new(&engine, n).expect("there is memory");
        let batch = pairs.batch();
        let check = |what: &str, run: &dyn Fn() -> Result<(), everwarp::Error>| {
            pairs.clear().expect("it is cleared");
            run().expect("it runs");
            assert!(pairs.ran(1).expect("it is read"), "{n} pairs, {what}");
        };
        if n <= 1000 {
            check("from the host", &|| pairs.run_from_host(&engine));
        }
        check("as a batch", &|| engine.submit_all(&batch));
        check("spawned", &|| pairs.run_on_device(&engine, false));
        check("joined", &|| pairs.run_on_device(&engine, true));
        check("as a chain", &|| pairs.run_chain(&engine));
        pairs.run_chain(&engine).expect("it runs");
        assert!(
            pairs.ran(2).expect("it is read"),
            "the check sees a second round"
        );
    }
}

fn ranges_are_covered_once(select: Select) {
    let engine = start_all(select);
    for (cells, grain) in [
        (1u32, 128u32),
        (127, 128),
        (128, 128),
        (129, 128),
        (4097, 256),
        (1_000_003, 1024),
        (3_000_000, 4096),
    ] {
        let range = Range::new(&engine, cells, grain).expect("there is memory");
        for function in [range::SPREAD, range::SPLIT, range::FAN] {
            range.clear().expect("it is cleared");
            range.run(&engine, function).expect("it runs");
            assert!(
                range.holds(1).expect("it is read"),
                "function {function}, {cells} cells in grains of {grain}"
            );
        }
        engine.submit_all(&range.batch()).expect("it runs");
        assert!(
            range.holds(2).expect("it is read"),
            "{cells} cells, from the host"
        );
    }
}

/// Tasks on their way to idle workers are not lost when the engine parks, even if those workers are gone afterwards.
fn ranges_survive_other_sizes(select: Select) {
    let engine = start_all(select);
    let (least, most) = (least_size(engine.kind()), engine.max_size());
    // Fewer cells where one workgroup in software does all of every second round.
    let cells = match engine.kind() {
        EngineKind::Wgpu => 300_000,
        _ => 3_000_000,
    };
    let range = Range::new(&engine, cells, 128).expect("there is memory");
    let rounds = 40;
    for round in 0..rounds {
        let mut pending = range.begin(&engine, range::FAN).expect("room");
        for _ in 0..round * 50 {
            std::hint::spin_loop();
        }
        engine.park().expect("it parks");
        let size = if round % 2 == 0 { least } else { most };
        engine.resume_with(size).expect("it resumes");
        pending.wait().expect("it runs");
    }
    assert!(range.holds(rounds).expect("it is read"));
}

fn operators_equal_the_reference(select: Select) {
    let engine = start_all(select);
    for (rows, columns) in [(1u32, 4u32), (7, 128), (8, 132), (9, 1024), (600, 260)] {
        let (input, bias) = operators::input(rows, columns);
        let expected = operators::reference(&input, &bias);
        let pipeline = Operators::new(&engine, &input, &bias).expect("there is memory");
        for _ in 0..2 {
            pipeline.clear().expect("it is cleared");
            pipeline.run(&engine).expect("it runs");
            let output = pipeline.output().expect("it is read");
            assert!(
                operators::agrees(&output, &expected),
                "{rows} rows of {columns}"
            );
        }
    }
    assert!(
        !operators::agrees(&[0.5], &[0.6]),
        "the comparison can fail"
    );
}
