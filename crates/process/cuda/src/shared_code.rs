//! Loading modules into an engine that hosts share. They are compiled without its lock, so that hosts whose modules are loaded
//! do not wait.

use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use everwarp_process::{Module, StartError};
use everwarp_runtime::LinkedEngine;

use crate::code::{CodeSet, CompiledCode, LoadTimes, LoadedCode};
use crate::module::CompileChoice;
use crate::resident::ResidentProcesses;

/// Modules in an engine's image, and the lock of the set, which is held so that they are not forgotten.
pub(crate) struct LoadedSet<'r> {
    pub(crate) set: MutexGuard<'r, CodeSet>,
    pub(crate) codes: Vec<Arc<LoadedCode>>,
    pub(crate) times: LoadTimes,
}

impl ResidentProcesses {
    /// Loads modules. Those that are missing are compiled while the engine runs and other hosts load theirs; then
    /// [`CodeSet::load`] exchanges the image.
    ///
    /// # Errors
    /// A module is refused, or the engine has failed.
    pub(crate) fn load_code(
        &self,
        modules: &[Module],
        choice: CompileChoice,
    ) -> Result<LoadedSet<'_>, StartError> {
        let begin = Instant::now();
        let choice = self.code().choice_of_later(choice);
        let (_claim, compiled) = loop {
            let missing = self.code().missing(modules, choice);
            if missing.is_empty() {
                break (None, Vec::new());
            }
            let keys = missing.iter().map(|(key, _)| key.clone()).collect();
            let Some(claim) = self.making.claim(keys) else {
                continue;
            };
            let compiled = missing.into_iter();
            let compiled = compiled.map(|(key, module)| CompiledCode::of(module, key));
            let compiled: Vec<_> = compiled.collect::<Result<_, _>>()?;
            let parts: Vec<_> = compiled.iter().flat_map(CompiledCode::parts).collect();
            self.engine.assemble_ahead(&parts);
            break (Some(claim), compiled);
        };
        let mut set = self.code();
        let (codes, times) = set.load(&self.engine, modules, choice, compiled, begin)?;
        Ok(LoadedSet { set, codes, times })
    }
}
