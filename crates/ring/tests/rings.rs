//! Ring kernels on the CPU engine: every message has its result once and in order, in each phase of a kernel's life. All cases
//! run twice: with handlers that take their messages themselves, and by way of the memory and the tasks of a GPU.

use std::collections::BTreeMap;
use std::path::Path;

mod by_the_host {
    const AS_DEVICE: bool = false;
    include!("rings/cases.rs");
}

mod as_on_a_device {
    const AS_DEVICE: bool = true;
    include!("rings/cases.rs");
}

#[test]
fn modules_do_not_use_each_other_in_circles() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(everwarp_testkit::circular_modules(&src), BTreeMap::new());
}
