//! The committed reference of host calls is the one that the table generates.

use std::path::Path;

use everwarp_contract::hostcall::write_reference;

#[test]
fn the_committed_reference_of_host_calls_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/host-calls.md");
    let mut text = String::new();
    write_reference(&mut text).expect("writing to a string cannot fail");
    if std::env::var_os("EVERWARP_WRITE").is_some() {
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
        std::fs::write(&path, &text).expect("the reference is writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/reference/host-calls.md is not what the table generates; to write it anew: \
         EVERWARP_WRITE=1 cargo test -p everwarp-contract --test reference"
    );
}
