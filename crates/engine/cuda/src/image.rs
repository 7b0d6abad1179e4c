//! Images: the scheduler, the programs and the dispatch between them as one compilation unit.

use std::fmt::Write;

use everwarp_contract::device::FETCH_TASKS;
use everwarp_contract::header::write_header;
use everwarp_contract::task::{FN_FETCH, FN_FIRST, FN_LIMIT};
use everwarp_engine::{Image, Order, Shape, identifier};

/// Lists device sources by the names under which they are included, which are their paths in `device`.
macro_rules! sources {
    ($($path:literal)*) => {
        &[$((concat!("everwarp/", $path), include_str!(concat!("../device/", $path)))),*]
    };
}

/// The device sources of the scheduler. They are part of the binary.
const SOURCES: &[(&str, &str)] = sources! {
    "actor/actor.cuh"
    "actor/hold.cuh"
    "actor/host.cuh"
    "actor/kept.cuh"
    "actor/lend.cuh"
    "actor/mailbox.cuh"
    "actor/module.cuh"
    "actor/news.cuh"
    "actor/part.cuh"
    "actor/tell.cuh"
    "actor/turn.cuh"
    "actor/value.cuh"
    "actor/wide.cuh"
    "actor/wide_turn.cuh"
    "api.cuh"
    "atomic.cuh"
    "engine.cu"
    "files/files.cuh"
    "files/pages.cuh"
    "heap/class.cuh"
    "heap/find.cuh"
    "heap/guard.cuh"
    "heap/heap.cuh"
    "heap/owner.cuh"
    "heap/page.cuh"
    "heap/realloc.cuh"
    "heap/run.cuh"
    "heap/sweep.cuh"
    "heap/task.cuh"
    "lane/lane.cuh"
    "warp/batch.cuh"
    "warp/finish.cuh"
    "warp/local.cuh"
    "warp/measure.cuh"
    "warp/trace.cuh"
    "warp/warp.cuh"
    "warp/worker.cuh"
    "block/block.cuh"
    "block/mode.cuh"
    "ring/ring.cuh"
    "wasm/guest.cuh"
    "grid/chunk.cuh"
    "grid/deque.cuh"
    "grid/group.cuh"
    "grid/idle.cuh"
    "grid/refill.cuh"
    "grid/stack.cuh"
    "system/egress.cuh"
    "system/ingress.cuh"
};

/// The kernel's name in every image.
pub const KERNEL: &std::ffi::CStr = c"everwarp_engine";
/// The constant through which an image finds the engine's memory, a `DevEngine`.
pub const TABLES: &std::ffi::CStr = c"everwarp_tables";
/// The word in which an image says how much shared memory a block of its kernel needs.
pub const SHARED_BYTES: &std::ffi::CStr = c"everwarp_shared_bytes";

/// A compilation unit and the headers it includes.
#[derive(Debug)]
pub struct Source {
    /// The unit.
    pub unit: String,
    /// Headers: include name and text.
    pub headers: Vec<(String, String)>,
    /// Whether it is to be linked with other code, rather than a whole program.
    pub relocatable: bool,
}

/// A compilation unit of its own that may include the engine's headers.
pub(crate) fn unit(text: &str) -> Source {
    Source {
        unit: text.to_owned(),
        headers: headers(),
        relocatable: false,
    }
}

/// The raw kernels that benchmarks are compared with.
pub fn raw_source() -> Source {
    unit(include_str!("../device/raw.cu"))
}

/// The generated contract and the device sources that others include.
fn headers() -> Vec<(String, String)> {
    let mut contract = String::new();
    write_header(&mut contract).expect("writing to a string cannot fail");
    let sources = SOURCES.iter().map(|&(n, t)| (n.to_owned(), t.to_owned()));
    std::iter::once(("everwarp/contract.cuh".to_owned(), contract))
        .chain(sources)
        .collect()
}

