//! The cache without NVRTC. Tests with it are in `tests/cache.rs`.

use std::sync::Barrier;

use super::{Cache, Damage, Entry, Key, Lookup, NotStored, Off, compile_cached_with, key};
use crate::error::NvrtcError;
use crate::nvrtc::Nvrtc;
use crate::unit::{Arch, Cubin, Unit};
use crate::{CacheOutcome, Places};

const UNIT: Unit<'_> = Unit {
    name: "u.cu",
    source: "source",
    headers: &[("h.cuh", "text")],
    options: &["-maxrregcount=32"],
};

fn entry(byte: u8, size: usize) -> Entry {
    Entry {
        nvrtc: (13, 0),
        cubin: Cubin {
            image: vec![byte; size],
            log: format!("log of {byte}"),
        },
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn no_nvrtc() -> Result<Nvrtc, NvrtcError> {
    Err(NvrtcError::NotFound(Places::default()))
}

#[test]
fn every_part_of_a_unit_changes_the_key_and_nothing_else_does() {
    let base = key(&UNIT, Arch(90));
    assert_eq!(base, key(&UNIT.clone(), Arch(90)));
    assert_eq!(base.to_string().len(), 64);
    let others = [
        key(&UNIT, Arch(80)),
        key(
            &Unit {
                name: "v.cu",
                ..UNIT
            },
            Arch(90),
        ),
        key(
            &Unit {
                source: "source ",
                ..UNIT
            },
            Arch(90),
        ),
        key(
            &Unit {
                headers: &[("h.cuh", "text2")],
                ..UNIT
            },
            Arch(90),
        ),
        key(
            &Unit {
                headers: &[("h2.cuh", "text")],
                ..UNIT
            },
            Arch(90),
        ),
        key(
            &Unit {
                headers: &[("h.cuht", "ext")],
                ..UNIT
            },
            Arch(90),
        ),
        key(
            &Unit {
                headers: &[],
                ..UNIT
            },
            Arch(90),
        ),
        key(
            &Unit {
                options: &[],
                ..UNIT
            },
            Arch(90),
        ),
        key(
            &Unit {
                options: &["-maxrregcount=64"],
                ..UNIT
            },
            Arch(90),
        ),
    ];
    for (i, other) in others.iter().enumerate() {
        assert_ne!(base, *other, "variant {i}");
        assert!(
            !others[..i].contains(other),
            "variant {i} is unlike those before it"
        );
    }
}

#[test]
fn a_hit_needs_no_nvrtc() {
    let folder = folder();
    let cache = Cache::at(folder.path().join("made/when/needed"));
    let (key, entry) = (key(&UNIT, Arch(90)), entry(7, 1000));
    assert!(matches!(
        compile_cached_with(no_nvrtc, &cache, &UNIT, Arch(90)),
        Err(NvrtcError::NotFound(_))
    ));
    cache.put(&key, &entry).expect("writable");
    let (cubin, outcome) =
        compile_cached_with(no_nvrtc, &cache, &UNIT, Arch(90)).expect("it is stored");
    assert_eq!(cubin, entry.cubin);
    assert!(
        matches!(outcome, CacheOutcome::Hit { nvrtc: (13, 0) }),
        "{outcome:?}"
    );
}

#[test]
fn every_flipped_byte_and_every_cut_is_noticed() {
    let (key, entry) = (Key([3; 32]), entry(9, 40));
    let bytes = entry.encode(&key);
    assert_eq!(Entry::decode(&bytes, &key).expect("it is sound"), entry);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(Entry::decode(&damaged, &key).is_err(), "byte {at}");
        assert!(Entry::decode(&bytes[..at], &key).is_err(), "cut to {at}");
    }
    assert!(matches!(
        Entry::decode(&bytes, &Key([4; 32])),
        Err(Damage::Key)
    ));
}

#[test]
fn an_unusable_folder_is_a_reason_and_no_failure() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "not a folder").expect("writable");
    let cache = Cache::at(&file);
    let key = key(&UNIT, Arch(90));
    assert!(matches!(cache.get(&key), Lookup::Absent));
    let reason = cache
        .put(&key, &entry(1, 1))
        .expect_err("a file is no folder");
    assert!(matches!(reason, NotStored::Create { .. }), "{reason:?}");
    assert!(
        reason.to_string().contains("EVERWARP_CACHE_DIR"),
        "{reason}"
    );

    // A folder in the entry's place: it can be neither read nor replaced.
    let cache = Cache::at(folder.path());
    std::fs::create_dir(folder.path().join(format!("{key}.entry"))).expect("writable");
    assert!(matches!(
        cache.get(&key),
        Lookup::Damaged(Damage::Unreadable(_))
    ));
    assert!(matches!(
        cache.put(&key, &entry(1, 1)),
        Err(NotStored::Write { .. })
    ));
}

#[test]
fn the_variable_wins_and_empty_means_off() {
    let usual = || Some("usual".into());
    assert_eq!(
        Cache::choose(Some("named".into()), usual)
            .folder()
            .expect("it is on")
            .as_os_str(),
        "named"
    );
    assert_eq!(
        Cache::choose(None, usual)
            .folder()
            .expect("it is on")
            .as_os_str(),
        "usual"
    );
    assert_eq!(Cache::choose(None, || None).folder(), Err(Off::NoHome));
    let off = Cache::choose(Some("".into()), usual);
    assert_eq!(off.folder(), Err(Off::TurnedOff));
    assert!(matches!(off.get(&key(&UNIT, Arch(90))), Lookup::Absent));
    assert!(matches!(
        off.put(&key(&UNIT, Arch(90)), &entry(1, 1)),
        Err(NotStored::Off(Off::TurnedOff))
    ));
}

#[test]
fn concurrent_writers_and_readers_see_whole_entries_only() {
    const WRITERS: u8 = 4;
    let folder = folder();
    let cache = Cache::at(folder.path().join("shared"));
    let key = Key([1; 32]);
    let start = Barrier::new(usize::from(WRITERS) + 2);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (cache, start) = (&cache, &start);
            scope.spawn(move || {
                start.wait();
                for _ in 0..25 {
                    cache
                        .put(&key, &entry(writer, 100_000 + usize::from(writer)))
                        .expect("writable");
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..100 {
                    match cache.get(&key) {
                        Lookup::Hit(found) => {
                            let writer = found.cubin.image[0];
                            assert_eq!(found, entry(writer, 100_000 + usize::from(writer)));
                        }
                        Lookup::Absent => {}
                        Lookup::Damaged(damage) => panic!("a reader saw half an entry: {damage}"),
                    }
                }
            });
        }
    });
    assert!(matches!(cache.get(&key), Lookup::Hit(_)));
    let left = std::fs::read_dir(folder.path().join("shared"))
        .expect("it exists")
        .count();
    assert_eq!(left, 1, "no temporary file stays behind");
}
