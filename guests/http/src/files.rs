//! Files beneath a directory: whole, in part, or not because the client has them (RFC 9110, 13 and 14).

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};

use crate::date;
use crate::request::Request;
use crate::response::{Head, send_status};
use crate::wire::{Broken, Wire};

/// Bytes that are read from a file at a time.
const PIECE: usize = 32 << 10;

/// The path of a file beneath the directory for the path of a request; `None` if it is no such path.
///
/// Escapes are decoded once. No part of the path may be `..` or begin with a dot, and none may hold a slash or a zero
/// after decoding. The host keeps a process in its directories in any case.
pub(crate) fn local_path(directory: &str, path: &str) -> Option<String> {
    let mut local = directory.trim_end_matches('/').to_owned();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let part = decode(part)?;
        if part.starts_with('.') || part.contains(['/', '\0', '\\']) {
            return None;
        }
        local += "/";
        local += &part;
    }
    Some(local)
}

/// A part of a path without its escapes.
fn decode(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: u8| (byte as char).to_digit(16);
        let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
        bytes.push((16 * high + low) as u8);
    }
    String::from_utf8(bytes).ok()
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "json" => "application/json",
        "txt" | "md" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "ico" => "image/x-icon",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}

/// What a client may have of a file already.
struct Version {
    tag: String,
    modified: u64,
}

impl Version {
    fn of(metadata: &Metadata) -> Self {
        let modified = metadata.modified().map_or(0, date::seconds);
        Self {
            tag: format!("\"{:x}-{modified:x}\"", metadata.len()),
            modified,
        }
    }

    /// Whether the client has this version (RFC 9110, 13.2.2).
    fn is_known(&self, request: &Request) -> bool {
        if let Some(tags) = request.field("if-none-match") {
            let mut tags = tags
                .split(',')
                .map(|tag| tag.trim().trim_start_matches("W/"));
            return tags.any(|tag| tag == "*" || tag == self.tag);
        }
        let since = request.field("if-modified-since").and_then(date::parse);
        since.is_some_and(|since| self.modified <= since)
    }

    /// Whether a condition of the client fails.
    fn is_refused(&self, request: &Request) -> bool {
        if let Some(tags) = request.field("if-match") {
            return !tags
                .split(',')
                .any(|tag| tag.trim() == "*" || tag.trim() == self.tag);
        }
        let since = request.field("if-unmodified-since").and_then(date::parse);
        since.is_some_and(|since| self.modified > since)
    }

    /// Whether a range may be taken of this version.
    fn allows_range(&self, request: &Request) -> bool {
        match request.field("if-range") {
            None => true,
            Some(condition) => {
                condition == self.tag || date::parse(condition) == Some(self.modified)
            }
        }
    }
}

/// The part of a file that a client wants.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Whole,
    /// From the first byte to the last.
    Range(u64, u64),
    /// None of it exists.
    Beyond,
}

/// The part that a `Range` field asks for. Several parts, and what is wrong, mean the whole file.
fn part(range: Option<&str>, length: u64) -> Part {
    let Some(range) = range.and_then(|range| range.strip_prefix("bytes=")) else {
        return Part::Whole;
    };
    let Some((first, last)) = range.trim().split_once('-') else {
        return Part::Whole;
    };
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse::<u64>().ok(),
        false => None,
    };
    match (first.is_empty(), last.is_empty()) {
        (true, true) => Part::Whole,
        (true, false) => match number(last) {
            None => Part::Whole,
            Some(0) => Part::Beyond,
            Some(_) if length == 0 => Part::Beyond,
            Some(count) => Part::Range(length - count.min(length), length - 1),
        },
        (false, _) => {
            let Some(first) = number(first) else {
                return Part::Whole;
            };
            let last = match last.is_empty() {
                true => Some(u64::MAX),
                false => number(last),
            };
            match last {
                Some(last) if last < first => Part::Whole,
                Some(_) if first >= length => Part::Beyond,
                Some(last) => Part::Range(first, last.min(length - 1)),
                None => Part::Whole,
            }
        }
    }
}

/// Opens a file, or the index of a directory.
fn open(path: &str) -> Result<(File, Metadata, String), u16> {
    let status = |error: std::io::Error| -> u16 {
        match error.kind() {
            ErrorKind::PermissionDenied => 403,
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput => 404,
            _ => 500,
        }
    };
    let open = |path: &str| -> Result<(File, Metadata), u16> {
        let file = File::open(path).map_err(status)?;
        let metadata = file.metadata().map_err(status)?;
        Ok((file, metadata))
    };
    let mut path = path.to_owned();
    let (mut file, mut metadata) = open(&path)?;
    if metadata.is_dir() {
        path += "/index.html";
        (file, metadata) = open(&path)?;
    }
    match metadata.is_file() {
        true => Ok((file, metadata, path)),
        false => Err(404),
    }
}

/// Answers a request for a file beneath a directory; returns whether the connection goes on.
pub(crate) fn answer(wire: &mut Wire, request: &Request, directory: &str) -> Result<bool, Broken> {
    if request.method != "GET" && request.method != "HEAD" {
        return send_status(wire, 405, Some(request));
    }
    let Some(path) = local_path(directory, &request.path) else {
        return send_status(wire, 404, Some(request));
    };
    let (mut file, metadata, path) = match open(&path) {
        Ok(opened) => opened,
        Err(status) => return send_status(wire, status, Some(request)),
    };
    let (version, length) = (Version::of(&metadata), metadata.len());
    let head = |status| {
        Head::new(status, request.keep)
            .with("ETag", &version.tag)
            .with("Last-Modified", &date::format(version.modified))
            .with("Accept-Ranges", "bytes")
    };
    if version.is_refused(request) {
        return send_status(wire, 412, Some(request));
    }
    if version.is_known(request) {
        head(304).send(wire)?;
        return Ok(request.keep);
    }
    let range = request
        .field("range")
        .filter(|_| request.method == "GET" && version.allows_range(request));
    let (head, first, count) = match part(range, length) {
        Part::Whole => (head(200), 0, length),
        Part::Range(first, last) => {
            let range = format!("bytes {first}-{last}/{length}");
            (
                head(206).with("Content-Range", &range),
                first,
                last - first + 1,
            )
        }
        Part::Beyond => {
            let head = head(416).with("Content-Range", &format!("bytes */{length}"));
            head.with_length(0).send(wire)?;
            return Ok(request.keep);
        }
    };
    head.with("Content-Type", content_type(&path))
        .with_length(count)
        .send(wire)?;
    if request.method == "HEAD" {
        return Ok(request.keep);
    }
    send_part(wire, &mut file, first, count)?;
    Ok(request.keep)
}

/// Sends a part of a file. A file that has become shorter ends the connection, because its length was promised.
fn send_part(wire: &mut Wire, file: &mut File, first: u64, count: u64) -> Result<(), Broken> {
    if first > 0 && file.seek(SeekFrom::Start(first)).is_err() {
        return Err(Broken::Failed);
    }
    let mut piece = vec![0; PIECE.min(count as usize)];
    let mut left = count;
    while left > 0 {
        let most = piece.len().min(left as usize);
        match file.read(&mut piece[..most]) {
            Ok(0) | Err(_) => return Err(Broken::Failed),
            Ok(read) => {
                wire.put(&piece[..read])?;
                left -= read as u64;
            }
        }
    }
    Ok(())
}
