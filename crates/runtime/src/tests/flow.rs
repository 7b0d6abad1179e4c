//! The ordinary course: submissions, batches, backpressure, buffers, instances, epochs.

use std::time::Duration;

use everwarp_contract::task::HOST_DIRECT;
use everwarp_contract::{DevTask, FunctionId, Priority};
use everwarp_engine::{EngineError, Params, Program, ProgramRef};

use super::{engine, instance};
use crate::error::Error;
use crate::linked::LinkedEngine;
use crate::mock::{COUNTED, ECHO, HOLD, PARAMS, PROGRAM};

#[test]
fn round_trips_over_many_laps() {
    let (engine, _hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    for i in 0..1000 {
        let task = mock.task(ECHO).tag(3).priority(Priority::URGENT).arg(i);
        assert_eq!(engine.run(task).expect("it completes").value, i);
    }
    let counted = engine.run(mock.task(COUNTED)).expect("it completes");
    assert_eq!(counted.value, 1, "a root that may spawn is counted");
    assert_eq!(engine.stats().expect("counters").executed, 1001);
}

#[test]
fn run_submits_and_waits() {
    let (engine, _hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    let done = engine.run(mock.task(ECHO).arg(41)).expect("it completes");
    assert_eq!(done.value, 41);
    engine.stop().expect("it stops");
    assert!(matches!(engine.run(mock.task(ECHO)), Err(Error::Stopped)));
}

#[test]
fn many_threads_share_one_engine() {
    let (engine, _hand) = engine(8, 16, 64);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let engine = &engine;
            scope.spawn(move || {
                let mock = instance(engine);
                for i in 0..500 {
                    let value = thread << 32 | i;
                    let mut pending = engine
                        .submit(mock.task(ECHO).arg(value))
                        .expect("room comes");
                    assert_eq!(pending.wait().expect("it completes").value, value);
                    let batch = [
                        mock.task(ECHO).arg(i).build(),
                        mock.task(ECHO).arg(1).build(),
                    ];
                    let sum = engine
                        .submit_batch(&batch)
                        .and_then(|mut p| p.wait())
                        .expect("it completes");
                    assert_eq!(sum.value, i + 1);
                }
            });
        }
    });
}

