//! Exports the mutable globals of a module, so that they can be set before each message.
//!
//! Actors of a kind share an instance, and a global must not carry anything from one to the next. The stack pointer of a
//! handler that trapped, for one, is not where it was.

use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{ExportKind, ExportSection, Module};
use wasmparser::{ExportSectionReader, Parser};

/// The name under which a global is exported. No other export may begin with the prefix.
pub(crate) fn export_name(global: u32) -> String {
    format!("{PREFIX}{global}")
}
/// The beginning of these names.
pub(crate) const PREFIX: &str = "everwarp:global:";

struct Rewriter<'g> {
    globals: &'g [u32],
}

impl Reencode for Rewriter<'_> {
    type Error = std::convert::Infallible;

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        section: ExportSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_export_section(self, exports, section)?;
        for &global in self.globals {
            exports.export(&export_name(global), ExportKind::Global, global);
        }
        Ok(())
    }
}

/// Rewrites a valid module that has exports.
pub(crate) fn with_exports(bytes: &[u8], globals: &[u32]) -> Result<Vec<u8>, String> {
    let mut module = Module::new();
    Rewriter { globals }
        .parse_core_module(&mut module, Parser::new(0), bytes)
        .map_err(|e| e.to_string())?;
    Ok(module.finish())
}
