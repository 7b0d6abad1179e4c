//! Programs that answer requests, as one process for each (CGI, RFC 3875).

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::FromRawFd;
use std::time::Duration;

use crate::request::Request;
use crate::response::{Head, send_status};
use crate::wasi::{self, For};
use crate::wire::{Broken, Wire};

/// How long a program may neither take nor give anything.
const PROGRAM_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of the head that a program may write.
const HEAD_MOST: usize = 16 << 10;
/// Bytes that are read at a time.
const PIECE: usize = 16 << 10;

/// A program that runs for a request: a connection to its standard input and output.
struct Program {
    fd: u32,
    file: File,
}

/// What a program does next.
enum Step {
    /// It takes more of the body.
    Takes,
    /// It gives bytes, or ends.
    Gives,
}

impl Program {
    fn launch(name: &str, variables: &[u8]) -> io::Result<Self> {
        let fd = wasi::launch(name, variables)?;
        wasi::do_not_wait(fd);
        // SAFETY: the descriptor is new, and nothing else uses it.
        let file = unsafe { File::from_raw_fd(fd as i32) };
        Ok(Self { fd, file })
    }

    /// Waits for the program, which has `left` bytes to take.
    fn step(&self, left: usize) -> Option<Step> {
        let both = [(self.fd, For::Read), (self.fd, For::Write)];
        let wanted = if left > 0 { &both[..] } else { &both[..1] };
        match wasi::wait_any(wanted, PROGRAM_LIMIT) {
            Ok(Some(ready)) if ready.which == 0 => Some(Step::Gives),
            Ok(Some(_)) => Some(Step::Takes),
            _ => None,
        }
    }
}

/// Whether a path is that of a route, or beneath it; then the part beneath.
pub(crate) fn beneath<'p>(route: &str, path: &'p str) -> Option<&'p str> {
    let rest = path.strip_prefix(route.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// The variables of a request. A field called `Proxy` is left out, because programs would take `HTTP_PROXY` for a setting.
fn variables(request: &Request, route: &str, info: &str, body: usize) -> Vec<u8> {
    let mut list = Vec::new();
    let mut add = |name: &str, value: &str| {
        list.extend_from_slice(name.as_bytes());
        list.push(b'=');
        list.extend_from_slice(value.as_bytes());
        list.push(0);
    };
    let host = request.field("host").unwrap_or("");
    let (server, port) = match host.rsplit_once(':') {
        Some((server, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (server, port),
        _ => (host, "80"),
    };
    add("GATEWAY_INTERFACE", "CGI/1.1");
    add("SERVER_SOFTWARE", "everwarp");
    add(
        "SERVER_PROTOCOL",
        if request.new { "HTTP/1.1" } else { "HTTP/1.0" },
    );
    add("SERVER_NAME", server);
    add("SERVER_PORT", port);
    add("REQUEST_METHOD", &request.method);
    add("SCRIPT_NAME", route.trim_end_matches('/'));
    add("PATH_INFO", info);
    add("QUERY_STRING", &request.query);
    for name in ["REMOTE_ADDR", "REMOTE_PORT"] {
        if let Ok(value) = std::env::var(name) {
            add(name, &value);
        }
    }
    if body > 0 {
        add("CONTENT_LENGTH", &body.to_string());
    }
    for (name, value) in &request.fields {
        match name.as_str() {
            "content-type" => add("CONTENT_TYPE", value),
            "content-length" | "transfer-encoding" | "connection" | "expect" | "proxy" => {}
            _ => {
                let name = name.to_ascii_uppercase().replace('-', "_");
                add(&format!("HTTP_{name}"), value);
            }
        }
    }
    list
}

/// The head that a program has written: the status, and the fields to pass on.
struct ProgramHead {
    status: u16,
    fields: Vec<(String, String)>,
    length: Option<u64>,
}

/// Where the head ends and the body begins.
fn split_head(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut at = 0;
    while let Some(end) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        let line = &bytes[at..at + end];
        if line.is_empty() || line == b"\r" {
            return Some((at, at + end + 1));
        }
        at += end + 1;
    }
    None
}

fn parse_head(bytes: &[u8]) -> Option<ProgramHead> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut head = ProgramHead {
        status: 200,
        fields: Vec::new(),
        length: None,
    };
    let mut says_something = false;
    for line in text.lines() {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        let plain = |text: &str| text.bytes().all(|byte| byte >= 0x20 && byte != 0x7f);
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) || !plain(value) {
            return None;
        }
        match name.to_ascii_lowercase().as_str() {
            "status" => {
                head.status = value
                    .split(' ')
                    .next()?
                    .parse()
                    .ok()
                    .filter(|status| (200..600).contains(status))?;
                says_something = true;
            }
            "content-length" => head.length = Some(value.parse().ok()?),
            // These are the server's.
            "connection" | "transfer-encoding" | "keep-alive" | "date" => {}
            lower => {
                says_something |= lower == "content-type" || lower == "location";
                if lower == "location" && head.status == 200 {
                    head.status = 302;
                }
                head.fields.push((name.to_owned(), value.to_owned()));
            }
        }
    }
    says_something.then_some(head)
}

