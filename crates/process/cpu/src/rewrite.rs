//! Replaces atomic waits and notifications by host calls.
//!
//! wasmtime's own `memory.atomic.wait32` blocks a thread of the system, and only a notification at the same address ends
//! it, so a waiting process could not be killed. Therefore the three instructions become calls of functions that the
//! module imports in addition to its own. Each call gets the instruction's operands and its constant offset.

use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    CodeSection, EntityType, ImportSection, Instruction, Module, TypeSection, ValType,
};
use wasmparser::{FunctionBody, ImportSectionReader, Operator, Parser, TypeSectionReader};

/// The module from which the added functions are imported. A module that itself imports from it is refused before.
pub(crate) const ADDED_MODULE: &str = "everwarp:threads";
/// Functions that are added after those that the module imports.
pub(crate) const ADDED_IMPORTS: u32 = 3;

const WAIT32: u32 = 0;
const WAIT64: u32 = 1;
const NOTIFY: u32 = 2;

/// The names of the added functions, in their order: a wait for each width, so that the operands stay as they are.
pub(crate) const ADDED_NAMES: [&str; ADDED_IMPORTS as usize] = ["wait32", "wait64", "notify"];

struct Rewriter {
    /// How many functions the module imports.
    imported: u32,
    /// How many types it has.
    types: u32,
}

type Result<T> = std::result::Result<T, Error>;

impl Reencode for Rewriter {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32> {
        Ok(match function < self.imported {
            true => function,
            false => function + ADDED_IMPORTS,
        })
    }

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: TypeSectionReader<'_>,
    ) -> Result<()> {
        utils::parse_type_section(self, types, section)?;
        self.types = types.len();
        let (i32, i64) = (ValType::I32, ValType::I64);
        types.ty().function([i32, i32, i64, i64], [i32]);
        types.ty().function([i32, i64, i64, i64], [i32]);
        types.ty().function([i32, i32, i64], [i32]);
        Ok(())
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> Result<()> {
        utils::parse_import_section(self, imports, section)?;
        for (ty, name) in (self.types..).zip(ADDED_NAMES) {
            imports.import(ADDED_MODULE, name, EntityType::Function(ty));
        }
        Ok(())
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<()> {
        let mut function = self.new_function_with_parsed_locals(&body)?;
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            let operator = reader.read()?;
            let call = match &operator {
                Operator::MemoryAtomicWait32 { memarg } => Some((WAIT32, memarg.offset)),
                Operator::MemoryAtomicWait64 { memarg } => Some((WAIT64, memarg.offset)),
                Operator::MemoryAtomicNotify { memarg } => Some((NOTIFY, memarg.offset)),
                _ => None,
            };
            match call {
                Some((added, offset)) => {
                    function.instruction(&Instruction::I64Const(offset as i64));
                    function.instruction(&Instruction::Call(self.imported + added));
                }
                None => {
                    function.instruction(&self.instruction(operator)?);
                }
            }
        }
        code.function(&function);
        Ok(())
    }
}

/// Rewrites a valid module that imports its memory and `imported` functions.
pub(crate) fn rewrite(bytes: &[u8], imported: u32) -> std::result::Result<Vec<u8>, String> {
    let mut module = Module::new();
    let mut rewriter = Rewriter { imported, types: 0 };
    rewriter
        .parse_core_module(&mut module, Parser::new(0), bytes)
        .map_err(|e| e.to_string())?;
    Ok(module.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewritten_functions_keep_names_and_call_targets() {
        let text = r#"(module
          (import "env" "memory" (memory 1 1 shared))
          (import "a" "b" (func $given))
          (func $first (call $given) (call $second) (drop (ref.func $second)))
          (func $second
            (drop (memory.atomic.wait32 offset=8 (i32.const 4) (i32.const 5) (i64.const 6)))
            (drop (memory.atomic.notify (i32.const 7) (i32.const 1))))
          (start $first) (export "s" (func $second)) (elem declare func $second))"#;
        let bytes = wat::parse_str(text).expect("the text is right");
        let rewritten = rewrite(&bytes, 1).expect("it can be rewritten");
        everwarp_process::validate_language(&rewritten).expect("it is valid");
        let expected = r#"(module
          (import "env" "memory" (memory 1 1 shared))
          (import "a" "b" (func $given))
          (import "everwarp:threads" "wait32" (func $wait32 (param i32 i32 i64 i64) (result i32)))
          (import "everwarp:threads" "wait64" (func (param i32 i64 i64 i64) (result i32)))
          (import "everwarp:threads" "notify" (func $notify (param i32 i32 i64) (result i32)))
          (func $first (call $given) (call $second) (drop (ref.func $second)))
          (func $second
            (drop (call $wait32 (i32.const 4) (i32.const 5) (i64.const 6) (i64.const 8)))
            (drop (call $notify (i32.const 7) (i32.const 1) (i64.const 0))))
          (start $first) (export "s" (func $second)) (elem declare func $second))"#;
        let expected = wat::parse_str(expected).expect("the text is right");
        assert_eq!(functions(&rewritten), functions(&expected));
        assert_eq!(
            names(&rewritten),
            [(0, "given"), (4, "first"), (5, "second")]
        );
    }

    /// The operators of each function of a module.
    fn functions(bytes: &[u8]) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for payload in Parser::new(0).parse_all(bytes) {
            if let wasmparser::Payload::CodeSectionEntry(body) = payload.expect("it is valid") {
                let reader = body.get_operators_reader().expect("it is valid");
                let operators = reader
                    .into_iter()
                    .map(|o| format!("{:?}", o.expect("valid")));
                all.push(operators.collect());
            }
        }
        all
    }

    fn names(bytes: &[u8]) -> Vec<(u32, &str)> {
        let mut found = Vec::new();
        for payload in Parser::new(0).parse_all(bytes) {
            let wasmparser::Payload::CustomSection(section) = payload.expect("it is valid") else {
                continue;
            };
            let wasmparser::KnownCustom::Name(names) = section.as_known() else {
                continue;
            };
            for part in names {
                if let wasmparser::Name::Function(map) = part.expect("it is valid") {
                    let pairs = map.into_iter().map(|n| n.expect("it is valid"));
                    found.extend(pairs.map(|n| (n.index, n.name)));
                }
            }
        }
        found
    }
}
