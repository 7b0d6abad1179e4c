//! Every device source compiles for every supported architecture, without spills and without a stack frame. The tests
//! need NVRTC but no GPU. Without NVRTC they are reported as ignored, and in CI they fail.

#[expect(dead_code, reason = "only the programs are of interest here")]
mod modules;
#[path = "modules/ring.rs"]
mod ring_module;

use everwarp::actor::{ActorProgram, Kind};
use everwarp::cuda::baseline::{baseline_source, device_graph_source, heap_source};
use everwarp::cuda::image::{raw_source, source};
use everwarp::cuda::nvrtc::Nvrtc;
use everwarp::cuda::testing;
use everwarp::{EngineKind, Program};
use everwarp_programs::{
    REGISTRY, actor_broker, actor_faults, actor_groups, actor_probe, actor_services, actor_shapes,
    arrivals, benchmarks, counting, echo, fib, file_probe, gather, heap_probe, naps, page_probe,
    probe, reads, ring_kernels, standard, words,
};
use everwarp_runtime::{Image, Shape};
use everwarp_testkit::{Needed, cases};
use libtest_mimic::{Arguments, Trial};

/// A test that compiles device sources with this NVRTC.
type CompileCase = fn(&Nvrtc);

const ALL: &[(&str, CompileCase)] = cases![
    // Those that take longest come first.
    programs_of_actors_compile,
    programs_of_actors_of_other_shapes_compile,
    programs_of_actors_of_the_registry_compile,
    programs_of_actors_of_warps_with_services_compile,
    all_programs_together_compile_for_each_architecture,
    traced_programs_compile,
    measured_programs_compile,
    programs_that_allocate_compile,
    programs_of_actors_that_gpus_refuse_compile,
    programs_of_modules_compile,
    ring_kernels_compile,
    each_program_compiles_alone,
    the_raw_kernels_compile,
    an_error_in_a_program_carries_the_compilers_log,
    programs_of_benchmarks_compile,
    programs_that_use_files_compile,
    programs_that_use_pages_compile,
    the_kernels_of_comparisons_compile,
];

fn main() {
    let args = Arguments::from_args();
    let nvrtc = testing::nvrtc().ok_or("it was not found");
    let needed = Needed::look("NVRTC", &nvrtc);
    let trials = ALL.iter().map(|&(name, case)| {
        let test = move || {
            case(&testing::nvrtc().ok_or("NVRTC is gone")?);
            Ok(())
        };
        needed.trial(Trial::test(name, test))
    });
    libtest_mimic::run(&args, trials.collect()).exit();
}

/// Compiles an image and returns the lines in which the assembler reports a stack frame or spills.
fn compile(nvrtc: &Nvrtc, image: &Image, arch: u32) -> Vec<String> {
    let names: Vec<_> = image.programs.iter().map(|p| &*p.name).collect();
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
        "the assembler reports nothing about the kernel:\n{log}"
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

fn assert_no_frames(wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "stack frames or spills:\n{}",
        wrong.join("\n")
    );
}

/// The frames of several images, for each architecture.
fn frames(nvrtc: &Nvrtc, image: &Image, architectures: &[u32]) -> Vec<String> {
    let compiled = architectures.iter();
    compiled
        .flat_map(|&arch| compile(nvrtc, image, arch))
        .collect()
}

/// Whether everything is compiled: the variable EVERWARP_ALL_ARCHITECTURES is set.
fn compiles_all() -> bool {
    std::env::var_os("EVERWARP_ALL_ARCHITECTURES").is_some()
}