/// The answer of a program on its way to the client.
struct Relay<'w> {
    wire: &'w mut Wire,
    /// The head has been sent; before, what the program has written so far.
    head: Option<Body>,
    written: Vec<u8>,
}

/// How the body goes to the client.
#[derive(Clone, Copy)]
struct Body {
    chunked: bool,
    /// Bytes that the program has promised and not written.
    left: Option<u64>,
    /// The client gets none.
    silent: bool,
    keep: bool,
}

/// Why a program's answer cannot be passed on.
enum Bad {
    /// The program has written what is no answer.
    Program,
    Client(Broken),
}

impl From<Broken> for Bad {
    fn from(broken: Broken) -> Self {
        Self::Client(broken)
    }
}

impl Relay<'_> {
    /// Passes bytes of the program on.
    fn give(&mut self, bytes: &[u8], request: &Request) -> Result<(), Bad> {
        let Some(body) = self.head else {
            self.written.extend_from_slice(bytes);
            return match split_head(&self.written) {
                Some((end, begin)) => self.begin(end, begin, request),
                None if self.written.len() > HEAD_MOST => Err(Bad::Program),
                None => Ok(()),
            };
        };
        self.send(body, bytes)
    }

    /// Sends the head, and the beginning of the body.
    fn begin(&mut self, end: usize, begin: usize, request: &Request) -> Result<(), Bad> {
        let head = parse_head(&self.written[..end]).ok_or(Bad::Program)?;
        let silent = request.method == "HEAD" || matches!(head.status, 204 | 304);
        let chunked = head.length.is_none() && request.new && !silent;
        // Without a length the end of the connection is the end of the body.
        let keep = request.keep && (head.length.is_some() || chunked || silent);
        let mut answer = Head::new(head.status, keep);
        for (name, value) in &head.fields {
            answer = answer.with(name, value);
        }
        if chunked {
            answer = answer.with("Transfer-Encoding", "chunked");
        } else if let Some(length) = head.length {
            answer = answer.with_length(length);
        }
        answer.send(self.wire)?;
        let body = Body {
            chunked,
            left: head.length,
            silent,
            keep,
        };
        self.head = Some(body);
        let first = self.written.split_off(begin);
        self.send(body, &first)
    }

    fn send(&mut self, mut body: Body, bytes: &[u8]) -> Result<(), Bad> {
        if let Some(left) = &mut body.left {
            // More than was promised would be taken for the next answer.
            *left = left.checked_sub(bytes.len() as u64).ok_or(Bad::Program)?;
        }
        self.head = Some(body);
        if body.silent || bytes.is_empty() {
            return Ok(());
        }
        if body.chunked {
            self.wire.put(format!("{:x}\r\n", bytes.len()).as_bytes())?;
        }
        self.wire.put(bytes)?;
        if body.chunked {
            self.wire.put(b"\r\n")?;
        }
        Ok(())
    }

    /// The program has ended: ends the answer. Returns whether the connection goes on.
    fn finish(&mut self) -> Result<bool, Bad> {
        let body = self.head.ok_or(Bad::Program)?;
        if body.chunked {
            self.wire.put(b"0\r\n\r\n")?;
        }
        let complete = body.silent || body.left.is_none_or(|left| left == 0);
        Ok(body.keep && complete)
    }
}

/// Runs the program to its end: the body goes in while the answer comes out.
fn relay(
    program: &mut Program,
    relay: &mut Relay<'_>,
    request: &Request,
    body: &[u8],
) -> Result<bool, Bad> {
    let mut left = body;
    if left.is_empty() {
        wasi::end_sending(program.fd);
    }
    let mut piece = vec![0; PIECE];
    loop {
        match program.step(left.len()).ok_or(Bad::Program)? {
            Step::Takes => match program.file.write(left) {
                Ok(count) => {
                    left = &left[count..];
                    if left.is_empty() {
                        wasi::end_sending(program.fd);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // It wants no more, which it may.
                Err(_) => left = &[],
            },
            Step::Gives => match program.file.read(&mut piece) {
                Ok(0) => return relay.finish(),
                Ok(count) => relay.give(&piece[..count], request)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // It has ended with a part of the body unread.
                Err(_) => return relay.finish(),
            },
        }
    }
}

/// Answers a request by the program of a route; returns whether the connection goes on.
pub(crate) fn answer(
    wire: &mut Wire,
    request: &Request,
    (route, info): (&str, &str),
    body: &[u8],
) -> Result<bool, Broken> {
    let variables = variables(request, route, info, body.len());
    let mut program = match Program::launch(route, &variables) {
        Ok(program) => program,
        Err(error) => {
            // 42 is the error number for variables that are too long together.
            let status = if error.raw_os_error() == Some(42) {
                431
            } else {
                503
            };
            return send_status(wire, status, Some(request));
        }
    };
    let mut answer = Relay {
        wire,
        head: None,
        written: Vec::new(),
    };
    match relay(&mut program, &mut answer, request, body) {
        Ok(keep) => Ok(keep),
        Err(Bad::Client(broken)) => Err(broken),
        Err(Bad::Program) if answer.head.is_none() => send_status(wire, 502, Some(request)),
        // The client sees that the answer is not complete.
        Err(Bad::Program) => Err(Broken::Failed),
    }
}
