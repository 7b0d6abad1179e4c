//! Bodies: those in chunks are read as a plain decoder over `httparse` reads them, in whatever segments they come.

use std::time::Duration;

use crate::random::Random;
use crate::request::{self, Next, Wrong};
use crate::wire::Wire;

const INPUTS: usize = 50_000;
/// A peer in memory is never late.
const LIMIT: Duration = Duration::from_secs(30);
const MOST: u64 = 1 << 20;
const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The body and the bytes that it takes, or the status; 0 stands for a connection that ends without one.
fn ours(body: &[u8], random: &mut Random, most: usize) -> Result<(Vec<u8>, usize), u16> {
    let mut segments = vec![HEAD.to_vec()];
    segments.extend(random.segments(body, most));
    let mut wire = Wire::new(segments);
    let status = |wrong| match wrong {
        Wrong::Status(status) => status,
        Wrong::Broken => 0,
    };
    let Next::Request(request) = request::read(&mut wire, LIMIT).map_err(status)? else {
        panic!("there is a head");
    };
    let read = request::read_body(&mut wire, &request, MOST).map_err(status)?;
    Ok((read, wire.used - HEAD.len()))
}

/// A body in chunks, with extensions and trailers now and then.
fn chunked(random: &mut Random, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in random.segments(body, 50) {
        let extension = *random.one_of(&["", "", ";a", ";a=b", " "]);
        let size = match random.below(2) {
            0 => format!("{:x}", chunk.len()),
            _ => format!("0{:X}", chunk.len()),
        };
        bytes.extend(format!("{size}{extension}\r\n").into_bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(
        random
            .one_of(&["0\r\n\r\n", "000\r\n\r\n", "0\r\nA: b\r\nC:\r\n\r\n"])
            .bytes(),
    );
    bytes
}

/// What a plain decoder reads; `None` if the bytes are wrong.
fn theirs(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let Ok(httparse::Status::Complete((used, size))) = httparse::parse_chunk_size(bytes) else {
            return None;
        };
        bytes = &bytes[used..];
        if size == 0 {
            return Some(body);
        }
        let (chunk, after) = bytes.split_at_checked(size as usize)?;
        body.extend_from_slice(chunk);
        bytes = after.strip_prefix(b"\r\n")?;
    }
}

#[test]
fn chunks_are_read_in_any_segments_as_they_were_written() {
    let mut random = Random::new(3);
    for _ in 0..INPUTS / 10 {
        let length = random.below(300);
        let body: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        let bytes = chunked(&mut random, &body);
        let most = *random.one_of(&[1, 3, 20, 1000]);
        assert_eq!(ours(&bytes, &mut random, most), Ok((body, bytes.len())));
    }
}

#[test]
fn changed_chunks_are_refused_or_read_as_the_library_reads_them() {
    let mut random = Random::new(4);
    let mut taken = 0;
    for _ in 0..INPUTS {
        let length = random.below(60);
        let body: Vec<u8> = (0..length).map(|_| b'a' + random.below(26) as u8).collect();
        let mut bytes = chunked(&mut random, &body);
        random.change(&mut bytes);
        let whole = ours(&bytes, &mut random, usize::MAX >> 1);
        let parts = ours(&bytes, &mut random, 1);
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(whole.is_ok(), parts.is_ok(), "{shown:?}");
        if let (Ok(whole), Ok(parts)) = (whole, parts) {
            assert_eq!(whole, parts, "{shown:?}");
            assert_eq!(theirs(&bytes), Some(whole.0), "{shown:?}");
            taken += 1;
        }
    }
    assert!((INPUTS / 10..INPUTS * 9 / 10).contains(&taken), "{taken}");
}
