//! Checks that all PTX emitted for the official test suite assembles, for the oldest supported architecture and for
//! the one that everwarp is measured on. Needs ptxas, but no GPU.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use everwarp_compiler::{
    CompileError, CompileOptions, LONG_FUNCTION, PTX_HEAD, ProvidedImport, Provider, compile_part,
};
use support::tools::ptxas;
use support::{encode, spec, waiting};
use wast::{WastDirective, WastExecute};

fn assemble(ptxas: &Path, name: &str, ptx: &str) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let input = folder.join(format!("{name}.ptx"));
    std::fs::write(&input, ptx).expect("the text can be written");
    // Relocatable for one architecture and as a whole program for the other, because images are loaded in either way.
    // Both at the same time, for machines with two cores.
    let started = [("sm_80", "-c"), ("sm_90", "-O3")].map(|(arch, mode)| {
        let child = Command::new(ptxas)
            .args([mode, "-arch", arch, "-o"])
            .arg(folder.join(format!("{name}.{arch}.cubin")))
            .arg(&input)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        (arch, child.expect("ptxas runs"))
    });
    // Waits for both, even if the first one fails.
    let ended = started.map(|(arch, child)| (arch, child.wait_with_output().expect("ptxas ends")));
    for (arch, output) in ended {
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let first: Vec<_> = text.lines().take(5).collect();
            return Err(format!("{name} for {arch}: {}", first.join("\n")));
        }
    }
    Ok(())
}

/// How much PTX is assembled at once. A process for each of a thousand modules would be slow, and so would a whole
/// program with hundreds of functions.
const IMAGE_BYTES: usize = 60_000;

/// Compiles all modules of a file that are instantiated. Returns the images, the number of modules, and the number of
/// unsupported modules.
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
            Err(e) => panic!("the compiler refuses a valid module: {e}"),
        }
    }
    (images, count, unsupported)
}

