//! Random uses of a buffer against plain arrays, with a device whose memory is other memory: a range that was not copied
//! when it had to be is seen as a wrong value.

use everwarp_buffer::{BufferError, Buffers, Holder, Lent, Side, Strategy, UnifiedBuffer, Use};
use proptest::prelude::*;
use proptest::strategy::Strategy as _;

const ROWS: usize = 96;
const ROW: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    WriteOnHost(usize, usize, u32),
    Overwrite(usize, usize, u32),
    WriteOnDevice(usize, usize, u32),
    ReadOnHost(usize, usize),
    ReadOnDevice(usize, usize),
    /// A task in flight: its lease stays until `End`.
    Begin(usize, usize, bool),
    End,
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    let range = (0..ROWS, 0..24_usize).prop_map(|(begin, len)| (begin, (begin + len).min(ROWS)));
    let (r, v) = (range, any::<u32>());
    prop_oneof![
        (r.clone(), v).prop_map(|((b, e), v)| Step::WriteOnHost(b, e, v)),
        (r.clone(), v).prop_map(|((b, e), v)| Step::Overwrite(b, e, v)),
        (r.clone(), v).prop_map(|((b, e), v)| Step::WriteOnDevice(b, e, v)),
        r.clone().prop_map(|(b, e)| Step::ReadOnHost(b, e)),
        r.clone().prop_map(|(b, e)| Step::ReadOnDevice(b, e)),
        (r, any::<bool>()).prop_map(|((b, e), w)| Step::Begin(b, e, w)),
        Just(Step::End),
    ]
}

/// What a task does with the elements that it was lent.
fn on_device(lent: Lent<u32>, change: impl FnOnce(&mut [u32])) {
    let poked = lent.into_lease().poke(|bytes| {
        let mut values: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")))
            .collect();
        change(&mut values);
        let changed: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        bytes.copy_from_slice(&changed);
    });
    poked.expect("the device's memory is the host's");
}

