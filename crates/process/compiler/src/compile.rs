//! From a module's bytes to PTX.

use std::collections::BTreeSet;

use wasmparser::{Parser, Payload, ValidPayload, Validator, WasmFeatures};

use crate::body::{Body, Context, line};
use crate::indirect::{self, Referenced};
use crate::layout::InstanceLayout;
use crate::module::{Export, Import, Limits, Module};
use crate::suspend::{SaveNeed, Suspending};
use crate::tail::Tails;
use crate::types::Convention;
use crate::{
    CompileError, FunctionType, TrapKind, ValueType, carried, functions, image, names, waiting,
};

/// How to compile.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    /// Begins every global name of the PTX, so that several modules can be one image.
    pub prefix: String,
    /// Imported functions, by module and name, whose calls do nothing.
    pub ignored_imports: Vec<(String, String)>,
    /// Imported functions that something else in the image provides. All that are in neither list trap
    /// when they are called.
    pub provided_imports: Vec<ProvidedImport>,
    /// Imports that say so ([`ProvidedImport::suspends`]) may suspend the instance that calls them.
    pub suspendable: bool,
    /// The instance may also be suspended at every safepoint, by [`YIELD`](crate::YIELD) or by the
    /// `slice` of its [`DevSuspension`](crate::DevSuspension). Implies `suspendable`.
    pub preempt: bool,
    /// The module may use the threads proposal: atomic instructions, and a memory that instances share.
    pub threads: bool,
    /// The memories of 32 instances are interleaved in units of [`UNIT`](crate::UNIT) bytes, so that lanes of a warp
    /// which access the same address access neighbours: see [the crate](crate#interleaved-memories). Not with
    /// `threads`.
    pub interleaved: bool,
    /// A product and the sum or the difference that it goes into may be rounded once, as a fused multiply-add, where
    /// WebAssembly rounds twice. CUDA C++ does so unless told otherwise. Results may then differ from those of other
    /// engines in their last bits, and from one version of the driver's compiler to the next.
    pub contract: bool,
}

/// An imported function that something else in the image provides.
#[derive(Clone, Debug)]
pub struct ProvidedImport {
    /// The module that it is imported from.
    pub module: String,
    /// The imported name.
    pub name: String,
    /// The function in the image, which takes and gives what a compiled function of the import's type does.
    pub symbol: String,
    /// Who provides it.
    pub provider: Provider,
    /// Whether it may suspend its caller, by returning [`SUSPENDED`](crate::SUSPENDED). Of a function of
    /// another module it must be what [`Compiled::may_suspend`] says there.
    pub suspends: bool,
}

/// Who provides an imported function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Device code, linked from elsewhere. It is called with the block of the instance that imports.
    Device,
    /// Another module, joined in the same file before this one. It is called with the block of its own
    /// instance: see [`Link::provider`](crate::Link::provider).
    Module,
}

/// What becomes of a call of an imported function.
#[derive(Clone, Copy)]
pub(crate) enum ImportAction<'o> {
    Trap,
    Ignore,
    Call(&'o ProvidedImport),
}

/// A compiled module.
#[derive(Debug)]
pub struct Compiled {
    /// The code, from the `.version` line to the kernel.
    pub ptx: String,
    /// Where the parts of an instance lie.
    pub layout: InstanceLayout,
    pub(crate) module: Module,
    entries: Vec<u32>,
    prefix: String,
    referenced: Referenced,
    names: Vec<Option<String>>,
    /// Offset of each function's body in the module's bytes; 0 for imports.
    bodies: Vec<usize>,
    /// For each function whether it may be suspended.
    suspending: Vec<bool>,
    save_need: SaveNeed,
}

/// The lines that begin a PTX file. All that an image needs is in PTX 7.5 for sm_80, which every driver
/// since CUDA 11.5 compiles for newer devices.
pub const PTX_HEAD: &str = ".version 7.5\n.target sm_80\n.address_size 64\n";

/// What a module may use, beyond which it is not valid.
const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::THREADS);

/// Compiles a module of WebAssembly 2.0 with tail calls and extended constants, and of the threads proposal where the options allow it.
pub fn compile(bytes: &[u8], options: &CompileOptions) -> Result<Compiled, CompileError> {
    compile_behind(PTX_HEAD, bytes, options)
}

/// Compiles a module, without the lines that begin a file ([`PTX_HEAD`]): to join several in one image,
/// each under its own prefix.
pub fn compile_part(bytes: &[u8], options: &CompileOptions) -> Result<Compiled, CompileError> {
    compile_behind("", bytes, options)
}

