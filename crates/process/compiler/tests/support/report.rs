//! The report of a run of the suite on a device.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::gpu::Work;
use super::spec::Counts;

/// The expected counts, which the interpreter produced.
const STATED: &str = include_str!("../spec-2.0.txt");

/// Kinds of directives that never reach a device, because the host refuses their modules.
const HOST_ONLY: [&str; 5] = [
    "assert_invalid",
    "assert_malformed",
    "assert_unlinkable",
    "malformed text",
    "register",
];

/// A child's output: the section of the table, a line for each failure, and a line with the device's statistics.
pub(crate) fn output(name: &str, counts: &Counts, work: &Work) -> String {
    let mut text = counts.section(name);
    for failed in &counts.failed {
        writeln!(text, "  failed: {}", failed.replace('\n', " ")).expect("a String takes text");
    }
    let Work {
        modules,
        compiled,
        launches,
        stack,
        depth,
    } = work;
    let stack = match modules {
        0 => String::new(),
        _ => format!(", stack {stack} B for a depth of {depth}"),
    };
    writeln!(
        text,
        "  device: {modules} images loaded, {compiled} of them compiled by the driver, {launches} launches{stack}"
    )
    .expect("a String takes text");
    text
}

/// The lines of the table about one file.
fn stated(name: &str) -> Vec<&'static str> {
    let head = format!("{name}: ");
    let from = STATED.lines().skip_while(|l| !l.starts_with(&head));
    let section = from.enumerate();
    let own = section.take_while(|(i, line)| *i == 0 || line.starts_with("  "));
    own.map(|(_, line)| line).collect()
}

/// Whether a child's output has no failure, and has the stated counts.
pub(crate) fn verdict(name: &str, output: &str) -> Result<(), String> {
    let (device, counts): (Vec<_>, Vec<_>) =
        output.lines().partition(|l| l.starts_with("  device: "));
    if device.len() != 1 {
        return Err(format!("no word of the device's work:\n{output}"));
    }
    let stated = stated(name);
    if counts == stated {
        return Ok(());
    }
    Err(format!("{output}not as stated:\n{}", stated.join("\n")))
}

/// The counts of a line: kinds and numbers.
fn counted(line: &str) -> impl Iterator<Item = (&str, usize)> {
    let list = line.split_once(": ").map_or("", |(_, list)| list);
    list.split(", ").filter_map(|item| {
        let (kind, number) = item.rsplit_once(' ')?;
        Some((kind, number.parse().ok()?))
    })
}

/// The table of a run with its totals.
pub(crate) fn report(
    device: &str,
    results: &BTreeMap<String, String>,
    elapsed: Duration,
) -> String {
    let mut kinds = BTreeMap::<&str, usize>::new();
    let (mut undecided, mut failed, mut differing) = (Vec::new(), Vec::new(), Vec::new());
    let (mut launches, mut images, mut table) = (0, 0, String::new());
    for (name, output) in results {
        table.push_str(output);
        for (i, line) in output.lines().enumerate() {
            if i == 0 {
                for (kind, n) in counted(line) {
                    *kinds.entry(kind).or_default() += n;
                }
            } else if let Some(rest) = line.strip_prefix("  unsupported ") {
                undecided.push(format!("{name}: {rest}"));
            } else if let Some(rest) = line.strip_prefix("  failed: ") {
                failed.push(format!("{name}: {rest}"));
            } else if line.starts_with("  device: ") {
                let of = |unit: &str| -> usize {
                    let before = line.split(unit).next().unwrap_or_default();
                    let number = before.rsplit(' ').next().unwrap_or_default();
                    number.parse().expect("a count")
                };
                launches += of(" launches");
                images += of(" images loaded");
            }
        }
        if verdict(name, output).is_err() {
            differing.push(name.as_str());
        }
    }
    let number = |line: &String| -> usize {
        let rest = line.split_once(": ").map_or("", |(_, rest)| rest);
        let number = rest.split(':').next().unwrap_or_default();
        number.parse().expect("a count")
    };
    let sum = |on_device: bool| -> usize {
        let of = |kind: &&str| HOST_ONLY.contains(kind) != on_device;
        kinds.iter().filter(|(k, _)| of(k)).map(|(_, n)| n).sum()
    };
    let open: usize = undecided.iter().map(number).sum();
    let list = |items: Vec<String>| match items.is_empty() {
        true => "  none\n".to_owned(),
        false => items.iter().map(|i| format!("  {i}\n")).collect(),
    };
    format!(
        "The official test suite of WebAssembly 2.0 with vectors, and those of extended constants, tail calls and threads on {device}
command: cargo test --release -p everwarp-compiler --test spec_gpu
{} files in {:.1} s; {images} images loaded, {launches} launches of one thread

directives that hold: {}
  of them decided with the device (it instantiated or ran a module): {}
  of them decided by the compiler or the host alone ({}): {}
directives that fail: {}
directives that are undecided: {open}
files whose counts are not those of the interpreter: {}

by kind:
{}
undecided:
{}
failed:
{}
by file:
{table}",
        results.len(),
        elapsed.as_secs_f64(),
        sum(true) + sum(false),
        sum(true),
        HOST_ONLY.join(", "),
        sum(false),
        failed.len(),
        if differing.is_empty() {
            "none".to_owned()
        } else {
            differing.join(", ")
        },
        list(kinds.iter().map(|(k, n)| format!("{k} {n}")).collect()),
        list(undecided),
        list(failed),
    )
}
