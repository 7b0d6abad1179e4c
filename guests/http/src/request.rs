//! Requests: the head is read as a whole and checked strictly (RFC 9112). What two servers could read differently is
//! refused, because a request could be smuggled past the first one.

use std::time::{Duration, Instant};

use crate::wire::{Broken, Wire};

/// Bytes of a request line, and of the whole head.
const LINE_MOST: usize = 8 << 10;
const HEAD_MOST: usize = 16 << 10;
const FIELDS_MOST: usize = 100;
/// Bytes of a line in a chunked body, and of all its trailers.
const CHUNK_LINE_MOST: usize = 256;
const TRAILER_MOST: usize = 4 << 10;
/// How long a peer may take for a head, from its first byte on, and for a body.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
const BODY_LIMIT: Duration = Duration::from_secs(60);

/// What comes next on a connection.
pub(crate) enum Next {
    Request(Request),
    /// Nothing for a while.
    Idle,
    /// The peer sends no more, or the connection has failed.
    End,
}

/// Why there is no request.
pub(crate) enum Wrong {
    /// The connection ends without an answer.
    Broken,
    /// It is answered with this status, and the connection ends.
    Status(u16),
}

impl From<Broken> for Wrong {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Late => Self::Status(408),
            Broken::End => Self::Status(400),
            Broken::Failed => Self::Broken,
        }
    }
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Bytes(u64),
    Chunked,
}

/// A request without its body.
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path as it was sent, and the query without its question mark.
    pub(crate) path: String,
    pub(crate) query: String,
    /// Whether it is of HTTP/1.1; otherwise it is of 1.0.
    pub(crate) new: bool,
    /// Names in small letters.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) length: Length,
    pub(crate) keep: bool,
    /// The peer waits for a word before it sends the body.
    pub(crate) expects: bool,
}

impl Request {
    /// The value of a field that occurs once, or of the first.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The end of the head in some bytes, after its empty line.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|at| at + 4)
}

/// Reads the head of the next request, if its first byte comes in time.
pub(crate) fn read(wire: &mut Wire, limit: Duration) -> Result<Next, Wrong> {
    // To ask for the time is a call of the host, and most requests come as a whole, after one wait.
    let mut idle = None;
    // An empty line before a request is ignored, as some clients send one after a body.
    loop {
        match wire.ready() {
            [] | [b'\r'] => {
                let came = match idle {
                    None => wire.more_within(limit),
                    Some(until) => wire.more(until),
                };
                match came {
                    Ok(()) if matches!(wire.ready(), [b'\r', ..]) => {
                        idle.get_or_insert_with(|| Instant::now() + limit);
                    }
                    Ok(()) => {}
                    Err(Broken::Late) if wire.ready().is_empty() => return Ok(Next::Idle),
                    Err(_) => return Ok(Next::End),
                }
            }
            [b'\r', b'\n', ..] => wire.use_up(2),
            _ => break,
        }
    }
    let (mut until, mut seen) = (None, 0);
    let end = loop {
        let ready = wire.ready();
        let from = seen.min(ready.len());
        if let Some(end) = end_of_head(&ready[from..]) {
            break from + end;
        }
        check_begin(ready)?;
        seen = ready.len().saturating_sub(3);
        wire.more(*until.get_or_insert_with(|| Instant::now() + HEAD_LIMIT))?;
    };
    if end > HEAD_MOST {
        return Err(Wrong::Status(431));
    }
    let head = wire.ready()[..end - 2].to_vec();
    wire.use_up(end);
    parse(&head).map(Next::Request).map_err(Wrong::Status)
}

/// Refuses a head that is too long or wrong before all of it has come.
fn check_begin(ready: &[u8]) -> Result<(), Wrong> {
    match ready.iter().position(|byte| *byte == b'\n') {
        None if ready.len() > LINE_MOST => Err(Wrong::Status(414)),
        None => Ok(()),
        Some(0) => Err(Wrong::Status(400)),
        Some(at) if ready[at - 1] != b'\r' => Err(Wrong::Status(400)),
        Some(at) if at > LINE_MOST => Err(Wrong::Status(414)),
        Some(_) if ready.len() > HEAD_MOST => Err(Wrong::Status(431)),
        Some(_) => Ok(()),
    }
}