/// Compiles a module; this text comes first.
fn compile_behind(
    head: &str,
    bytes: &[u8],
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    let prefix = options.prefix.as_str();
    let mut validator = Validator::new_with_features(FEATURES);
    let mut module = Module {
        threads: options.threads,
        interleaved: options.interleaved,
        contract: options.contract,
        ..Module::default()
    };
    let mut bodies = Vec::new();
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
            let what = "a component".to_owned();
            return Err(CompileError::Unsupported { offset: 0, what });
        }
        module.read(&payload)?;
    }
    if options.interleaved && options.threads {
        let what = "threads where memories are interleaved".to_owned();
        return Err(CompileError::Unsupported { offset: 0, what });
    }
    let waiting = waiting::add(&mut module, options)?;
    let referenced = Referenced::new(&module);
    let actions = names::function_imports(&module).map(|import| action(import, options));
    let actions = actions.collect::<Result<Vec<_>, _>>()?;
    let own = functions.iter().map(|(_, body)| body);
    let suspending = Suspending::new(&module, &referenced, options, &actions, own, &waiting);
    let suspending = suspending.as_ref();
    let tails = Tails::new(&module, &referenced, functions.iter().map(|(_, body)| body));
    if tails.is_empty() {
        module.convention = carried::convention(&module);
    }
    let layout = InstanceLayout::new(&module, suspending.is_some(), tails.area_bytes());
    let context = Context {
        module: &module,
        layout: &layout,
        referenced: &referenced,
        tails: &tails,
        suspending,
        prefix,
    };
    let mut code = String::new();
    let mut frames = Vec::new();
    let mut head = String::from(head);
    head.push_str(&image::declarations(&module, prefix));
    head.push_str(&tails.declarations(&module, prefix));
    for (function, action) in actions.into_iter().enumerate() {
        frames.push(import(&mut head, &mut code, context, function, action));
        bodies.push(0);
    }
    bodies.extend(functions.iter().map(|(_, body)| body.range().start));
    let parts = functions::translate(context, functions)?;
    let mut indirect = BTreeSet::new();
    for part in &parts {
        indirect.extend(&part.indirect);
        frames.extend(&part.frames);
    }
    let mut last = String::new();
    for provided in waiting {
        let action = ImportAction::Call(provided);
        let function = frames.len();
        frames.push(import(&mut head, &mut last, context, function, action));
        bodies.push(0);
    }
    for &(ty, table) in &indirect {
        line!(
            head,
            ".func {};",
            indirect::signature(&module, prefix, ty, table)
        );
    }
    head.push_str(&image::support(prefix, module.interleaved));
    last.push_str(&tails.functions(context));
    for call in indirect {
        last.push_str(&indirect::function(context, call));
    }
    last.push_str(&carried::outer_functions(context));
    last.push_str(&image::entry(context));
    let of_functions = parts.iter().map(|part| part.code.as_str());
    let texts = [head.as_str(), &code].into_iter().chain(of_functions);
    let texts: Vec<_> = texts.chain([last.as_str()]).collect();
    let ptx = texts.concat();
    let need = |s: &Suspending| s.need(&referenced, &frames);
    Ok(Compiled {
        ptx,
        save_need: suspending.map(need).unwrap_or_default(),
        suspending: (0..module.functions.len() as u32)
            .map(|f| suspending.is_some_and(|s| s.function(f)))
            .collect(),
        prefix: options.prefix.clone(),
        referenced,
        entries: image::entries(&module),
        names: names::functions(&module),
        layout,
        module,
        bodies,
    })
}

/// Translates a function that is imported: its declaration, its code, and the frame that it saves.
fn import(
    declarations: &mut String,
    code: &mut String,
    context: Context<'_>,
    function: usize,
    action: ImportAction<'_>,
) -> usize {
    if let ImportAction::Call(provided) = action
        && provided.provider == Provider::Device
    {
        let ty = context.module.function_type(function as u32);
        let head = ty.signature(&provided.symbol, Convention::PLAIN);
        line!(declarations, ".extern .func {head};");
    }
    let (text, frame) = Body::new(context, function as u32).import(action);
    code.push_str(&text);
    frame
}

/// What the options provide under a name.
pub(crate) fn provided<'o>(
    options: &'o CompileOptions,
    module: &str,
    name: &str,
) -> Result<Option<&'o ProvidedImport>, CompileError> {
    let mut all = options.provided_imports.iter();
    let found = all.find(|p| p.module == module && p.name == name);
    if found.is_some_and(|p| p.suspends) && !options.suspendable && !options.preempt {
        return Err(CompileError::NotSuspendable {
            module: module.to_owned(),
            name: name.to_owned(),
        });
    }
    Ok(found)
}

