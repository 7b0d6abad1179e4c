//! Lets a module mark the functions that are called.
//!
//! The module gets one more memory, with a byte for each of its own functions, and each function sets its byte first.

use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    CodeSection, ExportKind, ExportSection, Instruction, MemArg, MemorySection, MemoryType, Module,
};
use wasmparser::{ExportSectionReader, FunctionBody, MemorySectionReader, Parser, Payload};

/// The name under which the memory of marks is exported.
pub(crate) const MARKS: &str = "everwarp:marks";
/// The bytes of a page of memory.
const PAGE: u64 = 1 << 16;

/// A module whose functions mark themselves.
pub(crate) struct Marking {
    pub(crate) bytes: Vec<u8>,
    /// How many functions the module imports; its own follow.
    imported: u32,
}

/// Writes the module anew.
struct Marker {
    functions: u32,
    /// The number of the memory of marks: the module has one of its own.
    memory: u32,
    /// The next function of the code section, from 0.
    next: u32,
}

type Result<T> = std::result::Result<T, Error>;

impl Reencode for Marker {
    type Error = std::convert::Infallible;

    fn parse_memory_section(
        &mut self,
        memories: &mut MemorySection,
        section: MemorySectionReader<'_>,
    ) -> Result<()> {
        utils::parse_memory_section(self, memories, section)?;
        self.memory = memories.len();
        memories.memory(MemoryType {
            minimum: u64::from(self.functions).div_ceil(PAGE),
            maximum: None,
            memory64: false,
            shared: false,
            page_size_log2: None,
        });
        Ok(())
    }

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        section: ExportSectionReader<'_>,
    ) -> Result<()> {
        utils::parse_export_section(self, exports, section)?;
        exports.export(MARKS, ExportKind::Memory, self.memory);
        Ok(())
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<()> {
        let mut function = self.new_function_with_parsed_locals(&body)?;
        function.instruction(&Instruction::I32Const(0));
        function.instruction(&Instruction::I32Const(1));
        function.instruction(&Instruction::I32Store8(MemArg {
            offset: self.next.into(),
            align: 0,
            memory_index: self.memory,
        }));
        self.next += 1;
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            function.instruction(&self.instruction(reader.read()?)?);
        }
        code.function(&function);
        Ok(())
    }
}

/// How many functions a module imports, and how many it has itself; `None` if it has no memory of its own alone.
fn count(bytes: &[u8]) -> Option<(u32, u32)> {
    let (mut imported, mut own, mut memories) = (0, 0, 0);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.ok()? {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    match import.ok()?.ty {
                        wasmparser::TypeRef::Func(_) | wasmparser::TypeRef::FuncExact(_) => {
                            imported += 1;
                        }
                        wasmparser::TypeRef::Memory(_) => return None,
                        _ => {}
                    }
                }
            }
            Payload::MemorySection(section) => memories = section.count(),
            Payload::FunctionSection(section) => own = section.count(),
            _ => {}
        }
    }
    (memories > 0).then_some((imported, own))
}

impl Marking {
    /// A valid module with marks; `None` if it has no memory of its own, as one whose threads share it.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let (imported, functions) = count(bytes)?;
        let mut marker = Marker {
            functions,
            memory: 0,
            next: 0,
        };
        let mut module = Module::new();
        let written = marker.parse_core_module(&mut module, Parser::new(0), bytes);
        written.ok().map(|()| Self {
            bytes: module.finish(),
            imported,
        })
    }

    /// The functions that have marked themselves in this memory.
    pub(crate) fn called<'m>(&self, marks: &'m [u8]) -> impl Iterator<Item = u32> + use<'m> {
        let marked = (self.imported..).zip(marks);
        marked.filter(|(_, mark)| **mark != 0).map(|(f, _)| f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn functions_set_their_bytes_in_a_memory_of_their_own() {
        let text = r#"(module
          (import "a" "b" (func $given))
          (memory (export "memory") 1)
          (func $first (export "_start") (local i64) (call $given) (call $second))
          (func $second))"#;
        let bytes = wat::parse_str(text).expect("the text is right");
        let marking = Marking::of(&bytes).expect("it has a memory");
        let expected = r#"(module
          (import "a" "b" (func $given))
          (memory (export "memory") 1)
          (memory (export "everwarp:marks") 1)
          (func $first (export "_start") (local i64) (i32.store8 1 (i32.const 0) (i32.const 1)) (call $given) (call $second))
          (func $second (i32.store8 1 offset=1 (i32.const 0) (i32.const 1))))"#;
        let expected = wat::parse_str(expected).expect("the text is right");
        let code = |bytes: &[u8]| -> Vec<String> {
            let payloads = Parser::new(0).parse_all(bytes);
            let bodies = payloads.filter_map(|payload| match payload.expect("it is valid") {
                Payload::CodeSectionEntry(body) => Some(body),
                _ => None,
            });
            let operators = bodies.map(|body| {
                let reader = body.get_operators_reader().expect("it is valid");
                format!("{:?}", reader.into_iter().collect::<Vec<_>>())
            });
            operators.collect()
        };
        assert_eq!(code(&marking.bytes), code(&expected));
        let called = |marks: &[u8]| marking.called(marks).collect::<BTreeSet<_>>();
        assert_eq!(called(&[0, 1, 0]), [2].into());
        assert_eq!(called(&[1, 1, 0]), [1, 2].into());
    }

    #[test]
    fn modules_without_a_memory_of_their_own_are_not_marked() {
        for text in [
            r#"(module (func (export "_start")))"#,
            r#"(module (import "env" "memory" (memory 1 1 shared)) (func (export "_start")))"#,
        ] {
            let bytes = wat::parse_str(text).expect("the text is right");
            assert!(Marking::of(&bytes).is_none(), "{text}");
        }
    }
}
