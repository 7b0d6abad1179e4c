//! `everwarp doctor` where there is no GPU: it says so, says what to do, and succeeds.

use std::process::{Command, Output};

fn doctor(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command
        .arg("doctor")
        .args(args)
        // Hides the GPUs of a machine that has some.
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("EVERWARP_NVRTC", "/nonexistent/libnvrtc.so")
        .env("EVERWARP_CACHE_DIR", "/some/cache");
    everwarp_testkit::output(&mut command)
}

#[test]
fn json_has_a_fix_for_every_missing_part() {
    let output = doctor(&["--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let list: Vec<serde_json::Value> =
        serde_json::from_slice(&output.stdout).expect("it is a JSON list");
    let get = |what: &str| {
        let one = list.iter().find(|f| f["what"] == what);
        one.unwrap_or_else(|| panic!("nothing about {what}: {list:?}"))
    };
    for finding in &list {
        let fix = &finding["fix"];
        assert_eq!(finding["ok"] == true, fix.is_null(), "{finding}");
        if let Some(fix) = fix.as_str() {
            assert!(!fix.is_empty() && !fix.contains('\n'), "{finding}");
        }
    }
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    assert!(text(&get("GPU")["fix"]).contains("--engine cpu"));
    assert_eq!(get("NVRTC")["ok"], false);
    let found = text(&get("NVRTC")["found"]);
    assert!(
        found.starts_with("EVERWARP_NVRTC names /nonexistent/"),
        "{found}"
    );
    assert_eq!(get("image cache")["found"], "/some/cache");
    assert_eq!(get("engine")["ok"], true);
    assert!(text(&get("engine")["found"]).starts_with("cpu: "));
    get("cores");
    get("driver");
    get("assembler");
    get("io_uring");
    assert_eq!(get("GPUDirect Storage")["ok"], true);
}

#[test]
fn the_text_has_the_same_facts() {
    let json = doctor(&["--json"]);
    let list: Vec<serde_json::Value> =
        serde_json::from_slice(&json.stdout).expect("it is a JSON list");
    let output = doctor(&[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("it is text");
    for finding in &list {
        let what = finding["what"].as_str().expect("a text");
        let state = if finding["ok"] == true {
            "ok     "
        } else {
            "missing"
        };
        assert!(text.contains(&format!("{state} {what}")), "{what}: {text}");
        if let Some(fix) = finding["fix"].as_str() {
            assert!(text.contains(&format!("-> {fix}\n")), "{fix}: {text}");
        }
    }
}
