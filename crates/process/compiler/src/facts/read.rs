//! Reads what a module declares, section by section.

use wasmparser::{DataKind, ElementItems, ElementKind, Operator, Payload, TypeRef};

use crate::error::CompileError;
use crate::facts::abi::PAGE;
use crate::facts::features::operator_name;
use crate::facts::module::{
    Constant, Data, Elements, Export, Global, Import, ImportKind, Limits, Module, Placement, Step,
    Table,
};
use crate::facts::names;
use crate::facts::types::{FunctionType, ValueType};

impl Module {
    /// Takes what one section declares. The payload has been validated.
    pub(crate) fn read(&mut self, payload: &Payload<'_>) -> Result<(), CompileError> {
        match payload {
            Payload::TypeSection(section) => {
                let mut offset = section.original_position();
                for group in section.clone() {
                    for ty in group?.into_types() {
                        self.add_type(&ty, offset)?;
                    }
                    offset = section.range().end;
                }
            }
            Payload::ImportSection(section) => {
                for import in section.clone().into_imports_with_offsets() {
                    let (offset, import) = import?;
                    self.add_import(&import, offset)?;
                }
            }
            Payload::FunctionSection(section) => {
                for ty in section.clone() {
                    self.functions.push(ty?);
                }
            }
            Payload::TableSection(section) => {
                for entry in section.clone().into_iter_with_offsets() {
                    let (offset, table) = entry?;
                    let table = read_table(&table.ty, offset)?;
                    self.tables.push(table);
                }
            }
            Payload::MemorySection(section) => {
                for entry in section.clone().into_iter_with_offsets() {
                    let (offset, memory) = entry?;
                    let memory = self.read_memory(&memory, offset)?;
                    let fixed = !memory.shared && memory.max == Some(memory.min);
                    self.fixed_memory = fixed.then_some(memory.min * PAGE);
                    self.memory = Some(memory);
                }
            }
            Payload::GlobalSection(section) => {
                for entry in section.clone().into_iter_with_offsets() {
                    let (offset, global) = entry?;
                    let init = Some(self.read_constant(&global.init_expr)?);
                    self.globals.push(Global {
                        ty: ValueType::new(global.ty.content_type, offset)?,
                        mutable: global.ty.mutable,
                        init,
                    });
                }
            }
            Payload::ExportSection(section) => {
                for entry in section.clone().into_iter_with_offsets() {
                    let (offset, export) = entry?;
                    self.add_export(&export, offset)?;
                }
            }
            Payload::StartSection { func, .. } => self.start = Some(*func),
            Payload::ElementSection(section) => {
                for element in section.clone() {
                    let element = self.read_elements(&element?)?;
                    self.elements.push(element);
                }
            }
            Payload::DataSection(section) => {
                for data in section.clone() {
                    let data = data?;
                    let place = match &data.kind {
                        DataKind::Passive => Placement::Passive,
                        DataKind::Active { offset_expr, .. } => Placement::Active {
                            table: 0,
                            offset: self.read_constant(offset_expr)?,
                        },
                    };
                    let bytes = data.data.to_vec();
                    self.data.push(Data { place, bytes });
                }
            }
            Payload::CustomSection(section) => {
                if let wasmparser::KnownCustom::Name(names) = section.as_known() {
                    names::read(names, &mut self.names);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn read_memory(
        &self,
        ty: &wasmparser::MemoryType,
        offset: usize,
    ) -> Result<Limits, CompileError> {
        if ty.shared && !self.threads {
            let what = "a shared memory".to_owned();
            return Err(CompileError::Unsupported { offset, what });
        }
        Ok(Limits {
            min: ty.initial,
            max: ty.maximum,
            shared: ty.shared,
        })
    }

    fn add_type(&mut self, ty: &wasmparser::SubType, offset: usize) -> Result<(), CompileError> {
        let wasmparser::CompositeInnerType::Func(func) = &ty.composite_type.inner else {
            let what = format!("the type {ty}");
            return Err(CompileError::Unsupported { offset, what });
        };
        let read = |types: &[wasmparser::ValType]| {
            let types = types.iter().map(|t| ValueType::new(*t, offset));
            types.collect::<Result<Vec<_>, _>>()
        };
        let ty = FunctionType {
            params: read(func.params())?,
            results: read(func.results())?,
        };
        self.push_type(ty);
        Ok(())
    }

    /// Adds a type, and returns its number.
    pub(crate) fn push_type(&mut self, ty: FunctionType) -> u32 {
        let first = self.types.iter().position(|t| *t == ty);
        let own = self.types.len();
        self.canonical.push(first.unwrap_or(own) as u32);
        self.types.push(ty);
        own as u32
    }

    fn add_import(
        &mut self,
        import: &wasmparser::Import<'_>,
        offset: usize,
    ) -> Result<(), CompileError> {
        let kind = match import.ty {
            TypeRef::Func(ty) => {
                self.functions.push(ty);
                self.imported_functions += 1;
                ImportKind::Function(self.types[ty as usize].clone())
            }
            TypeRef::Table(ty) => {
                let table = read_table(&ty, offset)?;
                let (ty, limits) = (table.ty, table.limits);
                self.tables.push(table);
                ImportKind::Table { ty, limits }
            }
            TypeRef::Memory(ty) => {
                let limits = self.read_memory(&ty, offset)?;
                self.memory = Some(limits);
                ImportKind::Memory(limits)
            }
            TypeRef::Global(global) => {
                let ty = ValueType::new(global.content_type, offset)?;
                let mutable = global.mutable;
                let init = None;
                self.globals.push(Global { ty, mutable, init });
                ImportKind::Global { ty, mutable }
            }
            TypeRef::Tag(_) | TypeRef::FuncExact(_) => {
                let what = format!("the import {}.{}", import.module, import.name);
                return Err(CompileError::Unsupported { offset, what });
            }
        };
        self.imports.push(Import {
            module: import.module.to_owned(),
            name: import.name.to_owned(),
            kind,
            offset,
        });
        Ok(())
    }

    fn add_export(
        &mut self,
        export: &wasmparser::Export<'_>,
        offset: usize,
    ) -> Result<(), CompileError> {
        use wasmparser::ExternalKind;
        let what = match export.kind {
            ExternalKind::Func => Export::Function(export.index),
            ExternalKind::Table => Export::Table(export.index),
            ExternalKind::Memory => Export::Memory,
            ExternalKind::Global => Export::Global(export.index),
            ExternalKind::Tag | ExternalKind::FuncExact => {
                let what = format!("the export {}", export.name);
                return Err(CompileError::Unsupported { offset, what });
            }
        };
        self.exports.push((export.name.to_owned(), what));
        Ok(())
    }
}

fn read_table(ty: &wasmparser::TableType, offset: usize) -> Result<Table, CompileError> {
    Ok(Table {
        ty: ValueType::new(wasmparser::ValType::Ref(ty.element_type), offset)?,
        limits: Limits {
            min: ty.initial,
            max: ty.maximum,
            shared: ty.shared,
        },
    })
}

impl Module {
    fn read_elements(
        &mut self,
        element: &wasmparser::Element<'_>,
    ) -> Result<Elements, CompileError> {
        let place = match &element.kind {
            ElementKind::Passive => Placement::Passive,
            ElementKind::Declared => Placement::Declared,
            ElementKind::Active {
                table_index,
                offset_expr,
            } => Placement::Active {
                table: table_index.unwrap_or(0),
                offset: self.read_constant(offset_expr)?,
            },
        };
        let mut items = Vec::new();
        match &element.items {
            ElementItems::Functions(section) => {
                for function in section.clone() {
                    items.push(Constant::Function(function?));
                }
            }
            ElementItems::Expressions(_, section) => {
                for expression in section.clone() {
                    items.push(self.read_constant(&expression?)?);
                }
            }
        }
        Ok(Elements { place, items })
    }

    /// Reads a constant expression: mostly one instruction and `end`.
    fn read_constant(
        &mut self,
        expression: &wasmparser::ConstExpr<'_>,
    ) -> Result<Constant, CompileError> {
        let mut reader = expression.get_operators_reader();
        let mut steps = Vec::new();
        loop {
            let (operator, offset) = reader.read_with_offset()?;
            steps.push(match operator {
                Operator::I32Const { value } => bits(value as u32),
                Operator::I64Const { value } => bits(value as u64),
                Operator::F32Const { value } => bits(value.bits()),
                Operator::F64Const { value } => bits(value.bits()),
                Operator::V128Const { value } => bits(value.i128() as u128),
                Operator::RefNull { .. } => bits(0u32),
                Operator::RefFunc { function_index } => {
                    Step::Push(Constant::Function(function_index))
                }
                Operator::GlobalGet { global_index } => Step::Push(Constant::Global(global_index)),
                Operator::I32Add => Step::Add(32),
                Operator::I32Sub => Step::Sub(32),
                Operator::I32Mul => Step::Mul(32),
                Operator::I64Add => Step::Add(64),
                Operator::I64Sub => Step::Sub(64),
                Operator::I64Mul => Step::Mul(64),
                Operator::End => break,
                other => {
                    let what = format!("{} in a constant expression", operator_name(&other));
                    return Err(CompileError::Unsupported { offset, what });
                }
            });
        }
        if let [Step::Push(constant)] = steps[..] {
            return Ok(constant);
        }
        self.computed.push(steps);
        Ok(Constant::Computed(self.computed.len() as u32 - 1))
    }
}

fn bits(value: impl Into<u128>) -> Step {
    Step::Push(Constant::Bits(value.into()))
}
