//! Compilations. They need NVRTC and no GPU.

use everwarp_nvrtc::{Arch, Nvrtc, NvrtcError, Part, Unit, open_for_tests, usage};

const INTRINSICS: Unit<'_> = Unit {
    name: "intrinsics.cu",
    source: include_str!("device/intrinsics.cu"),
    headers: &[(
        "words.cuh",
        "#pragma once\nusing word = unsigned long long;\n",
    )],
    options: &[],
};

fn tiny(source: &str) -> Unit<'_> {
    Unit {
        name: "tiny.cu",
        source,
        ..Unit::default()
    }
}

#[test]
fn what_device_sources_rely_on_compiles_for_each_architecture() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    for arch in [80, 90, 100].map(Arch) {
        let cubin = nvrtc
            .compile(&INTRINSICS, arch)
            .unwrap_or_else(|e| panic!("{arch}: {e}"));
        assert!(!cubin.log.contains("warning"), "{arch}: {}", cubin.log);
        let usage = usage(&cubin).unwrap_or_else(|e| panic!("{arch}: {e}\n{}", cubin.log));
        let [kernel] = &usage[..] else {
            panic!("{arch}: one kernel, not {usage:?}")
        };
        assert_eq!(kernel.kernel, "intrinsics");
        assert!(
            (1..=64).contains(&kernel.registers),
            "{arch}: __launch_bounds__(256, 4) allows 64: {kernel:?}"
        );
    }
}

#[test]
fn the_library_says_what_it_is() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    assert!(nvrtc.version() >= (12, 0), "{nvrtc:?}");
    assert!(
        nvrtc.path().is_absolute() && nvrtc.path().is_file(),
        "{nvrtc:?}"
    );
    let archs = nvrtc.supported_archs().expect("it lists them");
    assert!(
        [80, 90, 100].iter().all(|arch| archs.contains(arch)),
        "{archs:?}"
    );
    assert!(archs.is_sorted(), "{archs:?}");
}

#[test]
fn an_error_in_the_source_carries_the_log_and_the_units_name() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    let error = nvrtc
        .compile(&tiny("__device__ int x = ;"), Arch(90))
        .expect_err("it is broken");
    let NvrtcError::Compile {
        unit,
        arch,
        code,
        log,
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!(
        (unit.as_str(), *arch, code.number),
        ("tiny.cu", Arch(90), 6)
    );
    assert!(
        log.contains("tiny.cu(1): error: expected an expression"),
        "{log}"
    );
    assert!(
        error
            .to_string()
            .contains("NVRTC_ERROR_COMPILATION, code 6"),
        "{error}"
    );
}

#[test]
fn an_error_in_inline_ptx_carries_the_assemblers_log() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    let source = r#"extern "C" __global__ void k() { asm volatile("bogus.u32 %0;" :: "r"(1)); }"#;
    let error = nvrtc
        .compile(&tiny(source), Arch(90))
        .expect_err("there is no such instruction")
        .to_string();
    assert!(error.contains("bogus"), "{error}");
}

#[test]
fn blame_goes_to_the_option_the_header_the_architecture_or_the_nul() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    let unit = Unit {
        options: &["--no-such-option"],
        ..tiny("")
    };
    let error = nvrtc
        .compile(&unit, Arch(90))
        .expect_err("an unknown option")
        .to_string();
    assert!(error.contains("--no-such-option"), "{error}");

    let error = nvrtc
        .compile(&tiny("#include \"absent.cuh\"\n"), Arch(90))
        .expect_err("no header")
        .to_string();
    assert!(error.contains("absent.cuh"), "{error}");

    let error = nvrtc.compile(&tiny(""), Arch(19)).expect_err("too old");
    assert!(
        matches!(error, NvrtcError::Architecture { arch: Arch(19), .. }),
        "{error:?}"
    );

    let unit = Unit {
        headers: &[("a", ""), ("b", "x\0")],
        ..tiny("")
    };
    let error = nvrtc.compile(&unit, Arch(90)).expect_err("a NUL");
    assert!(
        matches!(
            error,
            NvrtcError::Nul {
                part: Part::HeaderText(1),
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn threads_share_one_nvrtc() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    let expected = nvrtc
        .compile(&INTRINSICS, Arch(90))
        .expect("it compiles")
        .image;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert_eq!(
                    nvrtc
                        .compile(&INTRINSICS, Arch(90))
                        .expect("it compiles")
                        .image,
                    expected
                )
            });
        }
    });
}

#[test]
fn a_file_that_is_no_nvrtc_is_named() {
    let Some(nvrtc) = open_for_tests() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let absent = folder.path().join("libnvrtc.so");
    let error = Nvrtc::open_at(&absent).expect_err("nothing is there");
    assert!(
        matches!(&error, NvrtcError::NoFile { path } if *path == absent),
        "{error:?}"
    );

    // A library that loads, and has none of the functions: NVRTC's own builtins.
    let (major, minor) = nvrtc.version();
    let builtins = nvrtc
        .path()
        .with_file_name(format!("libnvrtc-builtins.so.{major}.{minor}"));
    if builtins.is_file() {
        let error = Nvrtc::open_at(&builtins).expect_err("it is another library");
        assert!(
            matches!(
                error,
                NvrtcError::Symbol {
                    symbol: "nvrtcGetErrorString",
                    ..
                }
            ),
            "{error:?}"
        );
    }
}
