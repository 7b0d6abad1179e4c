//! The WGSL of every program that has some, which are all but those that use files or services of actors: an image of them is
//! valid without any optional capability, and can be translated to the languages of all backends.

use everwarp_engine::{EngineKind, Image};
use everwarp_engine_wgpu::ImageText;
use everwarp_programs::{
    REGISTRY, actor_faults, actor_probe, benchmarks, heap_probe, probe, standard,
};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};

fn image(actors: bool) -> Image {
    let mut programs: Vec<&'static everwarp::Program> = vec![&probe::PROGRAM, &heap_probe::PROGRAM];
    programs.extend(standard().chain(benchmarks()));
    if actors {
        programs.push(actor_probe::PROBE.static_program());
        programs.push(actor_faults::FAULTS.static_program());
    }
    Image::of(programs)
}

/// Parses and validates an image.
fn validated(text: &str) -> (naga::Module, ModuleInfo) {
    let module = naga::front::wgsl::parse_str(text);
    let module = module.unwrap_or_else(|e| panic!("{}", e.emit_to_string(text)));
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::empty());
    let info = validator.validate(&module);
    let info = info.unwrap_or_else(|e| panic!("{}", e.emit_to_string(text)));
    (module, info)
}

#[test]
fn an_image_of_all_programs_needs_no_capability_and_translates_to_every_backend() {
    for actors in [false, true] {
        translates(&image(actors));
    }
}

fn translates(image: &Image) {
    let text = ImageText::new(image).expect("every program has WGSL");
    let (module, info) = validated(&text.text);
    // The baseline of WebGPU.
    let mut layouts = naga::proc::Layouter::default();
    layouts.update(module.to_ctx()).expect("it was validated");
    let variables = module.global_variables.iter();
    let shared = variables.filter(|(_, v)| v.space == naga::AddressSpace::WorkGroup);
    let bytes: u32 = shared
        .map(|(_, v)| layouts[v.ty].size.next_multiple_of(16))
        .sum();
    assert!(bytes <= 16 << 10, "{bytes} bytes of workgroup memory");
    let spirv =
        naga::back::spv::write_vec(&module, &info, &naga::back::spv::Options::default(), None);
    assert!(spirv.expect("SPIR-V").len() > 1000);
    let (msl, _) = naga::back::msl::write_string(
        &module,
        &info,
        &naga::back::msl::Options {
            fake_missing_bindings: true,
            lang_version: (2, 4),
            ..Default::default()
        },
        &naga::back::msl::PipelineOptions::default(),
    )
    .expect("MSL");
    assert!(msl.contains("kernel void"));
    let mut hlsl = String::new();
    let options = naga::back::hlsl::Options {
        fake_missing_bindings: true,
        ..Default::default()
    };
    let pipeline = naga::back::hlsl::PipelineOptions::default();
    naga::back::hlsl::Writer::new(&mut hlsl, &options, &pipeline)
        .write(&module, &info, None)
        .expect("HLSL");
    assert!(hlsl.contains("numthreads"));
}

#[test]
fn a_compilers_message_names_the_program_and_its_line() {
    let text = ImageText::new(&image(true)).expect("every program has WGSL");
    let line = text.text.lines().position(|l| l.starts_with("fn fib_sum"));
    let place = text.place(line.expect("it is there") + 1);
    assert_eq!(place, Some(("fib", 10)));
    assert_eq!(text.place(1), None, "the scheduler's");
    assert_eq!(text.place(text.text.lines().count()), None);
}

#[test]
fn only_images_of_actors_have_their_code() {
    let of = |actors| ImageText::new(&image(actors)).expect("every program has WGSL");
    let declared = "fn act_accept(";
    assert!(!of(false).text.contains(declared) && of(true).text.contains(declared));
    let actors = REGISTRY
        .into_iter()
        .filter(|entry| entry.program().has_actors());
    let actors = actors.filter(|entry| entry.runs_on(EngineKind::Wgpu));
    let programs: Vec<_> = actors.map(|entry| entry.program()).collect();
    assert!(programs.len() >= 11);
    for program in programs {
        translates(&Image::of(vec![program]));
    }
}
