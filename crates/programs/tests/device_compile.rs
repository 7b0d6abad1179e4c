//! Every device source compiles for every architecture that is supported, without spills and without
//! a stack frame. Needs NVRTC, no GPU.

use everwarp::cuda::image::source;
use everwarp::cuda::nvrtc::Nvrtc;
use everwarp::cuda::testing::nvrtc;
use everwarp_programs::{ALL, BENCH, heap_probe, probe};
use everwarp_runtime::Image;

/// Compiles an image and answers what is wrong with what the assembler reports of it.
fn compile(nvrtc: &Nvrtc, image: &Image, arch: u32) -> Vec<String> {
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
    let mut wrong = Vec::new();
    for line in frames {
        let numbers: Vec<_> = line
            .split_whitespace()
            .filter_map(|w| w.parse::<u32>().ok())
            .collect();
        if numbers != [0, 0, 0] {
            wrong.push(format!("sm_{arch}, {names:?}: {line}\n{log}"));
        }
    }
    let used = log.lines().find(|l| l.contains("Used")).unwrap_or_default();
    eprintln!("sm_{arch} {names:?}: {used}");
    wrong
}

fn no_frames(wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "stack frames or spills:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn all_programs_together_for_each_architecture() {
    let Some(nvrtc) = nvrtc() else { return };
    let image = Image::of(ALL.into_iter().chain([&probe::PROGRAM]).collect());
    let wrong = [80, 90, 100].map(|arch| compile(&nvrtc, &image, arch));
    no_frames(&wrong.concat());
}

#[test]
fn programs_that_allocate() {
    let Some(nvrtc) = nvrtc() else { return };
    let alone = Image::of(vec![&heap_probe::PROGRAM]);
    let wrong = [80, 90].map(|arch| compile(&nvrtc, &alone, arch));
    no_frames(&wrong.concat());
    // There the calls of this program, which makes all of them, leave the kernel some words too few.
    compile(&nvrtc, &alone, 100);
}

#[test]
fn each_program_alone() {
    let Some(nvrtc) = nvrtc() else { return };
    let wrong = ALL.map(|program| {
        let programs = vec![program];
        compile(&nvrtc, &Image::of(programs), 90)
    });
    no_frames(&wrong.concat());
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
fn an_error_in_a_program_carries_the_compilers_log() {
    let Some(nvrtc) = nvrtc() else { return };
    let mut source = source(&Image::of(vec![ALL[0]]));
    source.unit.push_str("\nint broken = ;\n");
    let error = nvrtc
        .compile(&source.unit, &source.headers, 90)
        .expect_err("it is broken")
        .to_string();
    assert!(error.contains("expected an expression"), "{error}");
}

#[test]
fn the_programs_of_benchmarks() {
    let Some(nvrtc) = nvrtc() else { return };
    let alone = BENCH.map(|program| {
        let programs = vec![program];
        compile(&nvrtc, &Image::of(programs), 90)
    });
    no_frames(&alone.concat());
    let image = Image::of(ALL.into_iter().chain(BENCH).collect());
    let together = [80, 90].map(|arch| compile(&nvrtc, &image, arch));
    no_frames(&together.concat());
}

#[test]
fn the_kernels_that_benchmarks_are_compared_with() {
    let Some(nvrtc) = nvrtc() else { return };
    use everwarp::cuda::baseline::{baseline_source, device_graph_source, heap_source};
    for arch in [80, 90, 100] {
        let compiled = nvrtc.compile_source(&device_graph_source(), arch);
        compiled.expect("they compile");
    }
    for (source, arch) in [baseline_source, heap_source]
        .iter()
        .flat_map(|s| [80, 90, 100].map(|arch| (s(), arch)))
    {
        let cubin = nvrtc.compile(&source.unit, &source.headers, arch);
        let log = cubin.expect("they compile").log;
        for line in log.lines().filter(|l| l.contains("bytes stack frame")) {
            assert!(
                line.contains(" 0 bytes stack frame, 0 bytes spill stores"),
                "sm_{arch}: {line}\n{log}"
            );
        }
    }
}
