//! The device sources of processes compile with a module linked to them, for every architecture. Needs NVRTC, no
//! GPU.

use std::io::Write;
use std::path::{Path, PathBuf};

use everwarp::cuda::image::source;
use everwarp::cuda::nvrtc::Nvrtc;
use everwarp_guest::{HostConfig, Module, image};

/// NVRTC, as `.ci/install-nvrtc` installs it or as the system has it. In CI it must be there.
fn nvrtc() -> Option<Nvrtc> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nvrtc");
    let opened = match find(&folder) {
        Some(path) => Nvrtc::open_at(&path),
        None => Nvrtc::open(),
    };
    match opened {
        Ok(nvrtc) => Some(nvrtc),
        Err(e) if std::env::var_os("CI").is_some() => panic!("CI compiles device sources: {e}"),
        Err(e) => {
            // Not eprintln!, of which the harness shows nothing when a test passes.
            writeln!(std::io::stderr(), "skipped: {e}; or run .ci/install-nvrtc")
                .expect("stderr takes a line");
            None
        }
    }
}

fn find(folder: &Path) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if let Some(found) = find(&path) {
                return Some(found);
            }
        } else if name.starts_with("libnvrtc.so.") && !name.contains("alt") {
            return Some(path);
        }
    }
    None
}

#[test]
fn processes_compile_for_each_architecture() {
    let Some(nvrtc) = nvrtc() else { return };
    let text = r#"(module
      (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (func (export "_start") (drop (call 0 (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;
    let bytes = wast::parser::ParseBuffer::new(text).expect("it is text");
    let mut wat: wast::Wat<'_> = wast::parser::parse(&bytes).expect("it is a module");
    let module = Module::new("m", wat.encode().expect("it can be encoded"));
    let image = image(&[module], &HostConfig::new(1, 1 << 30)).expect("it is supported");
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
