//! Images are valid WGSL without any capability, and can be translated to every backend's language.

#[test]
fn the_scheduler_is_valid() {
    let image = everwarp_engine::Image::default();
    let text = everwarp_engine_wgpu::ImageText::new(&image).expect("nothing is missing");
    let module = match naga::front::wgsl::parse_str(&text.text) {
        Ok(m) => m,
        Err(e) => panic!("{}", e.emit_to_string(&text.text)),
    };
    let mut validator = naga::valid::Validator::new(
        naga::valid::ValidationFlags::all(),
        naga::valid::Capabilities::empty(),
    );
    if let Err(e) = validator.validate(&module) {
        panic!("{}", e.emit_to_string(&text.text))
    };
}
