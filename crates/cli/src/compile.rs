//! `everwarp compile`: translates a WebAssembly module to PTX or to images for GPUs, or describes the module.

mod image;

use std::path::{Path, PathBuf};
use std::time::Instant;

use everwarp::process::{ImageFile, Module};
use everwarp_compiler::{CompileOptions, Compiled, Export, ImportKind, LONG_FUNCTION, compile};
use serde::Serialize;

use crate::error::CliError;
use crate::output::{print, print_json, write_file};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A WebAssembly module (.wasm), or a file of images (.ewimg) with one.
    module: PathBuf,
    /// What to write: ptx (to standard output, if no file is named) or image, which is the module with machine code for
    /// GPUs. Without this option and --output the module is only described.
    #[arg(long, value_enum)]
    emit: Option<Emit>,
    /// The file to write. If its name ends in .ewimg, it is an image. `everwarp run` runs such a file.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// The architectures of an image.
    #[arg(
        long,
        value_name = "ARCH",
        value_delimiter = ',',
        default_value = "sm_80,sm_90,sm_100"
    )]
    #[arg(value_parser = image::architecture)]
    arch: Vec<u32>,
    /// Round a product and a sum once, as `everwarp run --contract` does.
    #[arg(long)]
    contract: bool,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "emit")]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Emit {
    Ptx,
    Image,
}

impl Args {
    /// What to write, by the option or the file's name.
    fn emit(&self) -> Result<Option<Emit>, CliError> {
        let named = self.output.as_deref().is_some_and(image::is_image);
        match (self.emit, &self.output) {
            (Some(Emit::Image), None) => Err(CliError::Missing {
                option: "--output",
                why: "an image is no text: name the file to write, such as tool.ewimg",
            }),
            (None, Some(_)) if named => Ok(Some(Emit::Image)),
            (None, Some(_)) => Err(CliError::Missing {
                option: "--emit",
                why: "say what to write, ptx or image; a file that ends in .ewimg is an image",
            }),
            (None, None) if self.contract => Err(CliError::Missing {
                option: "--emit",
                why: "--contract changes what is written, ptx or image",
            }),
            (emit, _) => Ok(emit),
        }
    }
}

/// The description of a module.
#[derive(Debug, Serialize)]
struct ModuleReport {
    module: PathBuf,
    bytes: usize,
    ptx_bytes: usize,
    compile_s: f64,
    /// About how long assembling takes on the cores of this machine, and for how long the largest function keeps one core busy.
    assemble_s: f64,
    assemble_largest_s: f64,
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
    let emit = args.emit()?;
    let bytes = std::fs::read(&args.module).map_err(unreadable)?;
    let (name, bytes) = match ImageFile::is(&bytes) {
        true => {
            let file = ImageFile::read(&bytes.into()).map_err(|source| CliError::Module {
                path: args.module.clone(),
                source,
            })?;
            (file.name, file.module.to_vec())
        }
        false => {
            let name = args.module.file_name().unwrap_or(args.module.as_os_str());
            (name.to_string_lossy().into_owned(), bytes)
        }
    };
    if emit == Some(Emit::Image) {
        let output = args.output.as_deref().expect("it was asked for");
        return image::write(args, name, bytes, output);
    }
    let begin = Instant::now();
    let options = CompileOptions {
        threads: true,
        contract: args.contract,
        divide: Some(LONG_FUNCTION),
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
    match (emit, &args.output) {
        (Some(Emit::Ptx), Some(path)) => {
            write_file(path, |out| out.write_all(compiled.ptx.as_bytes()))
        }
        (Some(Emit::Ptx), None) => print(compiled.ptx.trim_end()),
        (Some(Emit::Image) | None, _) => {
            let estimate = image::expected(&module, &compiled.ptx);
            let report = ModuleReport {
                assemble_s: estimate.on(image::cores()).as_secs_f64(),
                assemble_largest_s: estimate.longest.as_secs_f64(),
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
        assemble_s: 0.0,
        assemble_largest_s: 0.0,
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
    text += &format!(
        "assembling: about {:.1} s on the {} cores of this machine, and {:.1} s on any number of cores\n",
        r.assemble_s,
        image::cores(),
        r.assemble_largest_s
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
    text + "`--emit ptx` writes the code, `--output FILE.ewimg` images, and `everwarp run` runs a command"
}
