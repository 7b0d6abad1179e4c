//! The device sources of processes compile with a module linked to them, for every architecture. Needs NVRTC, no
//! GPU.

use everwarp_process::Module;
use everwarp_process_cuda::image;
use everwarp_runtime::cuda::image::source;
use everwarp_runtime::cuda::testing::nvrtc;

#[test]
fn processes_compile_for_each_architecture() {
    let Some(nvrtc) = nvrtc() else { return };
    let text = r#"(module
      (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (func (export "_start") (drop (call 0 (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;
    // Those that import `everwarp:gpu`.
    let family = include_str!("modules/family.wat");
    let forge = include_str!("modules/forge.wat");
    let threads = include_str!("modules/threads.wat");
    let modules = [text, family, forge, threads].map(|text| {
        let bytes = wast::parser::ParseBuffer::new(text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&bytes).expect("it is a module");
        let bytes = wat.encode().expect("it can be encoded");
        Module::new("m", bytes).expect("it is valid")
    });
    let image = image(&modules, false).expect("it is supported");
    let source = source(&image);
    assert!(source.relocatable);
    for arch in [80, 90, 100] {
        let cubin = nvrtc.compile_source(&source, arch);
        let log = cubin.unwrap_or_else(|e| panic!("sm_{arch}: {e}")).log;
        // The engine's own kernel keeps what it holds in registers.
        let mut lines = log.lines();
        lines
            .find(|l| l.contains("Function properties for everwarp_engine"))
            .expect("the assembler reports on the kernel");
        let frame = lines.next().unwrap_or_default();
        assert!(
            frame.contains("0 bytes spill stores, 0 bytes spill loads"),
            "sm_{arch}: {frame}"
        );
    }
}
