//! The text of an image: the contract, the scheduler, the programs, and the switches that call their functions.

use std::fmt::Write;

use everwarp_contract::header::write_wgsl_header;
use everwarp_contract::wgpu::{
    FUNCTION_BREADTH, FUNCTION_FORKS, FUNCTION_PRESENT, FUNCTION_WIDE, WGPU_STAGE,
};
use everwarp_contract::{FunctionId, Wgsl};
use everwarp_engine::{
    EngineError, EngineKind, Function, Image, MAX_SPAWN, Order, ProgramRef, Shape,
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

/// An image's WGSL, and where each program's text begins, to name the program of a compiler's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageText {
    /// The whole text.
    pub text: String,
    /// The first line of each program's source, counted from 1.
    programs: Vec<(usize, String)>,
    /// The line after the last program.
    end: usize,
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
        };
        text.write(&mut out, image)
            .expect("every layout of a program with WGSL has a WGSL form");
        text.text = out.0;
        Ok(text)
    }

    fn write(&mut self, out: &mut Wgsl, image: &Image) -> std::fmt::Result {
        write_wgsl_header(out)?;
        for file in SCHEDULER {
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
        for (name, wide) in [("call_lane", false), ("call_wide", true)] {
            writeln!(out, "fn {name}(function: u32) {{\n  switch function {{")?;
            let functions = image.functions();
            for (id, program, function) in functions.filter(|(_, _, f)| is_wide(f) == wide) {
                let (program, function) = (&program.name, &function.name);
                writeln!(out, "    case {id}u: {{ {program}_{function}(); }}")?;
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
    table.extend(image.functions().map(|(_, _, f)| {
        let flag = |bit, is| if is { bit } else { 0 };
        FUNCTION_PRESENT
            | flag(FUNCTION_WIDE, is_wide(f))
            | flag(FUNCTION_FORKS, f.forks)
            | flag(FUNCTION_BREADTH, f.order == Order::BreadthFirst)
            | u32::from(f.max_spawn)
    }));
    table
}