#[test]
fn full_ring_refuses_and_takes_again_later() {
    let (engine, hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    let mut pending: Vec<_> = (0..4)
        .map(|_| engine.submit(mock.task(HOLD)).expect("room"))
        .collect();
    let refused = engine
        .try_submit(mock.task(ECHO))
        .expect_err("four tokens are in flight");
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    hand.release(4);
    // The mock completes the newest first.
    for pending in &mut pending {
        pending.wait().expect("it was released");
    }
    // A parked engine takes nothing from its ring.
    engine.park().expect("it parks");
    let kept: Vec<_> = std::iter::from_fn(|| engine.try_submit(mock.task(ECHO)).ok()).collect();
    assert_eq!(kept.len(), 4);
    drop(kept);
    engine.resume().expect("it resumes");
    engine.run(mock.task(ECHO)).expect("room comes");
}

#[test]
fn dropped_submissions_run_and_make_room() {
    let (engine, _hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    for i in 0..100 {
        drop(engine.submit(mock.task(ECHO).arg(i)).expect("room comes"));
    }
    engine.run(mock.task(ECHO)).expect("it completes");
    // Also without a waiter: a refused attempt reaps.
    let mut done = 0;
    while done < 100 {
        done += u32::from(engine.try_submit(mock.task(ECHO)).map(drop).is_ok());
    }
}

#[test]
fn batches_of_any_size_complete_or_are_refused() {
    let (engine, hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    let tasks: Vec<_> = (0..1000).map(|i| mock.task(ECHO).arg(i).build()).collect();
    for len in 1..=8 {
        let sum = engine
            .submit_batch(&tasks[..len])
            .and_then(|mut p| p.wait())
            .expect("it completes");
        assert_eq!(sum.value, (0..len as u64).sum::<u64>());
    }
    engine.submit_all(&tasks).expect("it streams through");
    engine.submit_all(&[]).expect("nothing to do");
    assert_eq!(engine.stats().expect("counters").executed, 36 + 1000);

    let refused = engine
        .submit_batch(&tasks[..9])
        .expect_err("it is larger than the arena");
    assert!(
        matches!(refused, Error::BatchTooLarge { tasks: 9, limit: 8 }),
        "{refused}"
    );
    assert!(matches!(engine.submit_batch(&[]), Err(Error::BatchEmpty)));
    let other = instance(&engine);
    let mixed = [mock.task(ECHO).build(), other.task(ECHO).build()];
    assert!(matches!(
        engine.submit_batch(&mixed),
        Err(Error::BatchMixed)
    ));
    let built_in = [
        mock.task(ECHO).build(),
        DevTask::new(
            FunctionId::FETCH,
            tasks[0].instance(),
            0,
            Priority::URGENT,
            0,
        ),
    ];
    assert!(matches!(
        engine.submit_batch(&built_in),
        Err(Error::BadTask { index: 1 })
    ));
    let flagged = [DevTask {
        head: tasks[0].head | HOST_DIRECT,
        ..tasks[0]
    }];
    assert!(matches!(
        engine.submit_batch(&flagged),
        Err(Error::BadTask { index: 0 })
    ));
    drop(mock);
    assert!(
        matches!(
            engine.submit_batch(&tasks[..1]),
            Err(Error::BadTask { index: 0 })
        ),
        "its instance is gone"
    );
    drop(hand);
}

#[test]
fn timeouts_can_be_retried_and_results_taken_once() {
    let (engine, hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    let mut pending = engine.submit(mock.task(HOLD)).expect("room");
    assert!(matches!(
        pending.wait_timeout(Duration::from_millis(5)),
        Err(Error::Timeout { .. })
    ));
    assert!(!pending.is_done());
    hand.release(1);
    pending
        .wait_timeout(Duration::from_secs(30))
        .expect("it was released");
    assert!(matches!(pending.wait(), Err(Error::AlreadyTaken)));
    assert!(!pending.is_done());
}

#[test]
fn buffers_copy_and_are_freed_once_nothing_reaches_them() {
    let (engine, hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    let buffer = engine.buffer::<u32>(4).expect("memory");
    assert_eq!(buffer.read().expect("it reads"), [0; 4]);
    buffer.write_at(1, &[1, 2]).expect("it writes");
    let mut back = [0; 4];
    buffer.read_into(&mut back).expect("it reads");
    assert_eq!(back, [0, 1, 2, 0]);
    assert!(matches!(
        buffer.read_into(&mut back[..3]),
        Err(Error::OutOfBounds { .. })
    ));
    assert!(matches!(
        buffer.write_at(usize::MAX, &[1]),
        Err(Error::OutOfBounds { .. })
    ));
    buffer.fill_bytes(0xff).expect("it fills");
    assert_eq!(buffer.read().expect("it reads"), [u32::MAX; 4]);
    drop(buffer);
    assert_eq!(hand.freed(), 1, "nothing is in flight");
    assert!(engine.buffer::<f64>(0).expect("memory").is_empty());
    assert!(matches!(
        engine.buffer::<u64>(usize::MAX),
        Err(Error::BufferTooLarge { .. })
    ));
    assert_eq!(hand.freed(), 2);

    let mut first = engine.submit(mock.task(HOLD)).expect("room");
    drop(engine.buffer::<u8>(16).expect("memory"));
    assert_eq!(hand.freed(), 2, "a task in flight may reach it");
    // A later submission that outlives the first does not keep it.
    engine.run(mock.task(ECHO)).expect("it completes");
    hand.release(1);
    first.wait().expect("it was released");
    let mut second = engine.submit(mock.task(HOLD)).expect("room");
    engine.run(mock.task(ECHO)).expect("it completes");
    assert_eq!(hand.freed(), 3);
    hand.release(1);
    second.wait().expect("it was released");
}

#[test]
fn busy_engine_frees_dropped_buffers() {
    let (engine, hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    let mut before = engine.submit(mock.task(HOLD)).expect("room");
    drop(engine.buffer::<u8>(16).expect("memory"));
    // In flight from here on, so the engine is never idle.
    let mut after = engine.submit(mock.task(HOLD)).expect("room");
    assert_eq!(hand.freed(), 0);
    hand.release(2);
    before.wait().expect("it was released");
    after.wait().expect("it was released");
    assert_eq!(hand.freed(), 1);
}

#[test]
fn submission_that_lasts_keeps_no_dropped_buffer_until_it_is_counted() {
    let (engine, hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    let mut lasting = engine.submit_lasting(mock.task(HOLD)).expect("room");
    for freed in 1..5 {
        drop(engine.buffer::<u8>(16).expect("memory"));
        engine.run(mock.task(ECHO)).expect("it completes");
        assert_eq!(hand.freed(), freed);
    }
    // Before it ends it is counted, and then it may reach what is dropped.
    engine.count(&lasting);
    drop(engine.buffer::<u8>(16).expect("memory"));
    assert_eq!(hand.freed(), 4);
    hand.release(1);
    lasting.wait().expect("it was released");
    assert_eq!(hand.freed(), 5);
    drop(engine.buffer::<u8>(16).expect("memory"));
    assert_eq!(hand.freed(), 6);
}

#[test]
fn a_region_waits_for_its_own_submissions_only() {
    let (engine, hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    let (one, other) = (engine.region(), engine.region());
    let (in_one, in_other) = (instance(&one), instance(&other));
    // In flight in the common region and in one of the two: the buffer of the other is reached by neither.
    let mut common = engine.submit(mock.task(HOLD)).expect("room");
    let mut held = one.submit(in_one.task(HOLD)).expect("room");
    drop(other.buffer::<u8>(16).expect("memory"));
    assert_eq!(hand.freed(), 1);
    drop(one.buffer::<u8>(16).expect("memory"));
    drop(engine.buffer::<u8>(16).expect("memory"));
    assert_eq!(hand.freed(), 1, "tasks in flight may reach them");
    hand.release(2);
    held.wait().expect("it was released");
    common.wait().expect("it was released");
    assert_eq!(hand.freed(), 3);
    // Common buffers wait for the submissions of all regions.
    let mut held = other.submit(in_other.task(HOLD)).expect("room");
    drop(engine.buffer::<u8>(16).expect("memory"));
    assert_eq!(hand.freed(), 3);
    hand.release(1);
    held.wait().expect("it was released");
    assert_eq!(hand.freed(), 4);
}

#[test]
fn a_region_is_given_away_when_nothing_of_it_is_left() {
    let (engine, hand) = engine(4, 4, 8);
    let region = engine.region();
    let inside = instance(&region);
    let mut held = region.submit(inside.task(HOLD)).expect("room");
    drop(region.buffer::<u8>(16).expect("memory"));
    drop((region, inside));
    // The next one has a number of its own: it does not wait for what the last one left.
    let next = engine.region();
    drop(next.buffer::<u8>(16).expect("memory"));
    assert_eq!(hand.freed(), 1);
    hand.release(1);
    held.wait().expect("it was released");
    assert_eq!(hand.freed(), 2);
    // More than there are share the common region, and lose nothing.
    let all: Vec<_> = (0..300).map(|_| engine.region()).collect();
    let inside = instance(&all[299]);
    let mut held = engine.submit(inside.task(HOLD)).expect("room");
    drop(all[299].buffer::<u8>(16).expect("memory"));
    assert_eq!(hand.freed(), 2);
    hand.release(1);
    held.wait().expect("it was released");
    assert_eq!(hand.freed(), 3);
}

#[test]
fn an_adopted_buffer_waits_for_the_tasks_of_its_new_region() {
    let (engine, hand) = engine(4, 4, 8);
    let (old, new) = (engine.region(), engine.region());
    let (in_old, in_new) = (instance(&old), instance(&new));
    let mut buffer = old.buffer::<u8>(16).expect("memory");
    new.adopt(&mut buffer);
    let mut held = engine.submit(in_new.task(HOLD)).expect("room");
    drop(buffer);
    assert_eq!(hand.freed(), 0);
    hand.release(1);
    held.wait().expect("it was released");
    assert_eq!(hand.freed(), 1);
    // If something of the old region is in flight, it waits for both.
    let mut buffer = old.buffer::<u8>(16).expect("memory");
    let mut held = engine.submit(in_old.task(HOLD)).expect("room");
    new.adopt(&mut buffer);
    drop(buffer);
    assert_eq!(hand.freed(), 1);
    hand.release(1);
    held.wait().expect("it was released");
    assert_eq!(hand.freed(), 2);
}

#[test]
fn engine_that_ends_frees_the_buffers_that_waited() {
    let (engine, hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    let held = engine.submit(mock.task(HOLD)).expect("room");
    drop(engine.buffer::<u8>(16).expect("memory"));
    drop(engine.buffer::<u8>(16).expect("memory"));
    assert_eq!(hand.freed(), 0, "a task in flight may reach them");
    drop((held, mock));
    drop(engine);
    assert_eq!(hand.freed(), 2);
}

#[test]
fn instances_are_checked_and_counted() {
    let (engine, hand) = engine(4, 4, 8);
    let instances: Vec<_> = (0..256).map(|_| instance(&engine)).collect();
    // SAFETY: the parameters point to nothing.
    let make = |program: ProgramRef| unsafe { engine.instance(program, &PARAMS) };
    let mock = || ProgramRef::from(&PROGRAM);
    assert!(matches!(make(mock()), Err(Error::TooManyInstances)));
    let mut held = engine.submit(instances[7].task(HOLD)).expect("room");
    drop(instances);
    let kept: Vec<_> = std::iter::from_fn(|| make(mock()).ok()).collect();
    assert_eq!(kept.len(), 255, "one slot has work in flight");
    hand.release(1);
    held.wait().expect("it was released");
    assert!(make(mock()).is_ok());

    // Programs that are made at run time.
    let typed = ProgramRef::from(Program {
        params: Params {
            name: "DevOther".into(),
            ..PROGRAM.params.clone()
        },
        ..PROGRAM.clone()
    });
    let absent = ProgramRef::from(Program {
        name: "absent".into(),
        ..PROGRAM.clone()
    });
    let impostor = ProgramRef::from(Program {
        device_source: "other".into(),
        ..PROGRAM.clone()
    });
    assert!(matches!(make(typed), Err(Error::WrongParams { .. })));
    assert!(matches!(
        make(absent.clone()),
        Err(Error::UnknownProgram { .. })
    ));
    assert!(matches!(
        make(impostor.clone()),
        Err(Error::DuplicateProgram { .. })
    ));
    let (other, _hand) = super::engine(4, 4, 8);
    assert!(matches!(
        other.submit(kept[0].task(ECHO)),
        Err(Error::OtherEngine)
    ));

    let running = engine.load(absent.clone());
    assert!(
        matches!(running, Err(Error::Engine(EngineError::NotParked { .. }))),
        "{running:?}"
    );
    engine.park().expect("it parks");
    assert!(matches!(
        engine.load(impostor),
        Err(Error::DuplicateProgram { .. })
    ));
    let greed = PROGRAM.functions[0]
        .clone()
        .spawns(everwarp_engine::MAX_SPAWN + 1);
    let program = ProgramRef::from(Program {
        name: "greedy".into(),
        functions: vec![greed].into(),
        ..PROGRAM.clone()
    });
    let greedy = |error: Option<Error>| {
        let text = error.expect("it spawns too many").to_string();
        assert!(text.contains("`greedy`") && text.contains("129"), "{text}");
    };
    greedy(engine.load(program.clone()).err());
    let cpu = crate::Device::open(crate::Select::Cpu).expect("it is always there");
    greedy(cpu.engine().program(program).start().err());
    engine.load(absent.clone()).expect("it loads");
    engine.resume().expect("it resumes");
    drop(kept);
    assert!(make(absent.clone()).is_ok());
}

#[test]
fn epochs_keep_submissions_in_flight() {
    let (engine, hand) = engine(8, 8, 8);
    let mock = instance(&engine);
    let mut held = engine.submit(mock.task(HOLD)).expect("room");
    engine.swap(None).expect("it swaps");
    engine.park().expect("it parks");
    engine.park().expect("parking twice does nothing");
    let mut queued = engine
        .submit(mock.task(ECHO).arg(5))
        .expect("a parked engine queues");
    assert!(matches!(
        queued.wait_timeout(Duration::from_millis(5)),
        Err(Error::Timeout { .. })
    ));
    assert!(matches!(queued.wait(), Err(Error::Parked)));
    let size = engine.resume_with(2);
    assert!(
        matches!(
            size,
            Err(Error::Engine(EngineError::Size {
                asked: 2,
                max: 1,
                ..
            }))
        ),
        "{size:?}"
    );
    engine.resume_with(1).expect("it resumes");
    assert_eq!(queued.wait().expect("it completes").value, 5);
    hand.release(1);
    held.wait().expect("it was released");
}
