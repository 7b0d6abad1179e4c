//! Metrics and health over HTTP. Where Python has the official parser of OpenMetrics (`prometheus_client`), it reads them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use everwarp_testkit::Running;

use crate::sandbox::{Sandbox, words};

/// The address in the line that a command prints when it serves metrics.
fn address(engine: &mut Running) -> String {
    let stderr = engine.stderr.take().expect("it is piped");
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let line = lines
        .find(|line| line.contains("metrics at"))
        .expect("it says where");
    // The rest is read too, so that the engine never waits for its reader.
    std::thread::spawn(move || lines.for_each(drop));
    line.split("http://")
        .nth(1)
        .and_then(|text| text.split('/').next())
        .expect("an address")
        .to_owned()
}

fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

#[test]
fn taken_port_is_one_error_before_anything_runs() {
    let sandbox = Sandbox::new();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = holder.local_addr().expect("it has one").to_string();
    for args in [
        &["run", "fib", "--n", "5", "--engine", "cpu", "--json"][..],
        &["up"],
    ] {
        let output = sandbox.run(&[args, &["--metrics", &address]].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let told = words(&output.stderr);
        assert!(told.contains(&address) && told.contains("in use"), "{told}");
    }
}

#[test]
fn metrics_and_health_of_processes_are_served() {
    let sandbox = Sandbox::new();
    let mut engine = sandbox.looping(5, &["--metrics", "127.0.0.1:0"]);
    let address = address(&mut engine);
    let (head, body) = get(&address, "/metrics");
    assert!(
        head.contains("200 OK") && head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    let value = |name: &str| {
        let line = body.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("{name} is not in:\n{body}"))
    };
    let of = format!("program=\"{}\",engine=\"cpu\"", engine.id());
    let running = body
        .lines()
        .find(|line| line.starts_with("everwarp_processes{") && line.contains("state=\"running\""));
    assert!(
        running.is_some_and(|line| line.contains(&of) && line.ends_with(" 2.0")),
        "{body}"
    );
    assert_eq!(value("everwarp_process_wait_seconds_count"), 2.0);
    assert_eq!(value("everwarp_health"), 1.0);
    assert!(body.ends_with("# EOF\n"));
    official_parser_reads(&body);
    let (head, body) = get(&address, "/health");
    assert!(head.contains("200 OK"), "{head}");
    let health: serde_json::Value = serde_json::from_str(&body).expect("one object");
    assert_eq!(health["state"], "ok");

    let taken = sandbox.run(&[
        "run",
        "fib",
        "--n",
        "5",
        "--engine",
        "cpu",
        "--metrics",
        &address,
    ]);
    assert_eq!(taken.status.code(), Some(1));
    let told = words(&taken.stderr);
    assert!(
        told.contains(&address) && told.contains("choose another address"),
        "{told}"
    );
    let wrong = sandbox.run(&["run", "fib", "--n", "5", "--metrics", "here"]);
    assert_eq!(wrong.status.code(), Some(2));
}

/// Reads the text with `prometheus_client.openmetrics`, if the Python on the path has it, as it must with
/// `EVERWARP_NEEDS_CLIENTS`.
fn official_parser_reads(text: &str) {
    const READ: &str = "
import sys
try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
except ImportError:
    sys.exit(77)
families = {f.name: f for f in parse(sys.stdin.read())}
wait = families['everwarp_process_wait_seconds']
assert wait.type == 'histogram' and wait.unit == 'seconds', wait
processes = {s.labels['state']: s.value for s in families['everwarp_processes'].samples}
assert processes == {'running': 2.0, 'waiting': 3.0, 'ended': 0.0}, processes
assert families['everwarp_host_calls'].type == 'counter'
";
    let python = std::env::var_os("EVERWARP_PYTHON").unwrap_or_else(|| "python3".into());
    let started = Command::new(python)
        .args(["-c", READ])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let needed = std::env::var_os("EVERWARP_NEEDS_CLIENTS").is_some();
    let Ok(mut python) = started else {
        assert!(!needed, "there is no Python: set EVERWARP_PYTHON");
        return;
    };
    let mut stdin = python.stdin.take().expect("it is piped");
    // Without the parser it has ended by now, perhaps.
    drop(stdin.write_all(text.as_bytes()));
    drop(stdin);
    let output = python.wait_with_output().expect("it ends");
    match output.status.code() {
        Some(0) => {}
        Some(77) => assert!(
            !needed,
            "install prometheus_client, or set EVERWARP_PYTHON to a Python that has it"
        ),
        _ => panic!("{}", String::from_utf8_lossy(&output.stderr)),
    }
}
