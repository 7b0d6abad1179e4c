//! The text of an image: the contract, the scheduler, the programs, and the switches that call their functions.

use std::fmt::Write;

use everwarp_contract::header::{write_wgsl_actors, write_wgsl_header};
use everwarp_contract::wgpu::{
    FUNCTION_BREADTH, FUNCTION_FORKS, FUNCTION_LATER, FUNCTION_PRESENT, FUNCTION_WIDE, WGPU_STAGE,
};
use everwarp_contract::{FunctionId, Wgsl};
use everwarp_engine::{
    EngineError, EngineKind, Function, Image, MAX_SPAWN, Order, Program, ProgramRef, Shape,
};

// A call has room on the stage for all that it leaves behind.
const _: () = assert!(MAX_SPAWN as u32 + 1 < WGPU_STAGE);

/// The scheduler's files.
const SCHEDULER: [&str; 7] = [
    include_str!("../device/memory.wgsl"),
    include_str!("../device/task.wgsl"),
    include_str!("../device/group.wgsl"),
    include_str!("../device/queue.wgsl"),
    include_str!("../device/share.wgsl"),
    include_str!("../device/turn.wgsl"),
    include_str!("../device/engine.wgsl"),
];

/// The heap's files, for images with programs that call it.
const HEAP: [&str; 5] = [
    include_str!("../device/heap/block.wgsl"),
    include_str!("../device/heap/run.wgsl"),
    include_str!("../device/heap/owner.wgsl"),
    include_str!("../device/heap/heap.wgsl"),
    include_str!("../device/heap/settle.wgsl"),
];
/// The files of actors, for images with programs of them.
const ACTORS: [&str; 6] = [
    include_str!("../device/actor/later.wgsl"),
    include_str!("../device/actor/mailbox.wgsl"),
    include_str!("../device/actor/mute.wgsl"),
    include_str!("../device/actor/actor.wgsl"),
    include_str!("../device/actor/turn.wgsl"),
    include_str!("../device/actor/host.wgsl"),
];
/// What other images have in their place.
const NO_ACTORS: [&str; 1] = [include_str!("../device/now.wgsl")];

/// How a program calls the heap.
const HEAP_CALLS: [&str; 6] = [
    "ew_alloc",
    "ew_realloc",
    "ew_free",
    "ew_release_owner",
    "ew_check_heap",
    "ew_visit_heap",
];

/// An image's WGSL, and where each program's text begins, to name the program of a compiler's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageText {
    /// The whole text.
    pub text: String,
    /// The first line of each program's source, counted from 1.
    programs: Vec<(usize, String)>,
    /// The line after the last program.
    end: usize,
    /// Whether a program calls the heap.
    pub(crate) has_heap: bool,
}

impl ImageText {
    /// Writes the text of an image.
    ///
    /// # Errors
    /// A program has no WGSL, or code of another engine is linked to the image.
    pub fn new(image: &Image) -> Result<Self, EngineError> {
        image.check()?;
        let bare = |p: &&ProgramRef| p.wgsl_source.is_empty();
        if let Some(program) = image.programs.iter().find(bare) {
            return Err(EngineError::NoSource {
                program: program.name.to_string(),
                engine: EngineKind::Wgpu,
            });
        }
        if !image.linked.is_empty() {
            return Err(EngineError::NotHere {
                what: "code linked to an image",
                engine: EngineKind::Wgpu,
            });
        }
        let mut out = Wgsl::default();
        let mut text = Self {
            text: String::new(),
            programs: Vec::new(),
            end: 0,
            has_heap: image.programs.iter().any(calls_heap),
        };
        text.write(&mut out, image)
            .expect("every layout of a program with WGSL has a WGSL form");
        text.text = out.0;
        Ok(text)
    }

    fn write(&mut self, out: &mut Wgsl, image: &Image) -> std::fmt::Result {
        write_wgsl_header(out)?;
        let heap = HEAP.iter().filter(|_| self.has_heap);
        let actors: &[&str] = match image.programs.iter().any(|p| p.has_actors()) {
            true => {
                write_wgsl_actors(out)?;
                &ACTORS
            }
            false => &NO_ACTORS,
        };
        for file in SCHEDULER.iter().chain(heap).chain(actors) {
            out.write_str(file)?;
        }
        // Parameters first: two programs may share those of programs that have none.
        let mut declared = Vec::new();
        for program in &image.programs {
            if !declared.contains(&&program.params.name) {
                declared.push(&program.params.name);
                program.params.write(out)?;
            }
        }
        for (id, program, function) in image.functions() {
            writeln!(out, "const FN_{}_{} = {id}u;", program.name, function.name)?;
        }
        for program in &image.programs {
            self.programs.push((line(&out.0), program.name.to_string()));
            out.write_str(&program.wgsl_source)?;
        }
        self.end = line(&out.0);
        let actors = image.programs.iter().any(|p| p.has_actors());
        if actors {
            write_turns(out, image)?;
        }
        for (name, wide) in [("call_lane", false), ("call_wide", true)] {
            writeln!(out, "fn {name}(function: u32) {{\n  switch function {{")?;
            for program in image.programs.iter().filter(|p| !p.has_actors()) {
                write_cases(out, image, program, wide)?;
            }
            if actors && !wide {
                let of_actors = image.functions().filter(|(_, p, _)| p.has_actors());
                let ids: Vec<_> = of_actors.map(|(id, _, _)| format!("{id}u")).collect();
                writeln!(
                    out,
                    "    case {}: {{ act_lanes(function); }}",
                    ids.join(", ")
                )?;
            }
            writeln!(out, "    default: {{}}\n  }}\n}}")?;
        }
        Ok(())
    }