/// Of these architectures those for which an image is compiled here: sm_90, which everwarp is measured on, unless everything is. ptxas
/// takes ten to thirty seconds for each.
fn some_of(architectures: &'static [u32]) -> &'static [u32] {
    match compiles_all() {
        true => architectures,
        false => &[90],
    }
}

/// How many of several images that are much alike are compiled: this many, unless everything is.
fn some(images: usize) -> usize {
    match compiles_all() {
        true => usize::MAX,
        false => images,
    }
}

fn all_programs_together_compile_for_each_architecture(nvrtc: &Nvrtc) {
    let image = Image::of(standard().chain([&probe::PROGRAM]).collect());
    assert_no_frames(&frames(nvrtc, &image, some_of(&[80, 90, 100])));
}

/// With the code that writes down what each warp runs, which handlers, and which messages.
fn traced_programs_compile(nvrtc: &Nvrtc) {
    watched_programs_compile(nvrtc, |image| image.traced = true);
}

/// With the code that measures how long tasks run.
fn measured_programs_compile(nvrtc: &Nvrtc) {
    watched_programs_compile(nvrtc, |image| image.measured = true);
}

fn watched_programs_compile(nvrtc: &Nvrtc, watch: fn(&mut Image)) {
    let watched = |mut image: Image| {
        watch(&mut image);
        image
    };
    let image = watched(Image::of(standard().collect()));
    assert_no_frames(&frames(nvrtc, &image, some_of(&[80, 90])));
    let image = watched(Image::of(vec![actor_probe::PROBE.program()]));
    assert_no_frames(&frames(nvrtc, &image, some_of(&[80, 90])));
    let others = [actor_services::SERVICES.program(), counting::WIDE.program()];
    for actors in others.into_iter().take(some(1)) {
        let image = watched(Image::of(vec![actors]));
        assert_no_frames(&frames(nvrtc, &image, &[90]));
    }
}

fn programs_that_allocate_compile(nvrtc: &Nvrtc) {
    let alone = Image::of(vec![&heap_probe::PROGRAM]);
    assert_no_frames(&frames(nvrtc, &alone, some_of(&[80, 90])));
    // For sm_100 the calls of this program, which makes all of them, leave the kernel a few registers too few, so that it
    // spills some words.
    if compiles_all() {
        compile(nvrtc, &alone, 100);
    }
}

fn programs_of_actors_compile(nvrtc: &Nvrtc) {
    let image = Image::of(vec![actor_probe::PROBE.program()]);
    assert_no_frames(&frames(nvrtc, &image, some_of(&[80, 90, 100])));
    // For sm_80, ptxas spills a register of this one.
    let image = Image::of(vec![actor_services::SERVICES.program()]);
    assert_no_frames(&frames(nvrtc, &image, some_of(&[90, 100])));
    let image = Image::of(vec![actor_groups::GROUPS.program()]);
    assert_no_frames(&frames(nvrtc, &image, some_of(&[80, 90, 100])));
    // For sm_80, ptxas spills three registers of the program that has all kinds that fail.
    let image = Image::of(vec![actor_faults::FAULTS.program()]);
    assert_no_frames(&frames(nvrtc, &image, some_of(&[90, 100])));
    // Of the program that uses channels and keeps asks, ptxas spills some words.
    compile(nvrtc, &Image::of(vec![actor_broker::BROKERS.program()]), 90);
    let image = Image::of(vec![counting::WIDE.program()]);
    assert_no_frames(&frames(nvrtc, &image, some_of(&[80, 90, 100])));
    if !compiles_all() {
        return;
    }
    // With kinds for actors of the host.
    let image = Image::of(vec![actor_services::PARTS.program()]);
    assert_no_frames(&frames(nvrtc, &image, &[80, 90, 100]));
    let image = Image::of(vec![actor_services::hosts().program()]);
    assert_no_frames(&frames(nvrtc, &image, &[90]));
    // For sm_100, ptxas spills a register of the program with kinds of all sorts and one of the host.
    let image = Image::of(vec![actor_groups::WITH_HOSTS.program()]);
    assert_no_frames(&frames(nvrtc, &image, &[80, 90]));
}

fn programs_of_actors_of_other_shapes_compile(nvrtc: &Nvrtc) {
    // Kinds of warp and block shape, each alone: ptxas spills some words of the program that has seven of them.
    let shapes = &actor_shapes::SHAPES;
    if compiles_all() {
        compile(nvrtc, &Image::of(vec![shapes.program()]), 90);
    }
    assert_no_frames(&frames_of_wide_kinds(nvrtc, shapes));
}

fn programs_of_actors_of_the_registry_compile(nvrtc: &Nvrtc) {
    let actors = REGISTRY
        .into_iter()
        .filter(|entry| entry.runs_on(EngineKind::Cuda) && entry.program().has_actors());
    let programs = actors.map(|entry| entry.program()).take(some(2));
    assert_no_frames(&frames_alone(nvrtc, programs));
}

/// Kinds of warp and block shape that use services.
fn programs_of_actors_of_warps_with_services_compile(nvrtc: &Nvrtc) {
    // One of each shape, for one architecture: ptxas takes half a minute for each.
    for program in [&actor_services::WARPS, &actor_groups::BLOCKS] {
        assert_no_frames(&compile(nvrtc, &Image::of(vec![program.program()]), 90));
    }
    // Of the programs with five kinds of two shapes, ptxas spills some words.
    compile(nvrtc, &Image::of(vec![actor_broker::BLOCKS.program()]), 90);
}

/// The frames of images with one kind of warp or block shape of a program each: of the first of each shape, unless everything is
/// compiled.
fn frames_of_wide_kinds(nvrtc: &Nvrtc, program: &ActorProgram) -> Vec<String> {
    let of_shape = |shape| program.kinds.iter().filter(move |k| k.shape == shape);
    [Shape::Warp, Shape::Block]
        .into_iter()
        .flat_map(|shape| of_shape(shape).take(some(1)))
        .flat_map(|kind| {
            let (name, kinds) = (program.name.clone(), vec![kind.clone()].into());
            let (source, params) = (program.device_source.clone(), program.params.clone());
            let alone = ActorProgram::new(name, kinds, source, "".into(), params);
            compile(nvrtc, &Image::of(vec![alone.program()]), 90)
        })
        .collect()
}

/// `ActorSystem::start` refuses them by name, which needs an engine that holds them.
fn programs_of_actors_that_gpus_refuse_compile(nvrtc: &Nvrtc) {
    let one = Kind::closure("one", 8, |_, _| {});
    let many = Kind::batch_closure("many", 8, |_, _| {});
    let program = ActorProgram::closures("refused", vec![one, many]);
    assert_no_frames(&compile(nvrtc, &Image::of(vec![program.program()]), 90));
}

/// Modules may have stack frames, which the driver makes room for, because calls of one take as many registers as its code.
fn programs_of_modules_compile(nvrtc: &Nvrtc) {
    let plays = [
        modules::generated(1000, 1),
        modules::imports(),
        modules::keeping(),
    ];
    for play in plays.into_iter().take(some(1)) {
        compile(nvrtc, &Image::of(vec![play.program.program()]), 90);
    }
    // Kinds with all that there is, and in three ways: each has turns of its own.
    let all = modules::keepers();
    frames(
        nvrtc,
        &Image::of(vec![all.program()]),
        some_of(&[80, 90, 100]),
    );
}

/// Handlers of ring kernels in CUDA C++ and from a module, together and alone.
fn ring_kernels_compile(nvrtc: &Nvrtc) {
    let native = [
        ring_kernels::count().map(|k| k.cuda_program()),
        ring_kernels::busy().map(|k| k.cuda_program()),
        ring_kernels::scale(1000).map(|k| k.cuda_program()),
    ];
    let mut programs: Vec<_> = native
        .into_iter()
        .map(|program| program.expect("small").expect("it has CUDA C++"))
        .collect();
    for program in programs.iter().take(some(1)) {
        let alone = Image::of(vec![program.clone()]);
        assert_no_frames(&frames(nvrtc, &alone, &[90]));
    }
    programs.push(ring_module::ring_sums().cuda_program().expect("it has"));
    let all = Image::of(programs);
    assert_no_frames(&frames(nvrtc, &all, some_of(&[80, 90, 100])));
}

/// The frames of images with one program each.
fn frames_alone(nvrtc: &Nvrtc, programs: impl Iterator<Item = &'static Program>) -> Vec<String> {
    programs
        .flat_map(|program| compile(nvrtc, &Image::of(vec![program]), 90))
        .collect()
}

fn each_program_compiles_alone(nvrtc: &Nvrtc) {
    assert_no_frames(&frames_alone(nvrtc, standard().take(some(3))));
}

fn programs_of_benchmarks_compile(nvrtc: &Nvrtc) {
    assert_no_frames(&frames_alone(nvrtc, benchmarks().take(some(1))));
    let image = Image::of(standard().chain(benchmarks()).collect());
    assert_no_frames(&frames(nvrtc, &image, some_of(&[80, 90])));
}

fn programs_that_use_files_compile(nvrtc: &Nvrtc) {
    let both = Image::of(vec![&words::PROGRAM, &file_probe::PROGRAM]);
    assert_no_frames(&frames(nvrtc, &both, some_of(&[80, 90, 100])));
    let alone = [&echo::PROGRAM, &arrivals::PROGRAM, &naps::PROGRAM];
    for program in alone.into_iter().take(some(1)) {
        let alone = Image::of(vec![program]);
        assert_no_frames(&frames(nvrtc, &alone, &[90]));
    }
}

fn programs_that_use_pages_compile(nvrtc: &Nvrtc) {
    let probe = Image::of(vec![&page_probe::PROGRAM]);
    let mut found = frames(nvrtc, &probe, &[90]);
    for program in [&gather::PROGRAM, &reads::PROGRAM] {
        let alone = Image::of(vec![program]);
        found.extend(frames(nvrtc, &alone, &[90]));
    }
    assert_no_frames(&found);
}

fn the_raw_kernels_compile(nvrtc: &Nvrtc) {
    let source = raw_source();
    for arch in [80, 90, 100] {
        nvrtc
            .compile(&source.unit, &source.headers, arch)
            .expect("they compile");
    }
}

fn an_error_in_a_program_carries_the_compilers_log(nvrtc: &Nvrtc) {
    let mut source = source(&Image::of(vec![&fib::PROGRAM]));
    source.unit.push_str("\nint broken = ;\n");
    let error = nvrtc
        .compile(&source.unit, &source.headers, 90)
        .expect_err("it is broken")
        .to_string();
    assert!(error.contains("expected an expression"), "{error}");
}

/// The kernels that benchmarks compare the engine with.
fn the_kernels_of_comparisons_compile(nvrtc: &Nvrtc) {
    let architectures = some_of(&[80, 90, 100]);
    for &arch in architectures {
        let compiled = nvrtc.compile_source(&device_graph_source(), arch);
        compiled.expect("they compile");
    }
    for (source, arch) in [baseline_source, heap_source]
        .iter()
        .flat_map(|s| architectures.iter().map(|&arch| (s(), arch)))
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
