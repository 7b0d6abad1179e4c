//! Every device source compiles for every architecture that is supported, without spills and without
//! a stack frame. Needs NVRTC, no GPU.

use std::path::{Path, PathBuf};

use everwarp::Image;
use everwarp::cuda::image::source;
use everwarp::cuda::nvrtc::Nvrtc;
use everwarp_programs::{ALL, BENCH, probe};

/// NVRTC, as `.ci/install-nvrtc` installs it or as the system has it. In CI it must be there.
fn nvrtc() -> Option<Nvrtc> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nvrtc");
    let installed = find(&folder);
    let opened = match &installed {
        Some(path) => Nvrtc::open_at(path),
        None => Nvrtc::open(),
    };
    match opened {
        Ok(nvrtc) => Some(nvrtc),
        Err(e) if std::env::var_os("CI").is_some() => panic!("CI compiles device sources: {e}"),
        Err(e) => {
            eprintln!("skipped: {e}; or run .ci/install-nvrtc");
            None
        }
    }
}

fn find(folder: &Path) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if let Some(found) = find(&path) {
                return Some(found);
            }
        } else if name.starts_with("libnvrtc.so.") && !name.contains("alt") {
            return Some(path);
        }
    }
    None
}

/// Compiles an image and checks what the assembler reports of it.
fn compile(nvrtc: &Nvrtc, image: &Image, arch: u32) {
    let names: Vec<_> = image.programs.iter().map(|p| p.name).collect();
    let source = source(image);
    let log = match nvrtc.compile(&source.unit, &source.headers, arch) {
        Ok(cubin) => cubin.log,
        Err(e) => panic!("{names:?} for sm_{arch}: {e}"),
    };
    let frames: Vec<_> = log
        .lines()
        .filter(|l| l.contains("bytes stack frame"))
        .collect();
    assert!(
        !frames.is_empty(),
        "the assembler reports on the kernel:\n{log}"
    );
    for line in frames {
        let numbers: Vec<_> = line
            .split_whitespace()
            .filter_map(|w| w.parse::<u32>().ok())
            .collect();
        assert_eq!(
            numbers,
            [0, 0, 0],
            "sm_{arch}, {names:?}: stack frame, spill stores, spill loads:\n{line}\n{log}"
        );
    }
    let used = log.lines().find(|l| l.contains("Used")).unwrap_or_default();
    eprintln!("sm_{arch} {names:?}: {used}");
}

#[test]
fn all_programs_together_for_each_architecture() {
    let Some(nvrtc) = nvrtc() else { return };
    let image = Image {
        programs: ALL.into_iter().chain([&probe::PROGRAM]).collect(),
    };
    for arch in [80, 90, 100] {
        compile(&nvrtc, &image, arch);
    }
}

#[test]
fn each_program_alone() {
    let Some(nvrtc) = nvrtc() else { return };
    for program in ALL.into_iter().chain(BENCH) {
        compile(
            &nvrtc,
            &Image {
                programs: vec![program],
            },
            90,
        );
    }
}

#[test]
fn the_programs_of_benchmarks_together() {
    let Some(nvrtc) = nvrtc() else { return };
    let image = Image {
        programs: ALL.into_iter().chain(BENCH).collect(),
    };
    for arch in [80, 90] {
        compile(&nvrtc, &image, arch);
    }
}

#[test]
fn the_raw_kernels() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = everwarp::cuda::image::raw_source();
    for arch in [80, 90, 100] {
        nvrtc
            .compile(&source.unit, &source.headers, arch)
            .expect("they compile");
    }
}

#[test]
fn the_kernels_that_benchmarks_are_compared_with() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = everwarp::cuda::baseline::baseline_source();
    for arch in [80, 90, 100] {
        let cubin = nvrtc.compile(&source.unit, &source.headers, arch);
        let log = cubin.expect("they compile").log;
        let frames = log.lines().filter(|l| l.contains("bytes stack frame"));
        for line in frames {
            assert!(
                line.contains(" 0 bytes stack frame, 0 bytes spill stores"),
                "sm_{arch}: {line}\n{log}"
            );
        }
    }
}

#[test]
fn an_error_in_a_program_carries_the_compilers_log() {
    let Some(nvrtc) = nvrtc() else { return };
    let mut source = source(&Image {
        programs: vec![ALL[0]],
    });
    source.unit.push_str("\nint broken = ;\n");
    let error = nvrtc
        .compile(&source.unit, &source.headers, 90)
        .expect_err("it is broken")
        .to_string();
    assert!(error.contains("expected an expression"), "{error}");
}
