//! Telemetry adds nothing to device code: the source of an image does not depend on what is measured.

use everwarp::EngineKind;
use everwarp::cuda::image::source;
use everwarp::telemetry::{DEFAULT_LIMIT, measure, start_trace};
use everwarp_programs::REGISTRY;
use everwarp_runtime::Image;

#[test]
fn the_source_of_an_image_is_the_same_to_the_byte_whatever_is_measured() {
    let programs = REGISTRY
        .iter()
        .filter(|entry| entry.runs_on(EngineKind::Cuda));
    let image = Image::of(programs.map(|entry| entry.program()).collect());
    let whole = || {
        let source = source(&image);
        (source.unit, source.headers)
    };
    let off = whole();
    assert!(
        off.0.len() > 1000 && off.1.len() > 10,
        "it is the whole source"
    );
    measure();
    assert_eq!(whole(), off);
    start_trace(DEFAULT_LIMIT).expect("the program is not traced");
    assert_eq!(whole(), off);
}
