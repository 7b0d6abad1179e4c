//! A module that has been checked: everything about it that does not depend on the other modules of its program.

use std::sync::Arc;

use everwarp_actor::{Field, MessageType};
use wasmparser::{
    ExternalKind, FuncType, Operator, Parser, Payload, TypeRef, ValType, Validator, WasmFeatures,
};

use crate::description::{Described, Description, SECTION};
use crate::error::ModuleError;
use crate::interface::{Import, Plain, Role, Service, Signature};
use crate::rewrite;

/// WebAssembly 2.0 with tail calls, extended constant expressions and pages of one byte. There is one memory of 32 bits.
const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::CUSTOM_PAGE_SIZES)
    .difference(WasmFeatures::GC_TYPES);

/// The most turns that handling a message may cause: what an engine has room for, without those of the turn itself.
const TURNS: u16 = 124;
/// The largest memory of an actor in bytes.
const MEMORY_LIMIT: u64 = 1 << 20;

/// A WebAssembly module that is a kind of actor. It has been validated; [`program_of`](crate::program_of) makes a program
/// of such modules.
#[derive(Clone, Debug)]
pub struct ActorModule {
    pub(crate) name: String,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) description: Description,
    /// The messages that it handles, without their tags.
    pub(crate) handles: Vec<Handled>,
    /// All functions that it exports for actors.
    pub(crate) exports: Vec<(Role, String, Signature)>,
    pub(crate) imports: Vec<Import>,
    /// Bytes of its memory.
    pub(crate) memory: u32,
    /// Its mutable globals.
    pub(crate) globals: Vec<u32>,
    /// Whether it exports `_initialize`.
    pub(crate) initializes: bool,
}

/// A message that a module handles.
#[derive(Clone, Debug)]
pub(crate) struct Handled {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
    pub(crate) reply: Vec<Field>,
    /// Whether the description names the fields.
    pub(crate) described: bool,
}

/// What is collected while the sections are read.
#[derive(Default)]
struct Reading {
    types: Vec<Option<FuncType>>,
    /// The type of each function.
    functions: Vec<u32>,
    /// Globals that are imported or not mutable count, too.
    globals: u32,
    memory: Option<u64>,
    memory_exported: bool,
}