    /// The program that a line of the text belongs to, and the line's number in its source.
    pub fn place(&self, line: usize) -> Option<(&str, usize)> {
        let programs = self.programs.iter().rev();
        let found = programs.filter(|_| line < self.end);
        let (first, name) = found.into_iter().find(|(first, _)| *first <= line)?;
        Some((name.as_str(), line - first + 1))
    }
}

/// Writes the calls of a program's functions of one kind. A program that has a function `PROGRAM_lanes` or `PROGRAM_wides`
/// gets one call of it for all of them, because drivers copy what a function calls.
fn write_cases(
    out: &mut Wgsl,
    image: &Image,
    program: &ProgramRef,
    wide: bool,
) -> std::fmt::Result {
    let functions = image.functions();
    let of_kind = functions.filter(|(_, p, f)| p.name == program.name && is_wide(f) == wide);
    let all = format!("{}_{}", program.name, if wide { "wides" } else { "lanes" });
    if program.wgsl_source.contains(&format!("fn {all}(")) {
        let ids: Vec<_> = of_kind.map(|(id, _, _)| format!("{id}u")).collect();
        if !ids.is_empty() {
            writeln!(out, "    case {}: {{ {all}(function); }}", ids.join(", "))?;
        }
        return Ok(());
    }
    for (id, program, function) in of_kind {
        let (program, function) = (&program.name, &function.name);
        writeln!(out, "    case {id}u: {{ {program}_{function}(); }}")?;
    }
    Ok(())
}

/// Writes the function that runs the turns and builtins of all programs of actors: drivers copy what a function calls, so
/// there is one, which chooses the handler. A program that has a function `PROGRAM_kinds` gets one call of it for all kinds.
fn write_turns(out: &mut Wgsl, image: &Image) -> std::fmt::Result {
    let turns = || {
        let all = image.functions();
        all.filter_map(|(id, program, f)| Some((id, program, program.kind_of(f)?)))
    };
    // All programs of actors have these in the same order.
    if let Some(program) = image.programs.iter().find(|p| p.has_actors()) {
        let all = program.functions.iter();
        for (number, function) in all.filter(|f| !is_turn(program, f)).enumerate() {
            let name = function.name.to_uppercase();
            writeln!(out, "const ACT_{name} = {number}u;")?;
        }
    }
    writeln!(out, "fn act_lanes(function: u32) {{\n  var base = 0u;")?;
    writeln!(out, "  var kinds = 0u;\n  switch function {{")?;
    for program in image.programs.iter().filter(|p| p.has_actors()) {
        let ids = image.functions().filter(|(_, p, _)| p.name == program.name);
        let ids: Vec<_> = ids.map(|(id, _, _)| format!("{id}u")).collect();
        let kinds = program.functions.iter().filter(|f| is_turn(program, f));
        let (first, kinds) = (&ids[0], kinds.count());
        let all = ids.join(", ");
        writeln!(
            out,
            "    case {all}: {{ base = {first}; kinds = {kinds}u; }}"
        )?;
    }
    writeln!(out, "    default: {{}}\n  }}\n  act_system(base);")?;
    writeln!(out, "  let kind = function - base;")?;
    writeln!(
        out,
        "  if kind >= kinds {{ act_host(kind - kinds); return; }}"
    )?;
    writeln!(out, "  switch function {{")?;
    for (id, program, kind) in turns() {
        let program = &program.name;
        writeln!(out, "    case {id}u: {{ act_kind_{program}_{kind}(); }}")?;
    }
    writeln!(out, "    default: {{}}\n  }}\n  act_begin();")?;
    writeln!(out, "  while act_next() {{")?;
    writeln!(out, "    if act_handles() {{\n      switch function {{")?;
    for program in image.programs.iter().filter(|p| p.has_actors()) {
        let of_program = turns().filter(|(_, p, _)| p.name == program.name);
        // One handler for all kinds.
        let all = format!("{}_kinds", program.name);
        if program.wgsl_source.contains(&format!("fn {all}(")) {
            let ids: Vec<_> = of_program.map(|(id, _, _)| format!("{id}u")).collect();
            writeln!(out, "        case {}: {{ {all}(); }}", ids.join(", "))?;
            continue;
        }
        for (id, program, kind) in of_program {
            let program = &program.name;
            writeln!(out, "        case {id}u: {{ {program}_{kind}(); }}")?;
        }
    }
    writeln!(out, "        default: {{}}\n      }}\n    }}")?;
    writeln!(out, "    act_done();\n  }}\n  act_end();\n}}")
}

fn calls_heap(program: &ProgramRef) -> bool {
    let source = &program.wgsl_source;
    HEAP_CALLS.iter().any(|call| source.contains(call))
}

/// Whether a function runs turns of actors.
fn is_turn(program: &Program, function: &Function) -> bool {
    program.kind_of(function).is_some()
}

/// The number of the line at the end of a text.
fn line(text: &str) -> usize {
    text.bytes().filter(|&b| b == b'\n').count() + 1
}

fn is_wide(function: &Function) -> bool {
    function.shape != Shape::Lane
}

/// The table of functions as the device reads it, by id.
pub(crate) fn function_table(image: &Image) -> Vec<u32> {
    let mut table = vec![0; FunctionId::FIRST.0 as usize];
    table.extend(image.functions().map(|(_, p, f)| {
        let flag = |bit, is| if is { bit } else { 0 };
        FUNCTION_PRESENT
            | flag(FUNCTION_WIDE, is_wide(f))
            | flag(FUNCTION_FORKS, f.forks)
            | flag(FUNCTION_BREADTH, f.order == Order::BreadthFirst)
            | flag(FUNCTION_LATER, is_turn(p, f))
            | u32::from(f.max_spawn)
    }));
    table
}
