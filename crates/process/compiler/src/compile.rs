//! The driver: from a module's bytes to PTX, phase by phase.
//!
//! 1. [`read`] takes what the sections declare, and keeps the functions' bodies for later.
//! 2. [`Facts::find`] looks at all bodies before any text is written: which calls may suspend, and which are tail
//!    calls. What functions pass on to each other and where the parts of an instance are follows from that.
//! 3. [`write`] emits the declarations, the imports, the functions (on several threads, which validate them as well),
//!    and last what calls them.

use std::collections::BTreeSet;

use wasmparser::{Parser, Payload, ValidPayload, Validator, WasmFeatures};

use crate::compiled::Compiled;
use crate::context::Context;
use crate::divide::{Divided, Places, divide};
use crate::emit::body::Body;
use crate::emit::functions::{self, Function};
use crate::emit::{self, carried, image, indirect};
use crate::error::CompileError;
use crate::facts::calls::CallGraph;
use crate::facts::deep::Deep;
use crate::facts::first::reached;
use crate::facts::layout::InstanceLayout;
use crate::facts::limits;
use crate::facts::module::Module;
use crate::facts::options::{CompileOptions, ImportAction, ProvidedImport, Provider, action};
use crate::facts::referenced::Referenced;
use crate::facts::suspending::Suspending;
use crate::facts::tails::Tails;
use crate::facts::types::Convention;
use crate::facts::{self, names, waiting};
use crate::text::line;

/// The lines that begin a PTX file. All that an image needs is in PTX 7.5 for sm_80, which every driver
/// since CUDA 11.5 compiles for newer devices.
pub const PTX_HEAD: &str = ".version 7.5\n.target sm_80\n.address_size 64\n";

/// What a module may use, beyond which it is not valid.
const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::THREADS);

/// Compiles a module of WebAssembly 2.0 with tail calls and extended constants, and of the threads proposal where the
/// options allow it.
///
/// # Errors
/// The module is not valid, uses what is not supported, or has an import that cannot be what the options say.
pub fn compile(bytes: &[u8], options: &CompileOptions) -> Result<Compiled, CompileError> {
    compile_after(PTX_HEAD, bytes, options)
}

/// Compiles a module, without the lines that begin a file ([`PTX_HEAD`]): to join several in one image,
/// each under its own prefix.
///
/// # Errors
/// The same as those of [`compile`].
pub fn compile_part(bytes: &[u8], options: &CompileOptions) -> Result<Compiled, CompileError> {
    compile_after("", bytes, options)
}

/// The module that is compiled in place of this one, if functions of it are divided ([`CompileOptions::divide`]): any engine
/// runs it, and gives the same results.
pub fn divided(bytes: &[u8], options: &CompileOptions) -> Option<Vec<u8>> {
    let divided = divide(bytes, FEATURES, options.divide?)?;
    Some(divided.bytes)
}

/// Compiles a module; `head` comes first in the text.
fn compile_after(
    head: &str,
    bytes: &[u8],
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    let divided = options
        .divide
        .and_then(|most| divide(bytes, FEATURES, most));
    if let Some(Divided {
        bytes: divided,
        places,
    }) = divided
        && let Ok(compiled) = compile_module(head, &divided, options, places)
    {
        return Ok(compiled);
    }
    // Errors name places of the module as it is.
    compile_module(head, bytes, options, Places::default())
}

/// Compiles a module, after [`divide`].
fn compile_module(
    head: &str,
    bytes: &[u8],
    options: &CompileOptions,
    places: Places,
) -> Result<Compiled, CompileError> {
    let (mut module, functions) = read(bytes, options)?;
    let facts = Facts::find(&mut module, &functions, options)?;
    let sizes = body_sizes(&module, &functions);
    let only = chosen(options, &module, &facts, &sizes);
    let context = Context {
        module: &module,
        layout: &facts.layout,
        referenced: &facts.referenced,
        tails: &facts.tails,
        suspending: facts.suspending.as_ref(),
        deep: facts.deep.as_ref(),
        only: only.as_ref(),
        tables: !options.apart,
        prefix: &options.prefix,
    };
    let bodies = body_offsets(&module, &functions);
    let bodies = bodies.into_iter().map(|at| places.offset(at)).collect();
    let written = write(head, context, &facts, functions)?;
    let suspending = context.suspending;
    let save_need = suspending.map(|s| s.need(&facts.graph, &facts.referenced, &written.frames));
    Ok(Compiled {
        ptx: written.ptx,
        left_out: written.left_out,
        missing: written.missing,
        save_need: save_need.unwrap_or_default(),
        suspending: (0..module.functions.len() as u32)
            .map(|f| suspending.is_some_and(|s| s.function(f)))
            .collect(),
        prefix: options.prefix.clone(),
        entries: module.entries(),
        names: names::functions(&module),
        referenced: facts.referenced,
        graph: facts.graph,
        layout: facts.layout,
        module,
        bodies,
        sizes,
        places,
    })
}

