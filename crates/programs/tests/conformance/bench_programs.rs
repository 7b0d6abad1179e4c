//! The programs of the benchmarks: what they are timed for must be right on every engine.

use everwarp::{Device, Engine, EngineKind, Select};
use everwarp_programs::operators::{self, Operators};
use everwarp_programs::pairs::Pairs;
use everwarp_programs::range::{self, Range};
use everwarp_programs::{ALL as PROGRAMS, BENCH};
use everwarp_testkit::cases;

use crate::cases::Case;

pub(crate) const ALL: &[Case] = cases![
    pairs_run_in_order,
    ranges_are_covered_once,
    ranges_survive_other_sizes,
    operators_equal_the_reference,
];

fn start(select: Select) -> Engine {
    let device = Device::open(select).expect("the device opens");
    // One image with everything: nothing of a benchmark's program may disturb the others.
    let programs = PROGRAMS.into_iter().chain(BENCH);
    let builder = programs.fold(device.engine(), |b, p| b.program(p));
    builder.start().expect("the engine starts")
}

fn pairs_run_in_order(select: Select) {
    let engine = start(select);
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
        assert!(pairs.ran(2).expect("it is read"), "a second round shows");
    }
}

fn ranges_are_covered_once(select: Select) {
    let engine = start(select);
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

/// Tasks on their way to idle workers are not lost when the engine parks, nor when those workers are gone.
fn ranges_survive_other_sizes(select: Select) {
    let engine = start(select);
    let (least, most) = match engine.kind() {
        EngineKind::Cpu => (1, engine.max_size()),
        EngineKind::Cuda => (2, engine.max_size()),
    };
    let range = Range::new(&engine, 3_000_000, 128).expect("there is memory");
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
    let engine = start(select);
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