#[test]
fn the_suite_assembles() {
    let Some(ptxas) = ptxas() else { return };
    let only = std::env::var("SPEC_FILE").ok();
    // As hosts do. Whole, the longest function of the suite takes minutes.
    spec::divide(LONG_FUNCTION);
    let (mut modules, mut failed) = (0, Vec::new());
    for file in spec::files() {
        if only
            .as_ref()
            .is_some_and(|o| !file.name.starts_with(o.as_str()))
        {
            continue;
        }
        let (images, count, unsupported) = images(file.source);
        assert_eq!(unsupported, 0, "every module of {} must compile", file.name);
        modules += count;
        for (i, ptx) in images.iter().enumerate() {
            failed.extend(
                assemble(&ptxas, &format!("{}.{i}", file.name.replace('/', "-")), ptx).err(),
            );
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
        let options = CompileOptions {
            prefix: prefix.to_owned(),
            provided_imports,
            ..CompileOptions::default()
        };
        compile_part(&encode(text), &options).expect("the module is supported")
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
    // Functions that are not in the file can only be linked, so the code is relocatable.
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

#[test]
fn waiting_assembles() {
    let Some(ptxas) = ptxas() else { return };
    let text = r#"(module (memory 1 2 shared)
      (func (export "wait") (param i32 i64) (result i32)
        (i32.add (memory.atomic.wait32 (local.get 0) (i32.const 1) (local.get 1))
          (memory.atomic.wait64 (local.get 0) (local.get 1) (i64.const -1))))
      (func (export "notify") (param i32) (result i32) (memory.atomic.notify (local.get 0) (i32.const 1))))"#;
    let options = CompileOptions {
        provided_imports: waiting::provided(),
        suspendable: true,
        threads: true,
        ..CompileOptions::default()
    };
    let compiled = compile_part(&encode(text), &options);
    let compiled = compiled.expect("the module is supported");
    let own = compiled.ptx.lines().filter(|l| !l.starts_with(".extern"));
    let own = own.fold(String::new(), |text, line| text + line + "\n");
    let functions = waiting::functions(1 << 20);
    assemble(&ptxas, "waiting", &format!("{PTX_HEAD}{functions}{own}"))
        .expect("the text assembles");
}

/// Modules with every kind of suspension: by an import from the device and one from another module, through tables and
/// tail calls, in nested loops, with values of every size on the operand stack.
const SUSPENDED: &str = r#"(module
  (import "host" "f" (func $host (param i64 f32) (result i32)))
  (import "lib" "f" (func $lib (param f32) (result i64 f32)))
  (memory 1)
  (table 4 funcref)
  (elem (i32.const 0) $host $g $h $i)
  (type $t (func (param i64 f32) (result i32)))
  (func $g (type $t) (call $host (local.get 0) (local.get 1)))
  (func $h (type $t) (call_indirect (type $t) (local.get 0) (local.get 1) (i32.const 0)))
  (func $i (type $t) (i32.const 5))
  (func $j (type $t) (if (i64.eqz (local.get 0)) (then (return_call $host (local.get 0) (local.get 1))))
    (return_call_indirect (type $t) (local.get 0) (local.get 1) (i32.const 2)))
  (func (export "vector") (param v128 i64 f32) (result v128)
    (local.get 0) (drop (call $j (local.get 1) (local.get 2)))
    (i8x16.swizzle (i16x8.mul (local.get 0) (local.get 0))))
  (func (export "all") (param i32 f64) (result f64) (local i64 f32)
    (loop $outer
      (loop $inner
        (f64.lt (local.get 1) (f64.const 8))
        (i64.const 5)
        (i64.add (local.get 2) (i64.extend_i32_u (local.get 0)))
        (call $lib (local.get 3))
        (local.set 3)
        (local.set 2 (i64.add (i64.add)))
        (if (then (local.set 1 (f64.add (local.get 1) (f64.load (local.get 0))))))
        (br_if $inner (call_indirect (type $t) (local.get 2) (local.get 3) (local.get 0))))
      (br_if $outer (i32.eqz (call $h (local.get 2) (local.get 3)))))
    (local.get 1)))"#;

#[test]
fn suspendable_modules_assemble() {
    let Some(ptxas) = ptxas() else { return };
    for preempt in [false, true] {
        let provided = |module: &str, symbol: &str, provider| ProvidedImport {
            module: module.to_owned(),
            name: "f".to_owned(),
            symbol: symbol.to_owned(),
            provider,
            suspends: true,
        };
        let options = |prefix: &str, provided_imports| CompileOptions {
            prefix: prefix.to_owned(),
            provided_imports,
            suspendable: true,
            preempt,
            ..CompileOptions::default()
        };
        let host = provided("host", "host_f", Provider::Device);
        let library = r#"(module
          (import "host" "f" (func $host (param i64 f32) (result i32)))
          (func $f (export "f") (param f32) (result i64 f32)
            (i64.extend_i32_u (call $host (i64.const 1) (local.get 0))) (local.get 0)))"#;
        let library = compile_part(&encode(library), &options("a_", vec![host.clone()]));
        let library = library.expect("the module is supported");
        assert!(library.may_suspend(1));
        let lib = provided("lib", &library.symbol(1), Provider::Module);
        let part = compile_part(&encode(SUSPENDED), &options("b_", vec![host, lib]));
        // The import's definition completes the file. Its second declaration must be removed.
        let import = ".visible .func (.param .align 8 .b8 ret[16]) host_f (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b64 a0, .param .b32 a1)\n{\n  .reg .b64 %d;\n  mov.b64 %d, -2;\n  st.param.b64 [ret], %d;\n  ret;\n}\n";
        let parts = library.ptx + &part.expect("the module is supported").ptx;
        let parts = parts.lines().filter(|l| !l.starts_with(".extern"));
        let parts = parts.fold(String::new(), |text, line| text + line + "\n");
        let text = format!("{PTX_HEAD}{import}{parts}");
        assemble(&ptxas, &format!("suspended.{preempt}"), &text).expect("the text assembles");
    }
}
