//! The cache with a real compiler. The tests need NVRTC and no GPU.

use std::time::Instant;

use everwarp_nvrtc::cache::{Damage, NotStored};
use everwarp_nvrtc::{
    Arch, Cache, CacheOutcome, Unit, compile_cached, compile_cached_with, open_for_tests, usage,
};

const UNIT: Unit<'_> = Unit {
    name: "cached.cu",
    source: r#"extern "C" __global__ void k(int* p) { p[threadIdx.x] += 1; }"#,
    headers: &[],
    options: &[],
};

#[test]
fn the_second_time_is_a_hit_with_the_same_cubin() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = Cache::at(folder.path());
    let start = Instant::now();
    let (made, outcome) = compile_cached(&nvrtc, &cache, &UNIT, Arch(90)).expect("it compiles");
    assert!(matches!(outcome, CacheOutcome::Stored), "{outcome:?}");
    let compiled = start.elapsed();
    let start = Instant::now();
    let (found, outcome) = compile_cached_with(
        || -> Result<everwarp_nvrtc::Nvrtc, _> { panic!("a hit opens nothing") },
        &cache,
        &UNIT,
        Arch(90),
    )
    .expect("it is stored");
    eprintln!("compiled in {compiled:?}, found in {:?}", start.elapsed());
    assert!(
        matches!(outcome, CacheOutcome::Hit { nvrtc: version } if version == nvrtc.version()),
        "{outcome:?}"
    );
    assert_eq!(found, made);
    assert_eq!(usage(&found).expect("the report is kept too").len(), 1);
    let (_, outcome) = compile_cached(&nvrtc, &cache, &UNIT, Arch(80)).expect("it compiles");
    assert!(
        matches!(outcome, CacheOutcome::Stored),
        "another architecture: {outcome:?}"
    );
}

#[test]
fn a_damaged_entry_is_compiled_again_and_replaced() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = Cache::at(folder.path());
    let (made, _) = compile_cached(&nvrtc, &cache, &UNIT, Arch(90)).expect("it compiles");
    let path = std::fs::read_dir(folder.path())
        .expect("readable")
        .flatten()
        .next()
        .expect("one entry")
        .path();
    let mut bytes = std::fs::read(&path).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&path, bytes).expect("writable");

    let (again, outcome) = compile_cached(&nvrtc, &cache, &UNIT, Arch(90)).expect("it compiles");
    assert!(
        matches!(outcome, CacheOutcome::Replaced(Damage::Checksum)),
        "{outcome:?}"
    );
    assert_eq!(again.image, made.image);
    let (_, outcome) = compile_cached(&nvrtc, &cache, &UNIT, Arch(90)).expect("it is stored");
    assert!(matches!(outcome, CacheOutcome::Hit { .. }), "{outcome:?}");
}

#[test]
fn a_folder_that_cannot_be_made_costs_only_time() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let cache = Cache::at(file.path().join("below-a-file"));
    let (_, outcome) =
        compile_cached(&nvrtc, &cache, &UNIT, Arch(90)).expect("it compiles all the same");
    assert!(
        matches!(outcome, CacheOutcome::NotStored(NotStored::Create { .. })),
        "{outcome:?}"
    );
}