/// Parses a head whose lines all end with CR and LF; the status if it is wrong.
pub(crate) fn parse(head: &[u8]) -> Result<Request, u16> {
    let head = std::str::from_utf8(head).map_err(|_| 400_u16)?;
    let mut lines = Vec::new();
    let mut rest = head;
    while let Some((line, after)) = rest.split_once('\n') {
        let line = line.strip_suffix('\r').ok_or(400_u16)?;
        // A CR anywhere else, a NUL, or another control character.
        if line
            .bytes()
            .any(|byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f)
        {
            return Err(400);
        }
        lines.push(line);
        rest = after;
    }
    let (first, fields) = lines.split_first().ok_or(400_u16)?;
    if first.len() > LINE_MOST {
        return Err(414);
    }
    let mut parts = first.split(' ');
    let (method, target, version) = (parts.next(), parts.next(), parts.next());
    let (Some(method), Some(target), Some(version), None) = (method, target, version, parts.next())
    else {
        return Err(400);
    };
    if method.is_empty() || !method.bytes().all(is_token) || target.is_empty() {
        return Err(400);
    }
    let new = match version {
        "HTTP/1.1" => true,
        "HTTP/1.0" => false,
        _ if version.starts_with("HTTP/") => return Err(505),
        _ => return Err(400),
    };
    let fields = parse_fields(fields)?;
    let (path, query) = split_target(method, target)?;
    let length = body_length(&fields, new)?;
    check_host(&fields, new)?;
    let says = |name: &str, word: &str| {
        let values = fields.iter().filter(|(field, _)| field == name);
        values
            .flat_map(|(_, value)| value.split(','))
            .any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    let expects = match fields.iter().find(|(name, _)| name == "expect") {
        Some((_, value)) if value.eq_ignore_ascii_case("100-continue") => new,
        Some(_) => return Err(417),
        None => false,
    };
    let keep = match new {
        true => !says("connection", "close"),
        false => says("connection", "keep-alive"),
    };
    Ok(Request {
        method: method.to_owned(),
        path,
        query,
        new,
        length,
        keep,
        expects,
        fields,
    })
}

fn parse_fields(lines: &[&str]) -> Result<Vec<(String, String)>, u16> {
    if lines.len() > FIELDS_MOST {
        return Err(431);
    }
    let parse = |line: &&str| {
        // A line that begins with a space would go on with the one before, which is obsolete.
        let (name, value) = line.split_once(':').ok_or(400_u16)?;
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(400);
        }
        let value = value.trim_matches([' ', '\t']);
        Ok((name.to_ascii_lowercase(), value.to_owned()))
    };
    lines.iter().map(parse).collect()
}

/// The path and the query of a target.
fn split_target(method: &str, target: &str) -> Result<(String, String), u16> {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    if !target.bytes().all(plain) {
        return Err(400);
    }
    if target == "*" && method == "OPTIONS" {
        return Ok((target.to_owned(), String::new()));
    }
    let target = match target.strip_prefix("http://") {
        Some(rest) => {
            let (host, after) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            if host.is_empty() || host.contains(['@', ',']) {
                return Err(400);
            }
            after
        }
        None if target.starts_with('/') => target,
        None => return Err(400),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // After a host there may be a query alone, or nothing.
    let path = if path.is_empty() { "/" } else { path };
    Ok((path.to_owned(), query.to_owned()))
}

fn check_host(fields: &[(String, String)], new: bool) -> Result<(), u16> {
    let mut hosts = fields.iter().filter(|(name, _)| name == "host");
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Err(400),
        (None, None) if new => Err(400),
        (Some((_, host)), None) if host.bytes().any(|byte| b" \t/?#@,".contains(&byte)) => Err(400),
        _ => Ok(()),
    }
}

