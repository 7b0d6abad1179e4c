//! What the translation reads from a module before it writes anything.

use std::collections::BTreeMap;

use wasmparser::{
    ConstExpr, DataKind, ElementItems, ElementKind, ExternalKind, FuncType, FunctionBody,
    KnownCustom, Name, Operator, Parser, Payload, TableInit, ValType,
};

/// The width of a value, which is all that its variable in CUDA C++ knows of its type: numbers are their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Width {
    W32,
    W64,
}

impl Width {
    /// The width of a number's type; vectors and references have none.
    pub(super) fn of(ty: ValType) -> Result<Self, String> {
        match ty {
            ValType::I32 | ValType::F32 => Ok(Self::W32),
            ValType::I64 | ValType::F64 => Ok(Self::W64),
            ValType::V128 => Err("it has vectors".to_owned()),
            ValType::Ref(_) => Err("it has variables that refer to functions".to_owned()),
        }
    }
    pub(super) const fn c(self) -> &'static str {
        match self {
            Self::W32 => "u32",
            Self::W64 => "u64",
        }
    }
}

/// A function's parameters and results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) params: Vec<Width>,
    pub(super) results: Vec<Width>,
}

#[derive(Clone, Debug)]
pub(super) struct Global {
    pub(super) width: Result<Width, String>,
    pub(super) mutable: bool,
    /// The value of one that does not change.
    pub(super) value: u64,
}

/// What a function does, as far as others have to know.
#[derive(Clone, Debug, Default)]
pub(super) struct Does {
    pub(super) operators: u32,
    /// Each call, with the called function.
    pub(super) calls: Vec<u32>,
    /// Each indirect call: the table and the type.
    pub(super) indirect: Vec<(u32, u32)>,
}

#[derive(Default)]
pub(super) struct Facts<'m> {
    pub(super) types: Vec<FuncType>,
    /// The type of each function; imports come first.
    pub(super) functions: Vec<u32>,
    pub(super) imported: u32,
    pub(super) bodies: Vec<FunctionBody<'m>>,
    pub(super) does: Vec<Does>,
    pub(super) globals: Vec<Global>,
    pub(super) tables: Vec<Vec<Option<u32>>>,
    /// Segments that code may copy from; those that are the memory's first content are empty.
    pub(super) data: Vec<&'m [u8]>,
    pub(super) page_bits: u32,
    pub(super) exports: BTreeMap<&'m str, u32>,
    pub(super) names: BTreeMap<u32, &'m str>,
}

