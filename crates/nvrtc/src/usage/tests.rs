//! The parser against reports as NVRTC 13.0 has written them.

use super::{KernelUsage, UsageError, parse};

const REPORT: &str = "\
t.cu(3): warning #177-D: variable \"x\" was declared, 9 bytes stack frame, never referenced
ptxas info    : Overriding maximum register limit 256 for 'plain' with  32 of maxrregcount option
ptxas info    : 8 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function 'caller' for 'sm_80'
ptxas info    : Function properties for caller
ptxas         .     272 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 276 bytes cumulative stack size, 364 bytes cmem[0]
ptxas info    : Compile time = 32.704 ms
ptxas info    : Function properties for _Z6helperPfi
ptxas         .     0 bytes stack frame, 464 bytes spill stores, 424 bytes spill loads
ptxas info    : Compiling entry function 'recursive' for 'sm_80'
ptxas info    : Function properties for recursive
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 26 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Function properties for _Z3reciPi
ptxas         .     88 bytes stack frame, 36 bytes spill stores, 32 bytes spill loads
ptxas info    : Compiling entry function 'plain' for 'sm_90'
ptxas info    : Function properties for plain
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 512 bytes smem
ptxas info    : Compile time = 1.324 ms
";

fn kernel(name: &str, [registers, stack, stores, loads, shared]: [u32; 5]) -> KernelUsage {
    KernelUsage {
        kernel: name.to_owned(),
        registers,
        stack_bytes: stack,
        spill_store_bytes: stores,
        spill_load_bytes: loads,
        shared_bytes: shared,
    }
}

#[test]
fn called_functions_count_for_their_kernel() {
    let expected = [
        kernel("caller", [32, 276, 464, 424, 0]),
        kernel("recursive", [26, 88, 36, 32, 0]),
        kernel("plain", [10, 0, 0, 0, 512]),
    ];
    assert_eq!(parse(REPORT).expect("it is a report"), expected);
}

#[test]
fn a_report_that_stops_halfway_is_an_error() {
    let cut = REPORT
        .split("ptxas info    : Used 10")
        .next()
        .expect("split yields one part");
    let error = parse(cut).expect_err("the registers are missing");
    assert_eq!(
        error,
        UsageError::Incomplete {
            kernel: "plain".to_owned(),
            part: "registers"
        }
    );
}

#[test]
fn a_changed_wording_is_an_error() {
    for (old, new) in [
        ("464 bytes spill stores", "464 B spill stores"),
        ("512 bytes smem", "1+1 bytes smem"),
        ("10 registers", "10 regs"),
        ("424 bytes spill loads", "many bytes spill loads"),
    ] {
        assert!(REPORT.contains(old), "{old}");
        let error = parse(&REPORT.replace(old, new)).expect_err(new);
        assert!(matches!(error, UsageError::Line { .. }), "{error}");
    }
}

#[test]
fn no_report_is_no_kernel() {
    assert_eq!(parse(""), Ok(Vec::new()));
}
