//! The files of this crate form layers.

use std::collections::BTreeMap;
use std::path::Path;

use everwarp_testkit::circular_modules;

#[test]
fn modules_do_not_use_each_other_in_circles() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(circular_modules(&src), BTreeMap::new());
}
