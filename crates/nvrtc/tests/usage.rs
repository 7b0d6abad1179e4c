//! Usage as read from real compilations. They need NVRTC and no GPU.

use everwarp_nvrtc::{Arch, Cubin, KernelUsage, Unit, UsageError, open_for_tests, usage};

const ARCHS: [Arch; 3] = [Arch(80), Arch(90), Arch(100)];

fn unit<'a>(options: &'a [&'a str]) -> Unit<'a> {
    Unit {
        name: "spills.cu",
        source: include_str!("device/spills.cu"),
        headers: &[],
        options,
    }
}

fn kernel<'a>(usage: &'a [KernelUsage], name: &str) -> &'a KernelUsage {
    usage
        .iter()
        .find(|k| k.kernel == name)
        .unwrap_or_else(|| panic!("`{name}` is missing: {usage:?}"))
}

#[test]
fn spills_and_frames_are_told_apart() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    for arch in ARCHS {
        let cubin = nvrtc
            .compile(&unit(&["-maxrregcount=32"]), arch)
            .unwrap_or_else(|e| panic!("{arch}: {e}"));
        let usage = usage(&cubin).unwrap_or_else(|e| panic!("{arch}: {e}\n{}", cubin.log));
        assert_eq!(usage.len(), 4, "{arch}: {usage:?}");

        for name in ["spills", "calls_what_spills"] {
            let k = kernel(&usage, name);
            assert!(
                k.spill_store_bytes > 0 && k.spill_load_bytes > 0 && k.stack_bytes > 0,
                "{arch}: {k:?}"
            );
            assert!(k.registers <= 32, "{arch}: {k:?}");
        }
        let frame = kernel(&usage, "frame");
        assert!(
            frame.stack_bytes >= 160,
            "{arch}: an indexed array of 40 words: {frame:?}"
        );
        assert_eq!(
            (frame.spill_store_bytes, frame.spill_load_bytes),
            (0, 0),
            "{arch}: {frame:?}"
        );

        let plain = kernel(&usage, "plain");
        let spills = (plain.spill_store_bytes, plain.spill_load_bytes);
        assert_eq!(
            (plain.stack_bytes, spills, plain.shared_bytes),
            (0, (0, 0), 512),
            "{arch}: {plain:?}"
        );
    }
}

#[test]
fn without_a_limit_nothing_spills_so_much() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    let stores = |options| {
        let cubin = nvrtc
            .compile(&unit(options), Arch(90))
            .expect("it compiles");
        kernel(&usage(&cubin).expect("there is a report"), "spills").spill_store_bytes
    };
    let (free, limited) = (stores(&[]), stores(&["-maxrregcount=32"]));
    assert!(free < limited, "{free} and {limited} bytes");
}

#[test]
fn a_cubin_without_a_sound_report_is_an_error() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    let cubin = nvrtc.compile(&unit(&[]), Arch(90)).expect("it compiles");
    let silent = Cubin {
        log: String::new(),
        ..cubin.clone()
    };
    assert!(matches!(usage(&silent), Err(UsageError::Unreported { .. })));
    let reworded = Cubin {
        log: cubin.log.replace("Compiling entry function", "Making"),
        ..cubin.clone()
    };
    assert!(usage(&reworded).is_err());
    let no_elf = Cubin {
        image: cubin.image[..cubin.image.len() / 2].to_vec(),
        ..cubin
    };
    assert_eq!(usage(&no_elf), Err(UsageError::NotElf));

    let relocatable = nvrtc
        .compile(&unit(&["-rdc=true"]), Arch(90))
        .expect("it compiles");
    assert!(matches!(
        usage(&relocatable),
        Err(UsageError::Unreported { .. })
    ));
}

#[test]
fn a_unit_without_kernels_has_no_usage() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    let unit = Unit {
        name: "none.cu",
        source: "__device__ int word;",
        ..Unit::default()
    };
    let cubin = nvrtc.compile(&unit, Arch(90)).expect("it compiles");
    assert_eq!(usage(&cubin), Ok(Vec::new()));
}
