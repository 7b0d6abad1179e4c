//! Every path that a document names exists.

use std::path::Path;

#[test]
fn every_path_in_a_document_exists() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = 0;
    for document in ["README.md", "ARCHITECTURE.md"] {
        let text = std::fs::read_to_string(top.join(document)).expect("the document is there");
        for name in text.split('`').skip(1).step_by(2) {
            let is_path = ["crates/", "bench/", "data/", "guests/", ".ci/"]
                .iter()
                .any(|p| name.starts_with(p))
                || (name.ends_with(".md") && !name.contains(char::is_whitespace));
            if is_path && !name.contains(char::is_whitespace) {
                assert!(
                    top.join(name).exists(),
                    "{document} names {name}, which is not there"
                );
                paths += 1;
            }
        }
    }
    assert!(
        paths > 20,
        "the documents name {paths} paths only: is the test still reading them right?"
    );
}