impl<'m> Facts<'m> {
    /// Reads a module that has been validated.
    pub(super) fn read(bytes: &'m [u8]) -> Result<Self, String> {
        let mut facts = Self {
            page_bits: 16,
            ..Self::default()
        };
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(|e| e.to_string())?;
            facts.section(payload)?;
        }
        Ok(facts)
    }

    fn section(&mut self, payload: Payload<'m>) -> Result<(), String> {
        fn text(error: impl ToString) -> String {
            error.to_string()
        }
        match payload {
            Payload::TypeSection(section) => {
                for ty in section.into_iter_err_on_gc_types() {
                    self.types.push(ty.map_err(text)?);
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    if let wasmparser::TypeRef::Func(ty) = import.map_err(text)?.ty {
                        self.functions.push(ty);
                        self.imported += 1;
                    }
                }
            }
            Payload::FunctionSection(section) => {
                for ty in section {
                    self.functions.push(ty.map_err(text)?);
                }
            }
            Payload::TableSection(section) => {
                for table in section {
                    let table = table.map_err(text)?;
                    let first = match table.init {
                        TableInit::RefNull => None,
                        TableInit::Expr(expr) => self.function(&expr)?,
                    };
                    if table.ty.initial > TABLE_LIMIT {
                        let size = table.ty.initial;
                        return Err(format!(
                            "it has a table with {size} elements, and the limit there is {TABLE_LIMIT}"
                        ));
                    }
                    self.tables.push(vec![first; table.ty.initial as usize]);
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    self.page_bits = memory.map_err(text)?.page_size_log2.unwrap_or(16);
                }
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    let global = global.map_err(text)?;
                    let width = Width::of(global.ty.content_type);
                    let value = match width {
                        Ok(_) => self.number(&global.init_expr)?,
                        Err(_) => 0,
                    };
                    self.globals.push(Global {
                        width,
                        mutable: global.ty.mutable,
                        value,
                    });
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export.map_err(text)?;
                    if export.kind == ExternalKind::Func {
                        self.exports.insert(export.name, export.index);
                    }
                }
            }
            Payload::ElementSection(section) => {
                for segment in section {
                    let segment = segment.map_err(text)?;
                    let ElementKind::Active {
                        table_index,
                        offset_expr,
                    } = segment.kind
                    else {
                        continue;
                    };
                    let mut items = Vec::new();
                    match segment.items {
                        ElementItems::Functions(list) => {
                            for function in list {
                                items.push(Some(function.map_err(text)?));
                            }
                        }
                        ElementItems::Expressions(_, list) => {
                            for expr in list {
                                items.push(self.function(&expr.map_err(text)?)?);
                            }
                        }
                    }
                    let first = self.number(&offset_expr)? as u32 as usize;
                    let table = &mut self.tables[table_index.unwrap_or(0) as usize];
                    // They fit: wasmtime has instantiated the module.
                    for (at, item) in table.iter_mut().skip(first).zip(items) {
                        *at = item;
                    }
                }
            }
            Payload::DataSection(section) => {
                for segment in section {
                    let segment = segment.map_err(text)?;
                    self.data.push(match segment.kind {
                        DataKind::Passive => segment.data,
                        DataKind::Active { .. } => &[],
                    });
                }
            }
            Payload::CodeSectionEntry(body) => {
                self.does.push(does(&body).map_err(text)?);
                self.bodies.push(body);
            }
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(names) = section.as_known() {
                    self.read_names(names);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The names of functions.
    pub(super) fn named(&self) -> BTreeMap<u32, String> {
        let names = self.names.iter();
        names
            .map(|(&function, name)| (function, (*name).to_owned()))
            .collect()
    }
    /// Names are for messages only, so a section that is wrong has none.
    fn read_names(&mut self, section: wasmparser::NameSectionReader<'m>) {
        for part in section {
            let Ok(Name::Function(names)) = part else {
                continue;
            };
            for name in names.into_iter().flatten() {
                self.names.insert(name.index, name.name);
            }
        }
    }

    /// The bits of a constant number.
    fn number(&self, expr: &ConstExpr<'_>) -> Result<u64, String> {
        let mut stack = Vec::new();
        for operator in expr.get_operators_reader() {
            let operator = operator.map_err(|e| e.to_string())?;
            let mut two = || -> (u64, u64) {
                let b = stack.pop().unwrap_or(0);
                (stack.pop().unwrap_or(0), b)
            };
            let value = match operator {
                Operator::I32Const { value } => u64::from(value as u32),
                Operator::I64Const { value } => value as u64,
                Operator::F32Const { value } => u64::from(value.bits()),
                Operator::F64Const { value } => value.bits(),
                Operator::GlobalGet { global_index } => self.globals[global_index as usize].value,
                Operator::I32Add => {
                    let (a, b) = two();
                    u64::from((a as u32).wrapping_add(b as u32))
                }
                Operator::I32Sub => {
                    let (a, b) = two();
                    u64::from((a as u32).wrapping_sub(b as u32))
                }
                Operator::I32Mul => {
                    let (a, b) = two();
                    u64::from((a as u32).wrapping_mul(b as u32))
                }
                Operator::I64Add => {
                    let (a, b) = two();
                    a.wrapping_add(b)
                }
                Operator::I64Sub => {
                    let (a, b) = two();
                    a.wrapping_sub(b)
                }
                Operator::I64Mul => {
                    let (a, b) = two();
                    a.wrapping_mul(b)
                }
                Operator::End => break,
                other => return Err(format!("a constant has the operator {other:?}")),
            };
            stack.push(value);
        }
        Ok(stack.pop().unwrap_or(0))
    }

    /// The function of an element of a table.
    fn function(&self, expr: &ConstExpr<'_>) -> Result<Option<u32>, String> {
        let mut found = None;
        for operator in expr.get_operators_reader() {
            match operator.map_err(|e| e.to_string())? {
                Operator::RefFunc { function_index } => found = Some(function_index),
                Operator::RefNull { .. } | Operator::End => {}
                other => return Err(format!("a constant has the operator {other:?}")),
            }
        }
        Ok(found)
    }

    pub(super) fn shape_of_type(&self, ty: u32) -> Result<Shape, String> {
        let ty = &self.types[ty as usize];
        let widths = |types: &[ValType]| -> Result<Vec<Width>, String> {
            types.iter().map(|&ty| Width::of(ty)).collect()
        };
        Ok(Shape {
            params: widths(ty.params())?,
            results: widths(ty.results())?,
        })
    }
    pub(super) fn shape(&self, function: u32) -> Result<Shape, String> {
        self.shape_of_type(self.functions[function as usize])
    }
    /// What a function that is not imported does.
    pub(super) fn does(&self, function: u32) -> Option<&Does> {
        self.does.get(function.checked_sub(self.imported)? as usize)
    }
    /// The functions of a table that have a type, each once.
    pub(super) fn candidates(&self, table: u32, ty: u32) -> Vec<u32> {
        let wanted = &self.types[ty as usize];
        let elements = self.tables[table as usize].iter().flatten().copied();
        let mut found: Vec<u32> = elements
            .filter(|&f| self.types[self.functions[f as usize] as usize] == *wanted)
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
    /// The name of a function in messages.
    pub(super) fn name(&self, function: u32) -> Option<&'m str> {
        self.names.get(&function).copied()
    }
}

/// The largest table.
const TABLE_LIMIT: u64 = 4096;

fn does(body: &FunctionBody<'_>) -> wasmparser::Result<Does> {
    let mut does = Does::default();
    for operator in body.get_operators_reader()? {
        does.operators += 1;
        match operator? {
            Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
                does.calls.push(function_index);
            }
            Operator::CallIndirect {
                type_index,
                table_index,
            }
            | Operator::ReturnCallIndirect {
                type_index,
                table_index,
            } => does.indirect.push((table_index, type_index)),
            _ => {}
        }
    }
    Ok(does)
}