/// Builds the source of an image.
///
/// # Panics
/// If the programs have more than `FN_LIMIT` functions together.
pub fn source(image: &Image) -> Source {
    assert!(
        image.functions().count() < (FN_LIMIT - FN_FIRST) as usize,
        "too many functions for one image"
    );
    let mut unit = String::new();
    write_unit(&mut unit, image).expect("writing to a string cannot fail");
    let linked = image.linked.headers.iter();
    let linked = linked.map(|&(name, text)| (name.to_owned(), text.to_owned()));
    Source {
        unit,
        headers: headers().into_iter().chain(linked).collect(),
        relocatable: !image.linked.is_empty(),
    }
}

fn write_unit(out: &mut String, image: &Image) -> std::fmt::Result {
    if image.traced {
        writeln!(out, "#define EVERWARP_TRACE")?;
    }
    if image.measured {
        writeln!(out, "#define EVERWARP_MEASURE")?;
    }
    writeln!(out, "#include \"everwarp/contract.cuh\"")?;
    for (id, program, function) in image.functions() {
        writeln!(
            out,
            "[[maybe_unused]] constexpr u32 FN_{}_{} = {id};",
            identifier(&program.name),
            identifier(&function.name)
        )?;
    }
    writeln!(
        out,
        "constexpr u32 FN_COUNT = {};",
        FN_FIRST as usize + image.functions().count()
    )?;
    writeln!(out, "#include \"everwarp/api.cuh\"")?;
    if !image.linked.is_empty() {
        let declarations = &image.linked.declarations;
        writeln!(out, "#line 1 \"linked\"\n{declarations}")?;
    }
    for program in &image.programs {
        program.params.write_once(out)?;
        writeln!(
            out,
            "#line 1 \"{}.cu\"\n{}",
            identifier(&program.name),
            program.device_source
        )?;
    }
    writeln!(out, "#line 1 \"dispatch\"\nnamespace ew {{")?;
    write_meta(out, image)?;
    write_warp_dispatch(out, image)?;
    for (shape, name, view) in [
        (Shape::Lane, "lane", "Lane"),
        (Shape::Block, "block", "Block"),
    ] {
        writeln!(
            out,
            "EW_FN void dispatch_{name}(u32 fn, {view}& t) {{\n  switch (fn) {{"
        )?;
        // Functions that share one have one case, so that its code is there once.
        let mut calls: Vec<(String, Vec<String>)> = Vec::new();
        for (id, program, function) in image.functions().filter(|(_, _, f)| f.shape == shape) {
            let (name, params) = (identifier(&program.name), &program.params.name);
            let call = format!(
                "{name}_{}(t, *(const {params}*)t.params())",
                function.device_name()
            );
            let case = format!("case {id}:");
            match calls.iter_mut().find(|(other, _)| *other == call) {
                Some((_, cases)) => cases.push(case),
                None => calls.push((call, vec![case])),
            }
        }
        for (call, cases) in calls {
            writeln!(out, "    {} {call}; break;", cases.join(" "))?;
        }
        writeln!(out, "  }}\n}}")?;
    }
    writeln!(out, "}}\n#include \"everwarp/engine.cu\"")
}

/// Writes the dispatch of warp-shaped tasks. Outlined functions are calls, which keep their code out of the scheduler.
fn write_warp_dispatch(out: &mut String, image: &Image) -> std::fmt::Result {
    let functions = || image.functions().filter(|(_, _, f)| f.shape == Shape::Warp);
    for (id, program, function) in functions() {
        let (program, params) = (identifier(&program.name), &program.params.name);
        let how = if function.outlined {
            "EW_CALL"
        } else {
            "EW_FN"
        };
        writeln!(
            out,
            "{how} WarpEnd run_{program}_{0}(DevTask task, u32 lane) {{\n  \
             Warp t(Lane::begin(task, meta({id})), lane);\n  \
             {program}_{0}(t, *(const {params}*)t.params());\n  return WarpEnd::of(t);\n}}",
            identifier(&function.name)
        )?;
    }
    writeln!(
        out,
        "EW_FN WarpEnd dispatch_warp(u32 fn, const DevTask& task, u32 lane) {{\n  switch (fn) {{"
    )?;
    for (id, program, function) in functions() {
        writeln!(
            out,
            "    case {id}: return run_{}_{}(task, lane);",
            identifier(&program.name),
            identifier(&function.name)
        )?;
    }
    writeln!(out, "  }}\n  return WarpEnd{{}};\n}}")
}

