//! Heads of requests: what the parser takes, `httparse` takes as well, and both read the same in it.

use std::time::Duration;

use httparse::Status;

use crate::random::Random;
use crate::request::{self, Next, Request};
use crate::wire::Wire;

const SEEDS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /a/b?c=d&e HTTP/1.1\r\nHost: example.com:80\r\nAccept: */*\r\nConnection: close\r\n\r\n",
    b"POST /form HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
    b"PUT /x HTTP/1.1\r\nhost:x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
    b"HEAD http://x/y?z HTTP/1.1\r\nHost: x\r\nRange: bytes=0-4\r\nEmpty:\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /old HTTP/1.0\r\nConnection: keep-alive\r\nCookie: a=b; c=\xc3\xa9\r\n\r\n",
    b"\r\nDELETE /%20 HTTP/1.1\r\nHost: [::1]:80\r\nX-A: \t b \t\r\n\r\n",
];
const INPUTS: usize = 200_000;
/// A peer in memory is never late.
const LIMIT: Duration = Duration::from_secs(30);

/// The request at the beginning of some segments, and the bytes that it takes; `None` if it is refused.
fn ours(segments: Vec<Vec<u8>>) -> Option<(Request, usize)> {
    let mut wire = Wire::new(segments);
    match request::read(&mut wire, LIMIT).ok()? {
        Next::Request(request) => Some((request, wire.used)),
        Next::Idle | Next::End => None,
    }
}

/// The path and the query of a target in either form.
fn path_and_query(target: &str) -> (&str, &str) {
    let (before, query) = target.split_once('?').unwrap_or((target, ""));
    let path = match before.strip_prefix("http://") {
        None => before,
        Some(rest) => rest.find('/').map_or("/", |slash| &rest[slash..]),
    };
    (path, query)
}

#[test]
fn a_host_in_the_target_may_be_followed_by_a_query_alone() {
    for (target, expected) in [
        ("http://x?q", Some(("/", "q"))),
        ("http://x", Some(("/", ""))),
        ("http://x/a?b?c", Some(("/a", "b?c"))),
        ("http://", None),
        ("http:///a", None),
        ("http://u@x/a", None),
        ("http://x\ty/a", None),
        ("https://x/a", None),
        ("/a#b", None),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        let request = ours(vec![head.into_bytes()]).map(|(request, _)| request);
        let found = request
            .as_ref()
            .map(|r| (r.path.as_str(), r.query.as_str()));
        assert_eq!(found, expected, "{target:?}");
    }
}

/// The library must read the same in bytes that the parser takes.
fn compare(bytes: &[u8], ours: &Request, used: usize) {
    let shown = String::from_utf8_lossy(bytes);
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut theirs = httparse::Request::new(&mut fields);
    let parsed = theirs.parse(bytes);
    assert_eq!(parsed, Ok(Status::Complete(used)), "{shown:?}");
    assert_eq!(theirs.method, Some(ours.method.as_str()), "{shown:?}");
    assert_eq!(theirs.version, Some(ours.new.into()), "{shown:?}");
    let target = theirs.path.expect("a complete request has one");
    let expected = path_and_query(target);
    assert_eq!(
        (ours.path.as_str(), ours.query.as_str()),
        expected,
        "{shown:?}"
    );
    let theirs = theirs.headers.iter().map(|field| {
        let value = String::from_utf8_lossy(field.value).into_owned();
        (field.name.to_ascii_lowercase(), value)
    });
    assert_eq!(ours.fields, theirs.collect::<Vec<_>>(), "{shown:?}");
}

fn same(a: &Request, b: &Request) -> bool {
    let parts = |r: &Request| {
        (
            r.method.clone(),
            r.path.clone(),
            r.query.clone(),
            r.fields.clone(),
        )
    };
    parts(a) == parts(b) && (a.length, a.keep, a.expects) == (b.length, b.keep, b.expects)
}

#[test]
fn what_the_parser_takes_the_library_reads_alike() {
    let mut random = Random::new(1);
    let mut taken = 0;
    for _ in 0..INPUTS {
        let mut bytes = random.one_of(SEEDS).to_vec();
        random.change(&mut bytes);
        if let Some((request, used)) = ours(vec![bytes.clone()]) {
            compare(&bytes, &request, used);
            taken += 1;
        }
    }
    // Otherwise the test would compare nothing, or change nothing.
    assert!((INPUTS / 10..INPUTS * 9 / 10).contains(&taken), "{taken}");
}

#[test]
fn the_seeds_are_taken() {
    for seed in SEEDS {
        let (request, used) = ours(vec![seed.to_vec()]).expect("it is right");
        compare(seed, &request, used);
    }
}

#[test]
fn segments_change_nothing() {
    let mut random = Random::new(2);
    for _ in 0..INPUTS / 10 {
        let mut bytes = random.one_of(SEEDS).to_vec();
        random.change(&mut bytes);
        let whole = ours(vec![bytes.clone()]);
        let most = *random.one_of(&[1, 2, 7, 30]);
        let parts = ours(random.segments(&bytes, most));
        let shown = String::from_utf8_lossy(&bytes);
        match (whole, parts) {
            (None, None) => {}
            (Some((a, used)), Some((b, of_parts))) => {
                assert!(same(&a, &b) && used == of_parts, "{shown:?}");
            }
            (whole, parts) => panic!("{shown:?}: {} {}", whole.is_some(), parts.is_some()),
        }
    }
}
