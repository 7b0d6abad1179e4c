//! Buffers, futures and the lives of handles.

use std::any::Any;
use std::sync::Arc;

use everwarp::{
    DevNone, Device, Engine, EngineError, Error, Function, Params, Program, ProgramRef, Select,
    Shape, Twin,
};
use everwarp_programs::probe::{self, Probe};
use everwarp_programs::{fib, noop};
use everwarp_testkit::cases;

use crate::support::{
    Case, assert_marked_once, block_on, mark_all, parked_count, range, start, wait_until, with,
};

pub(crate) const ALL: &[Case] = cases![
    pieces_arrive_in_order,
    futures_complete,
    handles_drop_in_any_order,
    two_hundred_instances_at_once,
    program_made_at_run_time_runs_and_is_freed,
];

/// Pieces in memory that the device can read, adjacent or not, between pieces in other memory; and more of both than a
/// staging area holds at a time.
fn pieces_arrive_in_order(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine = with(&device).start().expect("the engine starts");
    let fill = |bytes: &mut [u8], seed: u32| {
        for (at, byte) in (0_u32..).zip(bytes) {
            *byte = (at.wrapping_add(seed).wrapping_mul(0x9e37_79b1) >> 24) as u8;
        }
    };
    const MANY: usize = 9 << 20;
    let mut plain = vec![0; MANY];
    fill(&mut plain, 1);
    let given = || device.host_bytes(MANY).expect("there is memory");
    let (mut one, mut two) = (given(), given());
    fill(&mut one, 2);
    fill(&mut two, 3);
    let ways: [&[&[u8]]; 5] = [
        &[&one],
        &[
            &plain[..5],
            &one[..2000],
            &one[2000..2001],
            &[],
            &one[2001..7000],
        ],
        &[
            &one[10..],
            &one[..10],
            &two,
            &two[7..9],
            &plain[..3],
            &two[9..],
        ],
        &[&plain, &one, &plain[1..], &two[MANY - 1..], &plain[..1]],
        &[&[], &one[MANY..], &plain[..0], &two[1..2]],
    ];
    for pieces in ways {
        let expected = pieces.concat();
        let buffer = engine
            .buffer::<u8>(expected.len() + 3)
            .expect("there is memory");
        buffer
            .write_pieces(3, pieces.iter().copied())
            .expect("there is room");
        let got = buffer.read().expect("it can be read");
        assert!(got[..3] == [0; 3] && got[3..] == expected[..]);
    }
    // Memory that was dropped is used again, and belongs to its new owner alone.
    drop(one);
    let mut three = given();
    fill(&mut three, 4);
    let buffer = engine.buffer::<u8>(2 * MANY).expect("there is memory");
    buffer
        .write_pieces(0, [&two[..], &three].into_iter())
        .expect("there is room");
    assert!(buffer.read().expect("it can be read") == [&two[..], &three].concat());
}

fn futures_complete(select: Select) {
    let engine = start(select);
    let instance = fib::instance(&engine).expect("fib is there");
    for n in [10, 20, 24] {
        let pending = engine
            .submit(instance.task(fib::CALL).arg(n))
            .expect("room");
        let value = block_on(pending).expect("it runs").value;
        assert_eq!(value, fib::reference(n as u32));
    }
}

/// All orders of the numbers below `count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let Some(last) = count.checked_sub(1) else {
        return vec![Vec::new()];
    };
    let insert = |order: Vec<usize>| {
        (0..count).map(move |place| {
            let mut order = order.clone();
            order.insert(place, last);
            order
        })
    };
    orders(last).into_iter().flat_map(insert).collect()
}

/// Makes a probe once an instance is free: a dropped one is free again when its tasks have completed.
fn patient_probe(engine: &Engine, places: usize) -> Probe {
    let mut made = None;
    wait_until("an instance is free", || {
        made = match Probe::new(engine, places) {
            Err(Error::TooManyInstances) => None,
            // Dropped buffers are still in use, too.
            Err(Error::Engine(EngineError::OutOfMemory { .. })) => None,
            other => Some(other.expect("there is memory")),
        };
        made.is_some()
    });
    made.expect("it was made")
}

