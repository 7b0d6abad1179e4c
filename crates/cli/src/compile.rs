//! `everwarp compile`: translates a WebAssembly module to PTX, or describes the module.

use std::path::{Path, PathBuf};
use std::time::Instant;

use everwarp::process::Module;
use everwarp_compiler::{CompileOptions, Compiled, Export, ImportKind, compile};
use serde::Serialize;

use crate::error::CliError;
use crate::output::{print, print_json, write_file};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A WebAssembly module (.wasm).
    module: PathBuf,
    /// What to write: ptx. Without this option the module is only described.
    #[arg(long, value_enum)]
    emit: Option<Emit>,
    /// The file to write, instead of standard output.
    #[arg(long, requires = "emit")]
    output: Option<PathBuf>,
    /// Round a product and a sum once, as `everwarp run --contract` does.
    #[arg(long, requires = "emit")]
    contract: bool,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "emit")]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Emit {
    Ptx,
}

/// The description of a module.
#[derive(Debug, Serialize)]
struct ModuleReport {
    module: PathBuf,
    bytes: usize,
    ptx_bytes: usize,
    compile_s: f64,
    /// The pages of 64 KiB at the start, and the maximum if the module declares one.
    memory_pages: Option<(u64, Option<u64>)>,
    start: bool,
    /// Whether the module starts threads.
    threads: bool,
    imports: Vec<NamedItem>,
    exports: Vec<NamedItem>,
}

/// An import or an export.
#[derive(Debug, Serialize)]
struct NamedItem {
    name: String,
    kind: String,
}

pub(crate) fn main(args: &Args) -> Result<(), CliError> {
    let unreadable = |source| CliError::Input {
        path: args.module.clone(),
        source,
    };
    let bytes = std::fs::read(&args.module).map_err(unreadable)?;
    let begin = Instant::now();
    let options = CompileOptions {
        threads: true,
        contract: args.contract,
        ..CompileOptions::default()
    };
    // The compiler takes more than an engine runs. A library may be compiled, though it cannot run.
    let name = args.module.display().to_string();
    let module = Module::library(name, bytes).map_err(|source| CliError::Module {
        path: args.module.clone(),
        source,
    })?;
    let compiled = compile(module.bytes(), &options).map_err(|source| CliError::Compile {
        path: args.module.clone(),
        source,
    })?;
    let compile_s = begin.elapsed().as_secs_f64();
    match (args.emit, &args.output) {
        (Some(Emit::Ptx), Some(path)) => {
            write_file(path, |out| out.write_all(compiled.ptx.as_bytes()))
        }
        (Some(Emit::Ptx), None) => print(compiled.ptx.trim_end()),
        (None, _) => {
            let report = ModuleReport {
                threads: module.threads().is_some_and(|threads| threads.spawns),
                ..report(&args.module, module.bytes().len(), compile_s, &compiled)
            };
            if args.json {
                print_json(&report)
            } else {
                print(&describe(&report))
            }
        }
    }
}

fn report(module: &Path, bytes: usize, compile_s: f64, compiled: &Compiled) -> ModuleReport {
    let imports = compiled.imports().iter().map(|i| NamedItem {
        name: format!("{}.{}", i.module, i.name),
        kind: match &i.kind {
            ImportKind::Function(ty) => ty.to_string(),
            ImportKind::Global { .. } => "global".to_owned(),
            ImportKind::Memory(limits) if limits.shared => "shared memory".to_owned(),
            ImportKind::Memory(_) => "memory".to_owned(),
            ImportKind::Table { .. } => "table".to_owned(),
            _ => "of another kind".to_owned(),
        },
    });
    let exports = compiled.exports().map(|(name, export)| NamedItem {
        name: name.to_owned(),
        kind: match export {
            Export::Function(f) => compiled.function_type(f).to_string(),
            Export::Global(_) => "global".to_owned(),
            Export::Memory => "memory".to_owned(),
            Export::Table(_) => "table".to_owned(),
            _ => "of another kind".to_owned(),
        },
    });
    ModuleReport {
        module: module.to_owned(),
        bytes,
        ptx_bytes: compiled.ptx.len(),
        compile_s,
        memory_pages: compiled.memory().map(|m| (m.min, m.max)),
        start: compiled.start().is_some(),
        threads: false,
        imports: imports.collect(),
        exports: exports.collect(),
    }
}

fn describe(r: &ModuleReport) -> String {
    let mut text = format!(
        "{}: {} bytes become {} bytes of PTX in {:.1} ms ({:.1} MB of WebAssembly a second)\n",
        r.module.display(),
        r.bytes,
        r.ptx_bytes,
        r.compile_s * 1e3,
        r.bytes as f64 / r.compile_s / 1e6
    );
    match r.memory_pages {
        Some((pages, Some(most))) => {
            text += &format!("memory: {pages} pages of 64 KiB, at most {most}\n")
        }
        Some((pages, None)) => text += &format!("memory: {pages} pages of 64 KiB\n"),
        None => text += "memory: none\n",
    }
    if r.threads {
        text += "threads: the module starts threads, which share its memory (`everwarp run --threads N` limits them)\n";
    }
    for (what, items) in [("imports", &r.imports), ("exports", &r.exports)] {
        text += &format!("{what}: {}\n", items.len());
        for item in items {
            // Names come from the module and must not control the terminal.
            text += &format!("  {}  {}\n", item.name.escape_debug(), item.kind);
        }
    }
    text + "`--emit ptx` writes the code, and `everwarp run` runs a command"
}
