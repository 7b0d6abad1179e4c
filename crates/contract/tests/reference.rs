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

/// A field may have the name of the parameter of `words`: `FdRenumber` has one called `to`, and device code once sent the
/// address of the array in its place.
#[test]
fn device_structs_read_their_own_fields() {
    let mut header = String::new();
    everwarp_contract::hostcall::write_calls(&mut header).expect("writing to a string cannot fail");
    assert!(
        header.contains("words[0] = (u64)this->from; words[1] = (u64)this->to;"),
        "{header}"
    );
}