/// Starts a tree of tasks and drops all handles that belong to it in the given order.
fn drop_in_order(engine: Engine, places: u32, order: &[usize]) {
    let probe = patient_probe(&engine, places as usize);
    let task = probe.instance.task(probe::SPLIT).arg(range(0, places));
    let pending = engine.submit(task).expect("room");
    let Probe {
        instance,
        marks,
        log,
        ..
    } = probe;
    let mut handles: [Option<Box<dyn Any>>; 5] = [
        Some(Box::new(marks)),
        Some(Box::new(engine)),
        Some(Box::new(instance)),
        Some(Box::new(log)),
        Some(Box::new(pending)),
    ];
    for &handle in order {
        drop(handles[handle].take());
    }
}

/// In each of the 120 orders, three times: more runs than there are instances, so that an instance that is lost is
/// noticed. The dropped work still runs to its end, and the engine stays well. Then some orders in which the last
/// handle ends the engine: the next engine could not start on a GPU if it did not end.
fn handles_drop_in_any_order(select: Select) {
    let (all, places) = (orders(5), 10_000);
    let engine = start(select);
    for order in all.iter().cycle().take(3 * all.len()) {
        drop_in_order(engine.clone(), places, order);
    }
    let tasks = 3 * all.len() as u64 * (2 * u64::from(places) - 1);
    wait_until("the dropped work runs", || parked_count(&engine) == tasks);
    let probes: Vec<_> = (0..250).map(|_| patient_probe(&engine, 1)).collect();
    mark_all(&engine, probe::SPLIT, 1000);
    drop((probes, engine));
    for order in all.iter().step_by(17) {
        drop_in_order(start(select), 3_000_000, order);
    }
    mark_all(&start(select), probe::SPLIT, 1000);
}

fn two_hundred_instances_at_once(select: Select) {
    let engine = start(select);
    let probes: Vec<_> = (0..200)
        .map(|_| Probe::new(&engine, 1000).expect("there is memory"))
        .collect();
    let mut pending: Vec<_> = probes
        .iter()
        .map(|p| {
            engine
                .submit(p.instance.task(probe::SPLIT).arg(range(0, 1000)))
                .expect("room")
        })
        .collect();
    pending
        .iter_mut()
        .for_each(|p| p.wait().map(drop).expect("it runs"));
    probes.iter().for_each(assert_marked_once);
    let more: Vec<_> = (0..57).map(|_| noop::instance(&engine)).collect();
    assert!(matches!(more.last(), Some(Err(Error::TooManyInstances))));
}

/// A program whose name, source and twin are known only at run time; the twin carries a value.
fn made(name: String, added: Arc<u64>) -> ProgramRef {
    let source = format!(
        "__device__ void {name}_add(ew::Lane& t, const DevNone&) {{ t.report_add(t.arg() + {added}); }}"
    );
    let wgsl = format!("fn {name}_add() {{ ew_report_add(ew_lo() + {added}u, 0u); }}");
    let twin = Twin::new(move |t| t.report_add(t.arg() + *added));
    ProgramRef::from(Program {
        name: name.into(),
        functions: vec![Function::shaped(Shape::Lane, "add".into(), twin)].into(),
        device_source: source.into(),
        wgsl_source: wgsl.into(),
        params: Params::of::<DevNone>(),
    })
}

fn program_made_at_run_time_runs_and_is_freed(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let values: Vec<_> = (1..=3).map(|i| Arc::new(100 * i)).collect();
    let programs: Vec<_> = (values.iter().enumerate())
        .map(|(i, value)| made(format!("made{i}"), value.clone()))
        .collect();
    let engine = (device.engine().program(programs[0].clone()))
        .program(programs[1].clone())
        .start()
        .expect("it starts");
    // A third one comes later, and another value under a known name is refused.
    engine.park().expect("it parks");
    engine.load(programs[2].clone()).expect("it loads");
    let other = made("made0".into(), Arc::new(7));
    assert!(matches!(
        engine.load(other),
        Err(Error::DuplicateProgram { .. })
    ));
    engine.resume().expect("it resumes");
    for (program, value) in programs.iter().zip(&values) {
        let instance = engine.plain_instance(program.clone()).expect("it is there");
        let done = engine.run(instance.task(0).arg(5)).expect("it runs");
        assert_eq!(done.value, 5 + **value);
    }
    drop((engine, programs));
    for value in &values {
        wait_until("the twin is freed", || Arc::strong_count(value) == 1);
    }
}
