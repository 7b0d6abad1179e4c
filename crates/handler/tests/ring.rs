//! WebAssembly modules as handlers of ring kernels.

use everwarp_handler::RingModule;
use everwarp_ring::{RawKernel, Signature};
use everwarp_runtime::{Device, Select};

/// Adds up what it got so far; traps for 0.
const SUMS: &str = r#"(module
  (memory (export "memory") 1)
  (global (export "input") i32 (i32.const 16))
  (global (export "output") i32 (i32.const 32))
  (func $add (export "handle")
    (if (i64.eqz (i64.load (i32.const 16))) (then unreachable))
    (i64.store (i32.const 32) (i64.add (i64.load (i32.const 32)) (i64.load (i32.const 16))))))"#;

fn signature(elements: usize) -> Signature {
    Signature {
        dtype: everwarp_ring::DType::I64,
        shape: everwarp_ring::Shape::new(&[elements]).expect("small"),
    }
}

fn module(text: &str, elements: usize) -> Result<RingModule, String> {
    let bytes = wat::parse_str(text).expect("it is a module");
    let module = RingModule::new("sums", &bytes, &signature(elements), &signature(1));
    module.map_err(|error| error.to_string())
}

#[test]
fn a_module_handles_messages_and_keeps_its_memory() {
    let device = Device::open(Select::Cpu).expect("the host has cores");
    let engine = device
        .engine()
        .program(&everwarp_ring::PROGRAM)
        .start()
        .expect("it starts");
    let handler = module(SUMS, 1).expect("it fits");
    let ring = RawKernel::new("sums", signature(1), signature(1), handler);
    let ring = ring.launch(&engine).expect("it is the CPU engine");
    ring.activate().expect("it was launched");
    for n in [1_i64, 2, 0, 4] {
        let mut room = ring.reserve(None).expect("there is room");
        room.bytes().copy_from_slice(&n.to_ne_bytes());
        room.send().expect("it is active");
    }
    for sum in [1_i64, 3] {
        assert_eq!(
            ring.receive(None).expect("a result").bytes(),
            sum.to_ne_bytes()
        );
    }
    let failed = ring.receive(None).expect_err("it traps").to_string();
    assert!(
        failed.contains("message 2: wasm trap") && failed.contains("in `add`"),
        "{failed}"
    );
    assert_eq!(
        ring.receive(None).expect("a result").bytes(),
        7_i64.to_ne_bytes()
    );
    ring.terminate(None).expect("nothing waits");
}

#[test]
fn modules_that_cannot_handle_messages_are_refused_with_the_reason() {
    let reason = |from: &str, to: &str| {
        let text = SUMS.replace(from, to);
        assert_ne!(text, SUMS, "{from}");
        module(&text, 1).map(drop).expect_err("it must be refused")
    };
    assert!(reason("(memory (export \"memory\")", "(memory").contains("no memory"));
    assert!(reason("(export \"handle\")", "(export \"run\")").contains("no function `handle`"));
    assert!(reason("(export \"handle\")", "(export \"handle\") (param i32)").contains("`handle`"));
    assert!(reason("(export \"output\")", "(export \"out\")").contains("no variable `output`"));
    assert!(
        reason("i32.const 16))\n  (global", "i32.const 65536))\n  (global")
            .contains("ends before i64")
    );
    assert!(
        reason("(memory", "(import \"env\" \"now\" (func)) (memory").contains("imports `env::now`")
    );
    assert!(
        module(SUMS, 8192)
            .map(drop)
            .expect_err("too long")
            .contains("`input` is the address 16")
    );
    assert!(RingModule::new("text", b"text", &signature(1), &signature(1)).is_err());
}