/// The functions to compile; `None` if all are.
fn chosen(
    options: &CompileOptions,
    module: &Module,
    facts: &Facts<'_>,
    sizes: &[usize],
) -> Option<BTreeSet<u32>> {
    if !options.preempt || !facts.tails.is_empty() {
        return None;
    }
    let Some(first) = options.first else {
        return options.only.clone();
    };
    if sizes.iter().sum::<usize>() < first.least {
        return None;
    }
    let none = BTreeSet::new();
    let mut only = reached(&facts.graph, sizes, module.entries(), &none, first.most);
    only.extend(options.only.iter().flatten());
    Some(only)
}

/// Reads and validates all sections but the code, whose functions it returns.
fn read<'b>(
    bytes: &'b [u8],
    options: &CompileOptions,
) -> Result<(Module, Vec<Function<'b>>), CompileError> {
    let mut validator = Validator::new_with_features(FEATURES);
    let mut module = Module {
        threads: options.threads,
        interleaved: options.interleaved,
        contract: options.contract,
        ..Module::default()
    };
    let unsupported = |what: &str| CompileError::Unsupported {
        offset: 0,
        what: what.to_owned(),
    };
    let mut functions = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        if let ValidPayload::Func(func, body) = validator.payload(&payload)? {
            functions.push((func, body));
            continue;
        }
        if let Payload::Version { encoding, .. } = &payload
            && *encoding != wasmparser::Encoding::Module
        {
            return Err(unsupported("a component"));
        }
        module.read(&payload)?;
    }
    if options.interleaved && options.threads {
        return Err(unsupported("threads where memories are interleaved"));
    }
    Ok((module, functions))
}

/// What is known about a module, in addition to its declarations, before any text is written.
struct Facts<'o> {
    /// The functions that wait and notify, which follow the module's own.
    waiting: Vec<&'o ProvidedImport>,
    /// For each imported function what a call of it does.
    actions: Vec<ImportAction<'o>>,
    referenced: Referenced,
    graph: CallGraph,
    suspending: Option<Suspending>,
    deep: Option<Deep>,
    tails: Tails,
    layout: InstanceLayout,
}

impl<'o> Facts<'o> {
    /// Finds them. Adds to the module the functions that wait and notify, and what its functions pass on.
    fn find(
        module: &mut Module,
        functions: &[Function<'_>],
        options: &'o CompileOptions,
    ) -> Result<Self, CompileError> {
        let waiting = waiting::add(module, options)?;
        let referenced = Referenced::new(module);
        let actions = names::function_imports(module).map(|import| action(import, options));
        let actions = actions.collect::<Result<Vec<_>, _>>()?;
        let bodies = || functions.iter().map(|(_, body)| body);
        let mut graph = CallGraph::new(module, bodies());
        let suspending = Suspending::new(module, &referenced, options, &actions, &waiting, &graph);
        let own = module.imported_functions as u32..;
        let callers = own.zip(bodies());
        let callers = callers.filter(|(f, _)| graph.functions[*f as usize].tail);
        let tails = Tails::new(module, &referenced, callers);
        tails.add_to(&mut graph, module);
        if tails.is_empty() {
            module.convention = facts::carried::convention(module);
        }
        let within = |action: &ImportAction<'_>| match action {
            ImportAction::Call(provided) => provided.provider == Provider::Device,
            _ => true,
        };
        let may_be_deep =
            options.deep && options.preempt && tails.is_empty() && actions.iter().all(within);
        let deep = match may_be_deep {
            true => Deep::new(module, &graph, &referenced),
            false => None,
        };
        let layout = InstanceLayout::new(
            module,
            suspending.is_some(),
            tails.area_bytes(),
            deep.as_ref().map(Deep::bytes),
        );
        Ok(Self {
            waiting,
            actions,
            referenced,
            graph,
            suspending,
            deep,
            tails,
            layout,
        })
    }
}