/// Runs the steps; returns the buffer.
fn run(steps: &[Step], strategy: Strategy, split: bool) -> Result<(), TestCaseError> {
    let buffers = if split {
        Buffers::split()
    } else {
        Buffers::cpu()
    };
    let made = buffers.zeros::<u32>(&[ROWS, ROW], strategy);
    let mut buffer: UnifiedBuffer<u32> = made.expect("it is small");
    let mut plain = vec![0_u32; ROWS * ROW];
    let mut flights: Vec<(usize, usize, bool, Lent<u32>)> = Vec::new();
    let fill = |values: &mut [u32], value: u32| {
        for (at, to) in values.iter_mut().enumerate() {
            *to = value.wrapping_add(at as u32);
        }
    };
    for step in steps {
        let busy = |b: usize, e: usize, writes: bool| {
            let overlaps =
                |f: &&(usize, usize, bool, _)| f.0.max(b) < f.1.min(e) && (writes || f.2);
            flights.iter().find(overlaps).is_some()
        };
        // Whether the use is refused says the list of flights, and a refused use changes nothing.
        let expect = |busy: bool, result: &Result<(), BufferError>| match result {
            Err(BufferError::InUse(conflict)) => {
                prop_assert!(busy, "{conflict}");
                prop_assert!(conflict.holder.line().contains("model.rs"));
                Ok(false)
            }
            Err(error) => Err(TestCaseError::fail(error.to_string())),
            Ok(()) => {
                prop_assert!(!busy, "a use was possible next to another");
                Ok(true)
            }
        };
        match *step {
            Step::WriteOnHost(b, e, v) => {
                let busy = busy(b, e, true);
                let done = buffer
                    .host_rows_mut(b..e)
                    .map(|mut view| fill(&mut view, v));
                if expect(busy, &done)? {
                    fill(&mut plain[b * ROW..e * ROW], v);
                }
            }
            Step::Overwrite(b, e, v) => {
                let busy = busy(b, e, true);
                let mut values = vec![0; (e - b) * ROW];
                fill(&mut values, v);
                if expect(busy, &buffer.write(b * ROW, &values))? {
                    fill(&mut plain[b * ROW..e * ROW], v);
                }
            }
            Step::WriteOnDevice(b, e, v) => {
                let busy = busy(b, e, true);
                let done = buffer
                    .lend_mut(b..e)
                    .map(|lent| on_device(lent, |x| fill(x, v)));
                if expect(busy, &done)? {
                    fill(&mut plain[b * ROW..e * ROW], v);
                }
            }
            Step::ReadOnHost(b, e) => {
                let busy = busy(b, e, false);
                let read = buffer.host_rows(b..e).map(|view| {
                    assert_eq!(*view, plain[b * ROW..e * ROW], "on the host");
                });
                expect(busy, &read)?;
            }
            Step::ReadOnDevice(b, e) => {
                let busy = busy(b, e, false);
                let read = buffer.lend(b..e).map(|lent| {
                    on_device(lent, |x| {
                        assert_eq!(*x, plain[b * ROW..e * ROW], "on the device")
                    });
                });
                expect(busy, &read)?;
            }
            Step::Begin(b, e, writes) => {
                let busy = busy(b, e, writes);
                let lent = if writes {
                    buffer.lend_mut(b..e)
                } else {
                    buffer.lend(b..e)
                };
                let (lent, done) = match lent {
                    Ok(lent) => (Some(lent), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                if expect(busy, &done)? {
                    flights.extend(lent.map(|lent| (b, e, writes, lent)));
                }
            }
            Step::End => {
                if !flights.is_empty() {
                    flights.swap_remove(0);
                }
            }
        }
    }
    drop(flights);
    prop_assert_eq!(buffer.read().expect("unused"), plain.clone());
    let all = buffer.lend(0..ROWS).expect("unused");
    on_device(all, |x| assert_eq!(*x, plain));
    prop_assert_eq!(buffer.raw().newer(), (0, 0));
    prop_assert!(buffer.raw().holders().is_empty());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn both_sides_have_what_a_plain_array_has(steps in prop::collection::vec(step(), 0..60)) {
        for strategy in Strategy::ALL {
            run(&steps, strategy, true)?;
            run(&steps, strategy, false)?;
        }
    }

    /// Dirty ranges move, and at most as much again.
    #[test]
    fn one_percent_dirty_moves_at_most_two(seed in any::<u64>()) {
        const LEN: usize = 100_000;
        for buffers in [Buffers::split(), Buffers::cpu()] {
            let mut buffer = buffers.zeros::<f32>(&[LEN], Strategy::Private).expect("small");
            drop(buffer.device().expect("unused"));
            let mut at = seed;
            let mut dirty = std::collections::BTreeSet::new();
            while dirty.len() < LEN / 100 {
                at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let element = (at >> 33) as usize % LEN;
                buffer.host_rows_mut(element..element + 1).expect("unused")[0] = 1.0;
                dirty.insert(element);
            }
            prop_assert_eq!(buffer.raw().newer(), (dirty.len() * 4, 0));
            let before = buffer.transfers().to_device;
            drop(buffer.device().expect("unused"));
            let after = buffer.transfers().to_device;
            let moved = (after.bytes - before.bytes) as usize;
            prop_assert!(moved >= dirty.len() * 4 && moved <= 2 * dirty.len() * 4, "{moved} bytes");
            prop_assert!(after.copies - before.copies < dirty.len() as u64, "no ranges were joined");
        }
    }
}

#[test]
fn what_is_on_both_sides_is_not_copied_again() {
    let mut buffer = Buffers::split()
        .zeros::<u8>(&[1000], Strategy::Pinned)
        .expect("small");
    assert_eq!(
        buffer.transfers(),
        Default::default(),
        "both sides begin with zeros"
    );
    buffer.host_rows_mut(10..20).expect("unused").fill(7);
    for _ in 0..3 {
        drop(buffer.device().expect("unused"));
    }
    let moved = buffer.transfers();
    assert_eq!((moved.to_device.copies, moved.to_device.bytes), (1, 10));
    drop(buffer.device_rows_mut(500..600).expect("unused"));
    drop(buffer.host_rows(0..500).expect("unused"));
    assert_eq!(
        buffer.transfers().to_host.bytes,
        0,
        "none of it was asked for"
    );
    drop(buffer.host().expect("unused"));
    assert_eq!(buffer.transfers().to_host.bytes, 100);
    buffer.write(0, &[1; 1000]).expect("unused");
    drop(buffer.device_mut().expect("unused"));
    buffer.write(0, &[2; 1000]).expect("it is overwritten");
    assert_eq!(
        buffer.transfers().to_host.bytes,
        100,
        "what is overwritten is not copied before"
    );
}

#[test]
fn mapped_memory_is_never_copied() {
    for buffers in [Buffers::split(), Buffers::cpu()] {
        let mut buffer = buffers
            .from_slice(&[1_u64, 2, 3], Strategy::Mapped)
            .expect("small");
        on_device_u64(&mut buffer);
        assert_eq!(buffer.read().expect("unused"), [2, 3, 4]);
        assert_eq!(buffer.transfers(), Default::default());
    }
}

fn on_device_u64(buffer: &mut UnifiedBuffer<u64>) {
    let lent = buffer.lend_mut(0..3).expect("unused");
    let added = lent.into_lease().poke(|bytes| {
        for word in bytes.chunks_exact_mut(8) {
            let value = u64::from_ne_bytes((&*word).try_into().expect("eight bytes"));
            word.copy_from_slice(&(value + 1).to_ne_bytes());
        }
    });
    added.expect("it is memory of the host");
}

#[test]
fn a_buffer_on_both_sides_is_refused_with_the_line_that_holds_it() {
    let buffer = Buffers::cpu()
        .zeros::<f32>(&[8, 2], Strategy::Private)
        .expect("small");
    let task = buffer.lend_mut(2..4).expect("unused");
    let line = line!() - 1;
    drop(buffer.host_rows(4..8).expect("other rows are free"));
    let refused = buffer
        .host()
        .expect_err("rows 2 and 3 are lent")
        .to_string();
    for part in [
        "a lent part",
        &format!("model.rs:{line}:"),
        "written on the device",
        "read on the host",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    drop(task);
    drop(buffer.host().expect("the task has ended"));
    let view = buffer.host().expect("unused");
    assert!(buffer.lend(0..8).is_ok(), "both read");
    assert!(matches!(buffer.lend_mut(0..1), Err(BufferError::InUse(_))));
    drop(view);
}

#[test]
fn arrays_of_one_side_may_be_views_of_each_other() {
    let buffer = Buffers::cpu()
        .zeros::<f32>(&[8], Strategy::Private)
        .expect("small");
    let alias = Use::writes(Side::Host).aliased();
    let one = buffer
        .raw()
        .lease(alias, Holder::at("an array", "a.py, line 1"))
        .expect("unused");
    let two = buffer
        .raw()
        .lease(alias, Holder::at("an array", "a.py, line 2"))
        .expect("an alias");
    let text = buffer.lend(0..1).expect_err("it is in use").to_string();
    assert!(text.contains("an array, made at a.py, line 1"), "{text}");
    drop((one, two));
    buffer.lend(0..1).expect("free again");
}

#[test]
fn ranges_and_types_that_do_not_fit_are_named() {
    let mut buffer = Buffers::cpu()
        .zeros::<f32>(&[8, 2], Strategy::Private)
        .expect("small");
    let text = buffer
        .host_rows(3..9)
        .expect_err("there are eight")
        .to_string();
    assert_eq!(text, "rows 3..9 are not in the buffer, which has 8");
    assert!(matches!(
        buffer.write(15, &[0.0; 2]),
        Err(BufferError::OutOfBounds { .. })
    ));
    assert!(matches!(
        buffer.write(usize::MAX, &[0.0; 2]),
        Err(BufferError::OutOfBounds { .. })
    ));
    let other = UnifiedBuffer::<u32>::try_from_raw(buffer.raw().clone()).expect_err("it is f32");
    assert!(other.to_string().contains("holds f32, and u32 was given"));
    assert!(buffer.raw().reshaped(&[4, 4]).is_ok() && buffer.raw().reshaped(&[3]).is_err());
    let huge = Buffers::cpu().zeros::<u8>(&[usize::MAX, 3], Strategy::Private);
    assert!(matches!(huge, Err(BufferError::TooLarge { .. })));
    let huge = Buffers::cpu().zeros::<u8>(&[isize::MAX as usize / 8], Strategy::Private);
    assert!(matches!(huge, Err(BufferError::OutOfMemory { .. })));
}

#[test]
fn an_empty_buffer_has_views_and_no_elements() {
    let mut buffer = Buffers::split()
        .zeros::<f64>(&[0, 4], Strategy::Private)
        .expect("small");
    assert!(buffer.is_empty() && buffer.host().expect("unused").is_empty());
    assert!(buffer.device_mut().expect("unused").is_empty());
    assert_eq!(buffer.transfers(), Default::default());
}
