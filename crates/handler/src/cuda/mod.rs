//! A module as CUDA C++, so that its actors run on a GPU.
//!
//! The text becomes part of its program's device source, which the engine compiles with everything else of the image. So the
//! handler of a module is called as a native one is, and its imports are calls of the actor that a native handler makes. Only
//! modules that can run there as a whole are translated; for others the reason is the result, before any actor runs.

mod body;
mod facts;
mod operators;
mod plan;
pub(crate) mod ring;

use std::fmt::Write;

use everwarp_actor::reasons;
use everwarp_actor::{DeadReason, DeviceHandler, FailedModule, MODULE_HEADER};
use wasmtime::{Trap, Val};

use self::facts::Facts;
use self::plan::Plan;
use crate::imports::CalledFail;
use crate::instance::{Compiled, unanswered, unhandled};
use crate::interface::{Import, Plain, Role, Service, Signature};
use crate::module::ActorModule;
use crate::names::Names;

/// The most fuel that one message may have: a handler that does not end keeps others waiting.
const FUEL: u64 = 1_000_000_000;

/// The most bytes of data, which become text for a compiler.
const CONTENT: usize = 32 << 10;

/// Functions of `everwarp:actor` as expressions of CUDA C++; `p0` is the parameter.
const FIXED: [(&str, &str); 13] = [
    ("self", "return a.id();"),
    ("sender", "return a.message.from();"),
    ("parent", "return a.parent();"),
    ("asked", "return a.asked != ew::NONE;"),
    (
        "forward",
        "if (a.sends == 0) g.trap = MODULE_SENDS; else a.forward(p0);",
    ),
    ("stop", "a.stop();"),
    (
        "stop_actor",
        "if (a.sends == 0) g.trap = MODULE_SENDS; else a.stop_later(p0);",
    ),
    (
        "kill",
        "if (a.sends == 0) g.trap = MODULE_SENDS; else a.kill(p0);",
    ),
    ("keep", "return ew::module_keep(a, g.trap);"),
    ("cancel", "return ew::module_cancel(a, p0);"),
    ("fail", "g.trap = MODULE_FAIL;"),
    ("random", "return ew::wasm::random(&a.system);"),
    ("now", "return ew::clock_ns();"),
];

/// The handler of a module for GPUs, or why it has none.
pub(crate) fn translate(
    module: &ActorModule,
    compiled: &Compiled,
    names: &Names,
) -> Result<DeviceHandler, String> {
    let facts = Facts::read(&module.bytes)?;
    let plan = Plan::new(&facts)?;
    let fuel = module.description.fuel;
    if fuel > FUEL {
        return Err(format!(
            "it has {fuel} fuel for one message, and the limit there is {FUEL}"
        ));
    }
    check_content(&facts, compiled.initial().1)?;
    let mut out = String::new();
    let mut globals = String::new();
    let values = module.globals.iter().copied();
    let values: Vec<_> = values
        .zip(compiled.globals().iter().map(|(_, value)| value))
        .collect();
    variables(&mut out, &facts, values.iter().map(|(global, _)| *global))?;
    for (global, value) in values {
        let bits = bits_of(value)?;
        write!(globals, " g.g{global} = {bits}ull;").expect("a string takes it");
    }
    let (scratch, bytes) = compiled.initial();
    let first = first_content(&mut out, scratch, bytes);
    for (n, one) in module.imports.iter().enumerate() {
        import(&mut out, &facts, &plan, names, n as u32, one)?;
    }
    functions(&mut out, &facts, &plan, module.memory)?;
    handle(&mut out, &facts, &plan, module, names, &globals, &first)?;
    Ok(DeviceHandler {
        source: out,
        state_bytes: MODULE_HEADER + module.memory,
        lists: module.imports.iter().any(Import::is_about_lists),
        reason: reason_of(&facts, compiled),
    })
}