fn action<'o>(
    import: &Import,
    options: &'o CompileOptions,
) -> Result<ImportAction<'o>, CompileError> {
    let is = |module: &str, name: &str| *module == import.module && *name == import.name;
    if let Some(provided) = provided(options, &import.module, &import.name)? {
        return Ok(ImportAction::Call(provided));
    }
    if !options.ignored_imports.iter().any(|(m, n)| is(m, n)) {
        return Ok(ImportAction::Trap);
    }
    match &import.kind {
        crate::ImportKind::Function(ty) if !ty.results.is_empty() => {
            Err(CompileError::IgnoredImportHasResults {
                module: import.module.clone(),
                name: import.name.clone(),
            })
        }
        _ => Ok(ImportAction::Ignore),
    }
}

impl Compiled {
    /// What the module exports, in its order.
    pub fn exports(&self) -> impl Iterator<Item = (&str, Export)> {
        self.module.exports.iter().map(|(n, e)| (n.as_str(), *e))
    }

    /// What an export names.
    pub fn export(&self, name: &str) -> Option<Export> {
        self.exports().find(|(n, _)| *n == name).map(|(_, e)| e)
    }

    /// What the module imports, in its order.
    pub fn imports(&self) -> &[Import] {
        &self.module.imports
    }

    /// The number under which the kernel knows a function, if the host may call it: an exported
    /// function, or the start function.
    pub fn entry(&self, function: u32) -> Option<u32> {
        let at = self.entries.binary_search(&function).ok()?;
        Some(at as u32)
    }

    /// Whether a call of a function may end before it returns, to be resumed.
    pub fn may_suspend(&self, function: u32) -> bool {
        let found = self.suspending.get(function as usize);
        found.is_some_and(|suspends| *suspends)
    }

    /// The largest frame that is saved while an instance is suspended, in bytes; 0 if it cannot be. Only
    /// functions that are on the stack then, and can be suspended, save one.
    pub fn largest_frame(&self) -> u64 {
        self.save_need.largest
    }

    /// How many bytes a save area must have, so that every suspension fits in it when calls may nest this
    /// deep: the frames of the longest chain of calls, or where calls can go in a circle as many of the
    /// largest.
    pub fn save_bytes(&self, depth: u32) -> u64 {
        // One more than the depth: a function that calls nothing does not count.
        let deepest = (u64::from(depth) + 1) * self.save_need.largest;
        let longest = self.save_need.longest.unwrap_or(deepest);
        deepest.min(longest)
    }

    /// The start function, which must be called once before any other.
    pub fn start(&self) -> Option<u32> {
        self.module.start
    }

    /// The type of a function.
    pub fn function_type(&self, function: u32) -> &FunctionType {
        self.module.function_type(function)
    }

    /// Type and mutability of a global.
    pub fn global_type(&self, global: u32) -> (ValueType, bool) {
        let global = &self.module.globals[global as usize];
        (global.ty, global.mutable)
    }

    /// The declared size of the memory, if there is one.
    pub fn memory(&self) -> Option<Limits> {
        self.module.memory
    }

    /// Whether it runs with interleaved memories ([`CompileOptions::interleaved`]).
    pub fn interleaved(&self) -> bool {
        self.module.interleaved
    }

    /// How many tables there are, imported ones included.
    pub fn table_count(&self) -> u32 {
        self.module.tables.len() as u32
    }

    /// Element type and declared size of a table.
    pub fn table(&self, table: u32) -> (ValueType, Limits) {
        let table = &self.module.tables[table as usize];
        (table.ty, table.limits)
    }

    /// The reference to a function, as globals and tables hold it. Only functions that are exported, in
    /// an element segment or in a global's initial value can be referred to.
    pub(crate) fn reference(&self, function: u32) -> u64 {
        self.referenced.reference(&self.module, function)
    }

    /// The function that a reference names. Zero, the null reference, names none.
    pub fn referenced_function(&self, reference: u64) -> Option<u32> {
        self.referenced.function(reference)
    }

    /// The name of a function in the image, for another module to import it.
    pub fn symbol(&self, function: u32) -> String {
        if self.module.convention == Convention::PLAIN {
            return format!("{}f{function}", self.prefix);
        }
        carried::outer_name(&self.prefix, function)
    }

    /// What a function is called, if the module says so.
    pub fn function_name(&self, function: u32) -> Option<&str> {
        self.names.get(function as usize)?.as_deref()
    }

    /// A trap for people: what, in which function, and how far behind the beginning of its body.
    pub fn describe_trap(&self, trap: TrapKind, function: u32, offset: u32) -> String {
        let body = self.bodies.get(function as usize).copied().unwrap_or(0);
        let distance = (offset as usize).saturating_sub(body);
        match self.function_name(function) {
            Some(name) => format!("{trap} in `{name}` +{distance:#x}"),
            None => format!("{trap} in function {function} +{distance:#x}"),
        }
    }
}