/// The table that the scheduler reads: shape, order and limits of each function.
fn write_meta(out: &mut String, image: &Image) -> std::fmt::Result {
    // A fetch queues the tasks that it fetches, and one halved range for each time that its own was halved.
    let fetch = FETCH_TASKS + 32;
    writeln!(out, "static __constant__ FnMeta META[FN_COUNT] = {{")?;
    for id in 0..FN_FIRST {
        match id {
            FN_FETCH => writeln!(out, "  {{SHAPE_WARP | {fetch} << 4 | {fetch} << 16}},")?,
            _ => writeln!(out, "  {{SHAPE_LANE}},")?,
        }
    }
    for (_, _, f) in image.functions() {
        let shape = match f.shape {
            Shape::Lane => "SHAPE_LANE",
            Shape::Warp => "SHAPE_WARP",
            Shape::Block => "SHAPE_BLOCK",
        };
        let fifo = u32::from(f.order == Order::BreadthFirst);
        writeln!(
            out,
            "  {{{shape} | {fifo} << 2 | {} << 3 | {} << 4 | {} << 16}},",
            u32::from(f.forks),
            f.max_spawn,
            match f.least_room {
                0 => f.max_spawn,
                least => least.min(f.max_spawn),
            }
        )?;
    }
    writeln!(out, "}};\nEW_FN FnMeta meta(u32 fn) {{ return META[fn]; }}")?;
    // Spelled out, so that it folds where a task names the function it spawns.
    for (name, shape) in [("is_block", Shape::Block), ("is_warp", Shape::Warp)] {
        write!(out, "EW_FN bool {name}(u32 fn) {{ return false")?;
        for (id, _, _) in image.functions().filter(|(_, _, f)| f.shape == shape) {
            write!(out, " || fn == {id}")?;
        }
        writeln!(out, "; }}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::SOURCES;

    /// The headers that a source includes.
    fn includes(text: &str) -> impl Iterator<Item = &str> {
        let quoted = text.lines().filter_map(|l| l.strip_prefix("#include \""));
        quoted.filter_map(|rest| rest.strip_suffix('"'))
    }

    /// How many headers are below a header, in the longest way down.
    fn depth<'s>(
        name: &'s str,
        texts: &BTreeMap<&str, &'s str>,
        above: &mut Vec<&'s str>,
    ) -> Result<usize, String> {
        if above.contains(&name) {
            return Err(format!("{} > {name}", above.join(" > ")));
        }
        above.push(name);
        let mut deepest = 0;
        for included in includes(texts.get(name).copied().unwrap_or_default()) {
            deepest = deepest.max(1 + depth(included, texts, above)?);
        }
        above.pop();
        Ok(deepest)
    }

    #[test]
    fn headers_include_each_other_without_circles() {
        let texts: BTreeMap<_, _> = SOURCES.iter().copied().collect();
        for name in texts.keys() {
            let found = depth(name, &texts, &mut Vec::new());
            assert!(found.is_ok_and(|levels| levels < SOURCES.len()), "{name}");
        }
        let circle = BTreeMap::from([("a", "#include \"b\"\n"), ("b", "\n#include \"a\"\n")]);
        let found = depth("a", &circle, &mut Vec::new());
        assert_eq!(found, Err("a > b > a".to_owned()));
    }

    /// A header includes what it calls. Only functions that are generated with each image are declared before.
    #[test]
    fn headers_declare_no_function_of_a_later_header() {
        let mut declared = 0;
        for (name, text) in SOURCES {
            let (mut generated, lines) = (false, text.lines());
            for line in lines {
                let code = line.split("//").next().unwrap_or_default().trim_end();
                let function = line.starts_with("EW_FN ") || line.starts_with("EW_CALL ");
                if !(function && code.ends_with(");")) {
                    generated = false;
                    continue;
                }
                generated |= line.contains("// generated with the image");
                assert!(generated, "{name}: {line}");
                declared += 1;
            }
        }
        assert!(declared >= 6, "the generated functions are found");
    }
}
