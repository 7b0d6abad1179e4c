//! HTTP/1.1 as clients use it.

use std::io::{Read, Write};

use crate::server::{Server, body, field, site, statuses};

/// A request with a `Host`, and the connection ends after it.
fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}Connection: close\r\n\r\n")
}

#[test]
fn files_are_served_whole_in_part_and_not_at_all() {
    let folder = site();
    let server = Server::with_files(folder.path(), &[]);
    let ask = |path: &str, fields: &str| server.exchange(get(path, fields).as_bytes());
    let whole = ask("/a.txt", "");
    assert_eq!((statuses(&whole), body(&whole)), (vec![200], "0123456789"));
    assert_eq!(
        field(&whole, "content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(field(&whole, "content-length"), Some("10"));
    assert!(
        field(&whole, "date").is_some_and(|date| date.ends_with(" GMT")),
        "{whole}"
    );
    assert_eq!(body(&ask("/", "")), "<h1>index</h1>\n");
    assert_eq!(body(&ask("/sub", "")), "sub\n");
    assert_eq!(body(&ask("/%61.txt?query", "")), "0123456789");
    assert_eq!(body(&ask("http://x/a.txt", "")), "0123456789");
    assert_eq!(body(&ask("/large", "")).len(), 1 << 20);
    for (range, status, part, of) in [
        ("bytes=2-4", 206, "234", "bytes 2-4/10"),
        ("bytes=7-", 206, "789", "bytes 7-9/10"),
        ("bytes=-2", 206, "89", "bytes 8-9/10"),
        ("bytes=-20", 206, "0123456789", "bytes 0-9/10"),
        ("bytes=8-99", 206, "89", "bytes 8-9/10"),
        ("bytes=10-", 416, "", "bytes */10"),
        ("bytes=-0", 416, "", "bytes */10"),
    ] {
        let answer = ask("/a.txt", &format!("Range: {range}\r\n"));
        assert_eq!(
            (statuses(&answer), body(&answer)),
            (vec![status], part),
            "{range}"
        );
        assert_eq!(field(&answer, "content-range"), Some(of), "{range}");
    }
    for whole in [
        "bytes=4-2",
        "bytes=0-1,4-5",
        "lines=1-2",
        "bytes=x-2",
        "bytes=-",
    ] {
        let answer = ask("/a.txt", &format!("Range: {whole}\r\n"));
        assert_eq!(
            (statuses(&answer), body(&answer)),
            (vec![200], "0123456789"),
            "{whole}"
        );
    }
    let (tag, modified) = (field(&whole, "etag"), field(&whole, "last-modified"));
    let (tag, modified) = (tag.expect("a tag"), modified.expect("a date"));
    for (fields, status) in [
        (format!("If-None-Match: {tag}\r\n"), 304),
        (format!("If-None-Match: \"other\", W/{tag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"other\"\r\n".to_owned(), 200),
        (format!("If-Modified-Since: {modified}\r\n"), 304),
        (
            "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n".to_owned(),
            200,
        ),
        // The tag decides if both are there.
        (
            format!("If-None-Match: \"other\"\r\nIf-Modified-Since: {modified}\r\n"),
            200,
        ),
        ("If-Match: \"other\"\r\n".to_owned(), 412),
        (format!("If-Match: {tag}\r\n"), 200),
        (format!("Range: bytes=0-0\r\nIf-Range: {tag}\r\n"), 206),
        (
            "Range: bytes=0-0\r\nIf-Range: \"other\"\r\n".to_owned(),
            200,
        ),
    ] {
        let answer = ask("/a.txt", &fields);
        assert_eq!(statuses(&answer), [status], "{fields}");
        assert!(status != 304 || body(&answer).is_empty());
    }
    for hidden in [
        "/../Cargo.toml",
        "/sub/../../x",
        "/%2e%2e/x",
        "/..%2f..%2fx",
        "/.hidden",
        "/missing",
        "/a.txt%00",
        "/%zz",
        "/sub%2findex.html",
    ] {
        assert_eq!(statuses(&ask(hidden, "")), [404], "{hidden}");
    }
    let head = server.exchange(b"HEAD /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!((statuses(&head), body(&head)), (vec![200], ""));
    assert_eq!(field(&head, "content-length"), Some("1048576"));
    let post = server.exchange(
        b"POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
    );
    assert_eq!(
        (statuses(&post), field(&post, "allow")),
        (vec![405], Some("GET, HEAD"))
    );
    let report = server.end();
    assert!(
        report.contains("exit code 0") && !report.contains("trap"),
        "{report}"
    );
}

#[test]
fn a_connection_answers_many_requests_in_order() {
    let folder = site();
    let server = Server::with_files(folder.path(), &[]);
    // A thousand in one write, and the last ends the connection.
    let mut all = "GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n".repeat(999);
    all += &get("/empty", "");
    let answers = server.exchange(all.as_bytes());
    assert_eq!(statuses(&answers), vec![200; 1000]);
    assert_eq!(answers.matches("0123456789").count(), 999);
    assert_eq!(answers.matches("Connection: keep-alive").count(), 999);
    // Bodies between requests are read, whatever their form.
    let mixed = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc\
                 POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;ext=1\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nT: v\r\n\r\n\
                 GET /a.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answers = server.exchange(mixed.as_bytes());
    assert_eq!(statuses(&answers), [405, 405, 200]);
    // One byte for each segment.
    let mut peer = server.connect();
    for byte in get("/a.txt", "").bytes() {
        peer.write_all(&[byte]).expect("it reads");
    }
    let mut answer = String::new();
    peer.read_to_string(&mut answer).expect("it ends");
    assert_eq!(body(&answer), "0123456789");
    server.end();
}

#[test]
fn old_clients_and_cautious_clients_are_understood() {
    let folder = site();
    let server = Server::with_files(folder.path(), &[]);
    let old = server.exchange(b"GET /a.txt HTTP/1.0\r\n\r\nGET /a.txt HTTP/1.0\r\n\r\n");
    assert_eq!(
        (statuses(&old), field(&old, "connection")),
        (vec![200], Some("close"))
    );
    let kept = server
        .exchange(b"GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n");
    assert_eq!(statuses(&kept), [200, 200]);
    // A client that waits for a word before it sends the body.
    let mut peer = server.connect();
    let head = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
    peer.write_all(head).expect("it reads");
    let mut word = [0; 25];
    peer.read_exact(&mut word)
        .expect("it answers before the body");
    assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
    peer.write_all(b"hi").expect("it reads");
    let mut answer = String::new();
    peer.read_to_string(&mut answer).expect("it ends");
    assert_eq!(statuses(&answer), [405]);
    assert_eq!(
        server.status("GET / HTTP/1.1\r\nHost: x\r\nExpect: something\r\n\r\n"),
        417
    );
    server.end();
}