/// For each function the offset of its body in the module's bytes; 0 for those that have none.
fn body_offsets(module: &Module, functions: &[Function<'_>]) -> Vec<usize> {
    let mut offsets = vec![0; module.imported_functions];
    offsets.extend(functions.iter().map(|(_, body)| body.range().start));
    offsets.resize(module.functions.len(), 0);
    offsets
}

/// For each function the bytes of its body; 0 for those that have none.
fn body_sizes(module: &Module, functions: &[Function<'_>]) -> Vec<usize> {
    let mut sizes = vec![0; module.imported_functions];
    sizes.extend(functions.iter().map(|(_, body)| body.range().len()));
    sizes.resize(module.functions.len(), 0);
    sizes
}

/// The text of a module, the functions that it lacks and their text, and for each function the most that it saves when it is suspended.
struct Written {
    ptx: String,
    left_out: String,
    missing: Vec<u32>,
    frames: Vec<usize>,
}

/// Emits all text, after `head`.
fn write(
    head: &str,
    context: Context<'_>,
    facts: &Facts<'_>,
    functions: Vec<Function<'_>>,
) -> Result<Written, CompileError> {
    let Context {
        module,
        tails,
        prefix,
        ..
    } = context;
    let mut frames = Vec::new();
    let mut head = String::from(head);
    head.push_str(&image::declarations(module, prefix));
    head.push_str(&tails.declarations(module, prefix));
    let mut imports = String::new();
    for &action in &facts.actions {
        write_import(&mut head, &mut imports, &mut frames, context, action);
    }
    let parts = functions::translate(context, functions)?;
    let (mut indirect, mut missing) = (BTreeSet::new(), Vec::new());
    for part in &parts {
        missing.extend(&part.missing);
        indirect.extend(&part.indirect);
        frames.extend(&part.frames);
    }
    let mut last = String::new();
    for &provided in &facts.waiting {
        let action = ImportAction::Call(provided);
        write_import(&mut head, &mut last, &mut frames, context, action);
    }
    for &(ty, table) in &indirect {
        let signature = indirect::signature(module, prefix, ty, table);
        line!(head, ".func {signature};");
    }
    head.push_str(&image::support(prefix, module.interleaved));
    last.push_str(&tails.functions(context));
    for call in indirect {
        last.push_str(&indirect::function(context, call));
    }
    last.push_str(&carried::outer_functions(context));
    if let (Some(deep), Some(record)) = (context.deep, emit::deep::Record::of(context)) {
        last.push_str(&emit::deep::functions(context, deep, record));
    }
    last.push_str(&image::entry(context));
    let mut texts = vec![head.as_str(), &imports];
    texts.extend(parts.iter().map(|part| part.texts.code.as_str()));
    texts.push(&last);
    let most = limits::MODULE_TEXT;
    let ptx = texts.concat();
    let left_out: Vec<_> = parts
        .iter()
        .map(|part| part.texts.left_out.as_str())
        .collect();
    let bytes = ptx.len() + left_out.iter().map(|text| text.len()).sum::<usize>();
    limits::check(0, "bytes of PTX for a module", bytes, most)?;
    Ok(Written {
        ptx,
        left_out: left_out.concat(),
        missing,
        frames,
    })
}

/// Emits the next imported function: its declaration, its code, and the frame that it saves.
fn write_import(
    declarations: &mut String,
    code: &mut String,
    frames: &mut Vec<usize>,
    context: Context<'_>,
    action: ImportAction<'_>,
) {
    let function = frames.len() as u32;
    if let ImportAction::Call(provided) = action
        && provided.provider == Provider::Device
    {
        let ty = context.module.function_type(function);
        let head = ty.signature(&provided.symbol, Convention::PLAIN);
        line!(declarations, ".extern .func {head};");
    }
    let (text, frame) = Body::new(context, function).import(action);
    code.push_str(&text);
    frames.push(frame);
}