/// Checks that a module's data and its memory at first are little enough for text.
fn check_content(facts: &Facts<'_>, memory: &[u8]) -> Result<(), String> {
    let filled = memory.iter().filter(|byte| **byte != 0).count();
    let content = filled + facts.data.iter().map(|data| data.len()).sum::<usize>();
    if content > CONTENT {
        return Err(format!(
            "its data have {content} bytes that are not zero, and the limit there is {CONTENT}"
        ));
    }
    Ok(())
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// Declares the guest with the module's mutable variables.
fn variables(
    out: &mut String,
    facts: &Facts<'_>,
    globals: impl Iterator<Item = u32>,
) -> Result<(), String> {
    line(out, "struct G : ew::wasm::Guest {");
    for global in globals {
        let width = facts.globals[global as usize].width.clone()?;
        line(out, &format!("  {} g{global};", width.c()));
    }
    line(out, "};");
    Ok(())
}

/// The bits of a variable's value.
fn bits_of(value: &Val) -> Result<u64, String> {
    Ok(match *value {
        Val::I32(v) => u64::from(v as u32),
        Val::I64(v) => v as u64,
        Val::F32(v) => v.into(),
        Val::F64(v) => v,
        _ => return Err("it has variables that are no numbers".to_owned()),
    })
}

/// Writes the data and the functions of a module that has this many bytes of memory. Its imports are there.
fn functions(out: &mut String, facts: &Facts<'_>, plan: &Plan, memory: u32) -> Result<(), String> {
    for (n, data) in facts.data.iter().enumerate() {
        if !data.is_empty() {
            let bytes: Vec<String> = data.iter().map(u8::to_string).collect();
            let bytes = bytes.join(",");
            line(
                out,
                &format!("static __device__ const u8 data{n}[] = {{{bytes}}};"),
            );
        }
    }
    let all = facts.imported..facts.functions.len() as u32;
    for function in all.clone() {
        let shape = facts.shape(function)?;
        let name = format!("f{function}");
        let head = body::head(plan, &name, &shape, plan.acts(function), "");
        line(out, &format!("{head};"));
    }
    for (table, ty) in plan::elements(facts) {
        element(out, facts, plan, table, ty)?;
    }
    for function in all {
        body::write(out, facts, plan, memory, function)?;
    }
    Ok(())
}

/// Declares the words of the first memory that are not zero; `bytes` begin after `scratch` zeros. Returns what copies them.
fn first_content(out: &mut String, scratch: usize, bytes: &[u8]) -> String {
    // Words of the memory: zeros come from the launch.
    let mut words = vec![0_u64; (scratch + bytes.len()).div_ceil(8)];
    for (at, &byte) in bytes.iter().enumerate() {
        let at = scratch + at;
        words[at / 8] |= u64::from(byte) << (8 * (at % 8));
    }
    let mut copies = String::new();
    let mut at = 0;
    while at < words.len() {
        if words[at] == 0 {
            at += 1;
            continue;
        }
        // Up to some zeros in a row.
        let mut end = at + 1;
        while words[end..].iter().take(8).any(|&word| word != 0) {
            end += 1;
        }
        let list: Vec<String> = words[at..end].iter().map(|w| format!("{w}ull")).collect();
        line(
            out,
            &format!(
                "static __device__ const u64 first{at}[] = {{{}}};",
                list.join(",")
            ),
        );
        write!(
            copies,
            " ew::wasm::begin(g.memory, {}u, first{at}, {}u);",
            8 * at,
            end - at
        )
        .expect("a string takes it");
        at = end;
    }
    copies
}

/// Writes the function of an import.
fn import(
    out: &mut String,
    facts: &Facts<'_>,
    plan: &Plan,
    names: &Names,
    function: u32,
    import: &Import,
) -> Result<(), String> {
    let shape = facts.shape(function)?;
    let known = names.messages.get(&import.name);
    let tag = known.map_or(0, |known| known.tag);
    let words = |first: usize| -> String {
        (first..shape.params.len())
            .map(|n| format!(", p{n}"))
            .collect()
    };
    const SENDS: &str = "if (a.sends == 0) g.trap = MODULE_SENDS; else";
    let none = || format!("it imports `{}`, which is not there yet", import.path());
    let code = match import.service {
        Service::Tell => format!("{SENDS} a.tell(p0, {tag}{});", words(1)),
        Service::TryTell => {
            format!(
                "{SENDS} return a.try_tell(p0, {tag}{}); return 0;",
                words(1)
            )
        }
        Service::Ask => {
            let number = u64::from(tag) << 32;
            format!("{SENDS} a.ask(p0, {tag}, {number}ull | p1{});", words(2))
        }
        Service::Spawn => {
            let kind = names.kinds.iter().position(|kind| *kind == import.name);
            format!("return a.launch({});", kind.ok_or_else(none)?)
        }
        Service::Actor => {
            let found = FIXED.iter().find(|(name, _)| *name == import.name);
            found.ok_or_else(none)?.1.to_owned()
        }
        Service::AskWithin => {
            let number = u64::from(tag) << 32;
            format!(
                "if ((long long)p2 < 0) g.trap = MODULE_TIME; else {SENDS} a.ask_within(p0, {tag}, {number}ull | p1, p2{});",
                words(3)
            )
        }
        Service::After | Service::Every => {
            let what = match import.service {
                Service::After => "EVENT_AFTER",
                _ => "EVENT_EVERY",
            };
            format!(
                "return ew::module_timer(a, g.trap, {what}, p0, {tag}{});",
                words(1)
            )
        }
        Service::Reply => format!("return ew::module_reply(a, g.trap, p0, {tag}{});", words(1)),
    };
    let head = body::head(plan, &format!("f{function}"), &shape, true, "");
    line(out, &format!("{head} {{ {code} }}"));
    Ok(())
}

/// Writes the function that calls an element of a table.
fn element(
    out: &mut String,
    facts: &Facts<'_>,
    plan: &Plan,
    table: u32,
    ty: u32,
) -> Result<(), String> {
    let shape = facts.shape_of_type(ty)?;
    let acts = plan.element_acts(facts, table, ty);
    let head = body::head(plan, &format!("t{table}_{ty}"), &shape, acts, ", u32 at");
    line(out, &format!("{head} {{\n  switch (at) {{"));
    let elements = &facts.tables[table as usize];
    let cases = |of: Option<u32>| -> String {
        let at = elements.iter().enumerate();
        let at = at.filter(|(_, element)| **element == of);
        at.map(|(n, _)| format!(" case {n}:")).collect()
    };
    for function in facts.candidates(table, ty) {
        let mut arguments = String::from("g");
        if plan.acts(function) {
            arguments.push_str(", a");
        }
        for n in 0..shape.params.len() {
            write!(arguments, ", p{n}").expect("a string takes it");
        }
        if shape.results.len() > 1 {
            for n in 0..shape.results.len() {
                write!(arguments, ", r{n}").expect("a string takes it");
            }
        }
        let cases = cases(Some(function));
        line(out, &format!("   {cases} return f{function}({arguments});"));
    }
    if elements.contains(&None) {
        line(
            out,
            &format!("   {} g.trap = MODULE_NULL; break;", cases(None)),
        );
    }
    let size = elements.len();
    line(
        out,
        &format!("    default: g.trap = at < {size}u ? MODULE_SIGNATURE : MODULE_TABLE;\n  }}"),
    );
    if shape.results.len() == 1 {
        line(out, "  return 0;");
    }
    line(out, "}");
    Ok(())
}

/// Writes the handler, which the actor's turns call.
fn handle(
    out: &mut String,
    facts: &Facts<'_>,
    plan: &Plan,
    module: &ActorModule,
    names: &Names,
    globals: &str,
    first: &str,
) -> Result<(), String> {
    let fuel = module.description.fuel;
    line(
        out,
        &format!(
            "EW_FN void handle(ew::Actor& a, u32 kind) {{\n  const ew::Message& m = a.message;\n  G g;\n  \
             g.memory = a.own + {MODULE_HEADER}; g.fuel = -{fuel}ll; g.trap = 0; g.where = ew::NONE;{globals}\n  \
             // A launch and a restart clear the state.\n  \
             if (ew::wasm::load_aligned(a.own) == 0) {{{first} ew::wasm::store_aligned(a.own, (u8)1); }}\n  \
             const u32 asked = (u32)(m.ask() >> 32), number = (u32)m.ask();\n  \
             if ((m.head & MESSAGE_MISSED) != 0) {{\n   {}\n  \
             }} else if (!m.is_reply()) {{\n    switch (m.tag()) {{",
            missed(facts, plan, module)?
        ),
    );
    for role in Role::ALL {
        match role {
            Role::On => {}
            Role::Reply => line(
                out,
                "  } else if (m.failure() == ew::NONE) {\n    switch (asked) {",
            ),
            Role::Failed => line(out, "  } else {\n    switch (asked) {"),
        }
        for (own, name, _) in module.exports.iter().filter(|(own, ..)| *own == role) {
            let tag = names.messages.get(name).map_or(0, |known| known.tag);
            let export = format!("{}{name}", own.prefix());
            let function = facts.exports[&*export];
            let call = call(facts, plan, function, role)?;
            line(out, &format!("      case {tag}: {{{call} break; }}"));
        }
        let (trap, place) = match role {
            Role::On => ("UNHANDLED", "m.tag()"),
            Role::Reply => ("UNHANDLED", "m.tag()"),
            Role::Failed => ("UNANSWERED", "asked << 8 | m.failure()"),
        };
        line(
            out,
            &format!("      default: g.trap = MODULE_{trap}; g.where = {place};\n    }}"),
        );
    }
    line(
        out,
        "  }\n  if (g.trap == 0) return;\n  \
         ew::wasm::failed(&a.system, a.id(), kind, m.tag(), g.trap, g.where);\n  a.fail();\n}",
    );
    Ok(())
}

/// Notifies a module of missed messages of a topic, if it wants to know.
fn missed(facts: &Facts<'_>, plan: &Plan, module: &ActorModule) -> Result<String, String> {
    let counts = Signature::new(&[Plain::I64], &[]);
    let wants = |(role, name, signature): &&(Role, String, Signature)| {
        *role == Role::On && name == "missed" && *signature == counts
    };
    match module.exports.iter().find(wants) {
        None => Ok(String::new()),
        Some(_) => call(facts, plan, facts.exports["on.missed"], Role::On),
    }
}

/// Calls a handler with what is in the message, and replies.
fn call(facts: &Facts<'_>, plan: &Plan, function: u32, role: Role) -> Result<String, String> {
    let shape = facts.shape(function)?;
    let mut arguments = String::from("g");
    if plan.acts(function) {
        arguments.push_str(", a");
    }
    for (n, width) in shape.params.iter().enumerate() {
        let word = match (role, n) {
            (Role::On, n) => format!("m.word({n})"),
            (_, 0) => "number".to_owned(),
            (Role::Reply, n) => format!("m.word({})", n - 1),
            (Role::Failed, _) => "m.failure()".to_owned(),
        };
        write!(arguments, ", ({}){word}", width.c()).expect("a string takes it");
    }
    let results = match &shape.results[..] {
        [] => return Ok(format!(" f{function}({arguments});")),
        results => results,
    };
    let mut code = String::new();
    let mut words = String::new();
    for (n, width) in results.iter().enumerate() {
        write!(code, " {} r{n} = 0;", width.c()).expect("a string takes it");
        write!(words, ", (u64)r{n}").expect("a string takes it");
    }
    match results {
        [_] => write!(code, " r0 = f{function}({arguments});"),
        many => {
            for n in 0..many.len() {
                write!(arguments, ", r{n}").expect("a string takes it");
            }
            write!(code, " f{function}({arguments});")
        }
    }
    .expect("a string takes it");
    write!(
        code,
        " if (g.trap == 0 && m.is_ask()) a.reply(m.tag(){words});"
    )
    .expect("a string takes it");
    Ok(code)
}

/// The words of the CPU engine for the reasons of failures.
fn reason_of(
    facts: &Facts<'_>,
    compiled: &Compiled,
) -> std::sync::Arc<dyn Fn(FailedModule) -> String + Send + Sync> {
    let functions = facts.named();
    let messages = compiled.names().to_vec();
    std::sync::Arc::new(move |failed: FailedModule| {
        let name = |tag: u8| {
            let found = messages.iter().find(|(t, _)| *t == tag);
            found.map_or("without a name", |(_, name)| name)
        };
        let what = match failed.reason {
            reasons::MODULE_UNHANDLED => return unhandled(name(failed.place as u8)),
            reasons::MODULE_UNANSWERED => {
                let number = failed.place & 0xff;
                let mut all = DeadReason::ALL.into_iter();
                let reason = all.find(|reason| *reason as u32 == number);
                return unanswered(
                    reason.unwrap_or(DeadReason::Failed),
                    name((failed.place >> 8) as u8),
                );
            }
            reasons::MODULE_FAIL => CalledFail.to_string(),
            reasons::MODULE_SENDS => crate::imports::TOO_MANY_SENDS.to_owned(),
            reasons::MODULE_TIME => crate::imports::NEGATIVE_TIME.to_owned(),
            reasons::MODULE_TIMERS => crate::imports::too_many_timers(),
            reasons::MODULE_KEPT => crate::imports::keeps_too_many(),
            reasons::MODULE_REPLY => crate::imports::wrong_reply(name(failed.tag)),
            reason => trapped(reason),
        };
        placed(what, functions.get(&failed.place))
    })
}

/// A reason in the words of the CPU engine, if it is no matter of actors.
fn trapped(reason: u32) -> String {
    match reason {
        reasons::MODULE_FUEL => "it used up its fuel for one message".to_owned(),
        reasons::MODULE_MEMORY => Trap::MemoryOutOfBounds.to_string(),
        reasons::MODULE_DIVISION => Trap::IntegerDivisionByZero.to_string(),
        reasons::MODULE_OVERFLOW => Trap::IntegerOverflow.to_string(),
        reasons::MODULE_CONVERSION => Trap::BadConversionToInteger.to_string(),
        reasons::MODULE_TABLE => Trap::TableOutOfBounds.to_string(),
        reasons::MODULE_NULL => Trap::IndirectCallToNull.to_string(),
        reasons::MODULE_SIGNATURE => Trap::BadSignature.to_string(),
        _ => Trap::UnreachableCodeReached.to_string(),
    }
}
/// A reason with the function that failed.
fn placed(what: String, function: Option<&String>) -> String {
    match function {
        Some(name) => format!("{what}, in `{name}`"),
        None => what,
    }
}
