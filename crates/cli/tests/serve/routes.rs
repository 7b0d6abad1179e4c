//! Programs that answer requests, one process for each.

use std::process::Command;

use crate::server::{Server, body, field, guest, site, statuses};

fn server(folder: &std::path::Path) -> Server {
    let module = guest("c/built/cgi.wasm");
    let route = format!("/cgi={}", module.display());
    let inner = format!("/cgi/inner={}", module.display());
    Server::with_files(folder, &["--route", &route, "--route", &inner])
}

#[test]
fn a_program_gets_the_request_and_its_answer_is_passed_on() {
    let folder = site();
    let server = server(folder.path());
    let request = "POST /cgi/some/path?a=b HTTP/1.1\r\nHost: x:1\r\nUser-Agent: test\r\nProxy: evil\r\n\
                   Content-Type: text/x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody";
    let answer = server.exchange(request.as_bytes());
    assert_eq!(
        (statuses(&answer), field(&answer, "transfer-encoding")),
        (vec![200], Some("chunked"))
    );
    let text = unchunked(body(&answer));
    let expected = "POST /some/path\nquery: a=b\ntype: text/x\nagent: test\nproxy: \npeer: 127.0.0.1\nbody\n4 bytes\n";
    assert_eq!(text, expected);
    // The longest route decides, and the files are what is left.
    let ask = |path: &str| {
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        server.exchange(request.as_bytes())
    };
    assert!(body(&ask("/cgi/inner/x")).starts_with("GET /x\n"));
    assert!(body(&ask("/cgi")).starts_with("GET \n"));
    assert_eq!(body(&ask("/a.txt")), "0123456789");
    assert_eq!(statuses(&ask("/cgix")), [404]);
    for (path, status) in [
        ("/cgi/redirect", 302),
        ("/cgi/teapot", 418),
        ("/cgi/nonsense", 502),
        ("/cgi/trap", 502),
    ] {
        assert_eq!(statuses(&ask(path)), [status], "{path}");
    }
    assert_eq!(field(&ask("/cgi/redirect"), "location"), Some("/elsewhere"));
    let head = server.exchange(b"HEAD /cgi HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!((statuses(&head), body(&head)), (vec![200], ""));
    let large = "x".repeat(1 << 20);
    let request = format!(
        "POST /cgi HTTP/1.0\r\nContent-Length: {}\r\n\r\n{large}",
        large.len()
    );
    let answer = server.exchange(request.as_bytes());
    assert!(body(&answer).contains(&large) && answer.ends_with("\n1048576 bytes\n"));
    let wide = format!(
        "GET /cgi HTTP/1.1\r\nHost: x\r\nA: {}\r\nConnection: close\r\n\r\n",
        "y".repeat(9000)
    );
    assert_eq!(
        server.status(wide),
        431,
        "the variables are too long together"
    );
    server.end();
}

#[test]
fn one_connection_asks_many_programs() {
    let folder = site();
    let server = server(folder.path());
    let mut all = "GET /cgi/x HTTP/1.1\r\nHost: x\r\n\r\n".repeat(49);
    all += "GET /cgi/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answers = server.exchange(all.as_bytes());
    assert_eq!(statuses(&answers), vec![200; 50]);
    assert_eq!(answers.matches("GET /x\n").count(), 50);
    let report = server.end();
    assert!(
        report.contains("51 exit code 0"),
        "a process for each request, and one for the connection: {report}"
    );
}

/// The bytes of a chunked body.
fn unchunked(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            assert_eq!(rest, "\r\n");
            return whole;
        }
        whole += &rest[..size];
        text = rest[size..]
            .strip_prefix("\r\n")
            .expect("the end of a chunk");
    }
    panic!("the last chunk is missing: {text:?}")
}

#[test]
fn routes_that_are_wrong_are_refused_before_anything_starts() {
    for (args, says) in [
        (&["--route", "cgi=x.wasm"][..], "use /PATH=MODULE.wasm"),
        (&["--route", "/a?b=x.wasm"], "use /PATH=MODULE.wasm"),
        (&["--route", "/a="], "use /PATH=MODULE.wasm"),
        (&["--route", "/a=/missing.wasm"], "/missing.wasm"),
        (
            &["--route", "/a=x.wasm", "--route", "/a/=y.wasm"],
            "gives `/a` twice",
        ),
        (&["--files", "/missing"], "/missing"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
        command
            .args(["serve", "--engine", "cpu", "--listen", "0"])
            .args(args);
        let output = everwarp_testkit::output(&mut command);
        let text = String::from_utf8(output.stderr).expect("it is text");
        assert!(
            !output.status.success() && text.contains(says),
            "{args:?}: {text}"
        );
    }
}