/// How long the body is: what two servers could understand differently is refused.
fn body_length(fields: &[(String, String)], new: bool) -> Result<Length, u16> {
    let all = |name: &'static str| {
        let found = fields.iter().filter(move |(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    };
    let lengths: Vec<_> = all("content-length").collect();
    let codings: Vec<_> = all("transfer-encoding").collect();
    match (&lengths[..], &codings[..]) {
        ([], []) => Ok(Length::Bytes(0)),
        ([length], []) => {
            if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(400);
            }
            length.parse().map(Length::Bytes).map_err(|_| 413)
        }
        ([], [coding]) if new && coding.eq_ignore_ascii_case("chunked") => Ok(Length::Chunked),
        ([], [_]) if new => Err(501),
        _ => Err(400),
    }
}

/// Reads a body, up to `most` bytes.
pub(crate) fn read_body(wire: &mut Wire, request: &Request, most: u64) -> Result<Vec<u8>, Wrong> {
    if request.length == Length::Bytes(0) {
        return Ok(Vec::new());
    }
    let until = Instant::now() + BODY_LIMIT;
    if let Length::Bytes(bytes) = request.length
        && bytes > most
    {
        return Err(Wrong::Status(413));
    }
    let waits = match request.length {
        Length::Bytes(bytes) => bytes > 0,
        Length::Chunked => true,
    };
    if request.expects && waits && wire.ready().is_empty() {
        wire.put(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let mut body = Vec::new();
    match request.length {
        Length::Bytes(bytes) => read_bytes(wire, bytes as usize, until, &mut body)?,
        Length::Chunked => loop {
            let size =
                chunk_size(&read_line(wire, CHUNK_LINE_MOST, until)?).map_err(Wrong::Status)?;
            if size == 0 {
                read_trailers(wire, until)?;
                break;
            }
            if body.len() as u64 + size > most {
                return Err(Wrong::Status(413));
            }
            read_bytes(wire, size as usize, until, &mut body)?;
            if !read_line(wire, 2, until)?.is_empty() {
                return Err(Wrong::Status(400));
            }
        },
    }
    Ok(body)
}

fn read_bytes(
    wire: &mut Wire,
    count: usize,
    until: Instant,
    to: &mut Vec<u8>,
) -> Result<(), Wrong> {
    let mut left = count;
    while left > 0 {
        if wire.ready().is_empty() {
            wire.more(until)?;
        }
        let part = wire.ready().len().min(left);
        to.extend_from_slice(&wire.ready()[..part]);
        wire.use_up(part);
        left -= part;
    }
    Ok(())
}

/// Reads a line that ends with CR and LF, without them.
fn read_line(wire: &mut Wire, most: usize, until: Instant) -> Result<Vec<u8>, Wrong> {
    loop {
        match wire.ready().iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                let line = wire.ready()[..at].to_vec();
                wire.use_up(at + 1);
                return match line.strip_suffix(b"\r") {
                    Some(line) if line.len() <= most && !line.contains(&b'\r') => Ok(line.to_vec()),
                    _ => Err(Wrong::Status(400)),
                };
            }
            None if wire.ready().len() > most + 1 => return Err(Wrong::Status(400)),
            None => wire.more(until)?,
        }
    }
}

/// The size in the first line of a chunk; what follows a semicolon is ignored.
fn chunk_size(line: &[u8]) -> Result<u64, u16> {
    let end = line
        .iter()
        .position(|byte| *byte == b';')
        .unwrap_or(line.len());
    let digits = std::str::from_utf8(&line[..end])
        .map_err(|_| 400_u16)?
        .trim_end_matches([' ', '\t']);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(400);
    }
    u64::from_str_radix(digits, 16)
        .map_err(|_| 413)
        .and_then(|size| if size >> 48 == 0 { Ok(size) } else { Err(413) })
}

/// Reads the fields after the last chunk, which are thrown away.
fn read_trailers(wire: &mut Wire, until: Instant) -> Result<(), Wrong> {
    let mut bytes = 0;
    loop {
        let line = read_line(wire, CHUNK_LINE_MOST, until)?;
        if line.is_empty() {
            return Ok(());
        }
        bytes += line.len();
        let name = line.iter().position(|byte| *byte == b':').unwrap_or(0);
        if name == 0 || !line[..name].iter().copied().all(is_token) {
            return Err(Wrong::Status(400));
        }
        if bytes > TRAILER_MOST {
            return Err(Wrong::Status(431));
        }
    }
}