impl ActorModule {
    /// Checks a module, whose kind gets this name.
    ///
    /// # Errors
    /// [`ModuleError`]: the module is not valid, or breaks a rule of the interface.
    pub fn new(name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Result<Self, ModuleError> {
        let mut module = Self {
            name: name.into(),
            bytes: bytes.into(),
            description: Description::default(),
            handles: Vec::new(),
            exports: Vec::new(),
            imports: Vec::new(),
            memory: 0,
            globals: Vec::new(),
            initializes: false,
        };
        let bytes = module.bytes.clone();
        let validated = Validator::new_with_features(FEATURES).validate_all(&bytes);
        validated.map_err(|e| module.invalid(e.to_string()))?;
        module.read(&bytes)?;
        Ok(module)
    }
    /// The name of its kind.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The messages that it handles. Their tags are given by the program.
    pub fn messages(&self) -> impl Iterator<Item = MessageType> {
        self.handles.iter().map(|message| MessageType {
            name: message.name.clone().into(),
            tag: 0,
            fields: message.fields.clone().into(),
            reply: message.reply.clone().into(),
        })
    }

    fn invalid(&self, problem: impl Into<String>) -> ModuleError {
        ModuleError::Invalid {
            module: self.name.clone(),
            problem: problem.into(),
        }
    }
    fn export_error(&self, export: &str, problem: impl Into<String>) -> ModuleError {
        ModuleError::Export {
            module: self.name.clone(),
            export: export.to_owned(),
            problem: problem.into(),
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), ModuleError> {
        let mut reading = Reading::default();
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(|e| self.invalid(e.to_string()))?;
            self.section(&mut reading, payload)
                .map_err(|problem| match problem {
                    Problem::Whole(error) => error,
                    Problem::Parse(error) => self.invalid(error.to_string()),
                })?;
        }
        if let Some(bytes) = reading.memory {
            if !reading.memory_exported {
                return Err(self.invalid("it has a memory but does not export it as `memory`"));
            }
            if bytes > MEMORY_LIMIT {
                return Err(self.invalid(format!(
                    "its memory has {bytes} bytes, and each of its actors would have as many: the limit is \
                     {MEMORY_LIMIT}; link it with a smaller stack, and with pages of one byte"
                )));
            }
            self.memory = bytes as u32;
        }
        let Description { sends, retries, .. } = self.description;
        if (sends + 1) * (retries + 1) > TURNS {
            return Err(ModuleError::Description {
                module: self.name.clone(),
                line: format!("retries {retries}"),
                problem: format!(
                    "a message may be handled {} times and send {sends} messages each time: the product of both numbers \
                     plus one is {TURNS} at most; lower `retries` or `sends`",
                    retries + 1
                ),
            });
        }
        let scratch = self.description.scratch;
        if scratch > self.memory {
            let memory = self.memory;
            return Err(ModuleError::Description {
                module: self.name.clone(),
                line: format!("scratch {scratch}"),
                problem: format!("the memory has {memory} bytes"),
            });
        }
        self.describe()
    }

    fn section(&mut self, reading: &mut Reading, payload: Payload<'_>) -> Result<(), Problem> {
        match payload {
            Payload::TypeSection(section) => {
                for ty in section.into_iter_err_on_gc_types() {
                    reading.types.push(Some(ty?));
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    self.import(reading, import.module, import.name, import.ty)?;
                }
            }
            Payload::FunctionSection(section) => {
                for ty in section {
                    reading.functions.push(ty?);
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    let memory = memory?;
                    let page = 1 << memory.page_size_log2.unwrap_or(16);
                    reading.memory = Some(memory.initial.saturating_mul(page));
                }
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    let ty = global?.ty;
                    if ty.mutable {
                        if matches!(ty.content_type, ValType::Ref(_)) {
                            let rule = "it has a variable that refers to a function: keep an index of a table instead";
                            return Err(self.invalid(rule).into());
                        }
                        self.globals.push(reading.globals);
                    }
                    reading.globals += 1;
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    self.export(reading, export.name, export.kind, export.index)?;
                }
            }
            Payload::StartSection { .. } => {
                let rule = "it has a start function: export it as `_initialize`";
                return Err(self.invalid(rule).into());
            }
            Payload::CodeSectionEntry(body) => {
                for operator in body.get_operators_reader()? {
                    self.operator(&operator?)?;
                }
            }
            Payload::CustomSection(section) if section.name() == SECTION => {
                let name = self.name.clone();
                self.description.read(&name, section.data())?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Actors of a kind share tables and segments, so code must not change them.
    fn operator(&self, operator: &Operator<'_>) -> Result<(), Problem> {
        let what = match operator {
            Operator::TableSet { .. }
            | Operator::TableGrow { .. }
            | Operator::TableFill { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. } => "changes a table",
            Operator::ElemDrop { .. } | Operator::DataDrop { .. } => "drops a segment",
            _ => return Ok(()),
        };
        let rule = format!("its code {what}, which the actors of a kind share");
        Err(self.invalid(rule).into())
    }

    fn import(
        &mut self,
        reading: &mut Reading,
        from: &str,
        name: &str,
        ty: TypeRef,
    ) -> Result<(), Problem> {
        let error = |problem: String| ModuleError::Import {
            module: self.name.clone(),
            import: format!("{from} {name}"),
            problem,
        };
        let TypeRef::Func(ty) = ty else {
            return Err(error("a handler imports functions only".into()).into());
        };
        reading.functions.push(ty);
        let Some(service) = Service::of(from) else {
            let known = Service::ALL.map(|(name, _)| name).join(", ");
            let rule = format!(
                "handlers have imports from {known}; files and streams are for processes, which send messages to actors"
            );
            return Err(error(rule).into());
        };
        let signature = reading.types[ty as usize].as_ref().and_then(Signature::of);
        let signature = signature.ok_or_else(|| error("its types must be numbers".into()))?;
        self.imports.push(Import {
            service,
            name: name.to_owned(),
            signature,
        });
        Ok(())
    }

    fn export(
        &mut self,
        reading: &mut Reading,
        name: &str,
        kind: ExternalKind,
        index: u32,
    ) -> Result<(), Problem> {
        if name.starts_with(rewrite::PREFIX) {
            return Err(self.export_error(name, "choose another name").into());
        }
        if kind == ExternalKind::Memory && name == "memory" {
            reading.memory_exported = true;
        }
        if kind != ExternalKind::Func {
            return Ok(());
        }
        let ty = reading.functions[index as usize] as usize;
        let signature = reading.types[ty].as_ref().and_then(Signature::of);
        if name == "_initialize" {
            if signature != Some(Signature::new(&[], &[])) {
                return Err(self
                    .export_error(name, "it takes nothing and returns nothing")
                    .into());
            }
            self.initializes = true;
        }
        let Some((role, message)) = Role::of(name) else {
            return Ok(());
        };
        if message.is_empty() {
            return Err(self.export_error(name, "the message has no name").into());
        }
        let Some(signature) = signature else {
            return Err(self.export_error(name, "its types must be numbers").into());
        };
        let fits = match role {
            Role::On => MessageType::fits(signature.params.len(), signature.results.len()),
            Role::Reply => {
                signature.params.first() == Some(&Plain::I32) && signature.results.is_empty()
            }
            Role::Failed => signature == Signature::new(&[Plain::I32, Plain::I32], &[]),
        };
        if !fits {
            let rule = match role {
                Role::On => {
                    "a message has up to 5 fields, or 4 fields and 4 results if it has a reply"
                }
                Role::Reply => {
                    "it takes the number of the ask (i32) and the reply's fields, and returns nothing"
                }
                Role::Failed => {
                    "it takes the number of the ask and the reason (i32 both), and returns nothing"
                }
            };
            return Err(self.export_error(name, rule).into());
        }
        self.exports.push((role, message.to_owned(), signature));
        Ok(())
    }

    /// Joins exports and description.
    fn describe(&mut self) -> Result<(), ModuleError> {
        let described = &self.description.messages;
        for Described { name, line, .. } in described {
            let exported = |(role, export, _): &&(Role, String, Signature)| {
                *role == Role::On && export == name
            };
            if self.exports.iter().find(exported).is_none() {
                return Err(ModuleError::Description {
                    module: self.name.clone(),
                    line: line.clone(),
                    problem: format!("the module does not export `on.{name}`"),
                });
            }
        }
        let mut handles = Vec::new();
        for (role, name, signature) in &self.exports {
            if *role != Role::On {
                continue;
            }
            let given = described.iter().find(|message| message.name == *name);
            let message = match given {
                None => Handled {
                    name: name.clone(),
                    fields: numbered(&signature.params),
                    reply: numbered(&signature.results),
                    described: false,
                },
                Some(given) => {
                    let plain = |fields: &[Field]| -> Vec<Plain> {
                        fields.iter().map(|f| Plain::carries(f.ty)).collect()
                    };
                    let wanted = Signature::new(&plain(&given.fields), &plain(&given.reply));
                    if wanted != *signature {
                        return Err(ModuleError::Description {
                            module: self.name.clone(),
                            line: given.line.clone(),
                            problem: format!(
                                "it asks for a handler {wanted}, but `on.{name}` is {signature}"
                            ),
                        });
                    }
                    Handled {
                        name: name.clone(),
                        fields: given.fields.clone(),
                        reply: given.reply.clone(),
                        described: true,
                    }
                }
            };
            handles.push(message);
        }
        if handles.is_empty() {
            return Err(self.invalid(
                "it handles no message: export a function `on.NAME` for each message NAME",
            ));
        }
        self.handles = handles;
        Ok(())
    }
}

/// Fields without names are called by their numbers.
fn numbered(types: &[Plain]) -> Vec<Field> {
    let fields = types.iter().enumerate();
    fields
        .map(|(i, ty)| Field {
            name: i.to_string().into(),
            ty: ty.field(),
        })
        .collect()
}

/// Why reading a section ended.
enum Problem {
    Whole(ModuleError),
    Parse(wasmparser::BinaryReaderError),
}
impl From<ModuleError> for Problem {
    fn from(error: ModuleError) -> Self {
        Self::Whole(error)
    }
}
impl From<wasmparser::BinaryReaderError> for Problem {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Parse(error)
    }
}
