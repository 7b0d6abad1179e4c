//! Answers.

use std::time::SystemTime;

use crate::date;
use crate::request::Request;
use crate::wire::{Broken, Wire};

/// The words of a status.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Status",
    }
}

/// The head of an answer, as it is sent. It is put together from pieces of text: the formatter of the standard library takes several
/// times as long.
pub(crate) struct Head {
    text: String,
    keep: bool,
}

impl Head {
    pub(crate) fn new(status: u16, keep: bool) -> Self {
        let mut text = String::with_capacity(256);
        text += "HTTP/1.1 ";
        text += &status.to_string();
        text += " ";
        text += reason(status);
        text += "\r\n";
        let now = date::format(date::seconds(SystemTime::now()));
        Self { text, keep }.with("Date", &now)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        for piece in [name, ": ", value, "\r\n"] {
            self.text += piece;
        }
        self
    }

    /// With the length of what follows.
    pub(crate) fn with_length(self, bytes: u64) -> Self {
        self.with("Content-Length", &bytes.to_string())
    }

    /// Sends the head.
    pub(crate) fn send(self, wire: &mut Wire) -> Result<(), Broken> {
        let connection = if self.keep { "keep-alive" } else { "close" };
        let mut text = self.with("Connection", connection).text;
        text += "\r\n";
        wire.put(text.as_bytes())
    }
}

/// Sends an answer that consists of its status, with the words of it as text.
pub(crate) fn send_status(
    wire: &mut Wire,
    status: u16,
    request: Option<&Request>,
) -> Result<bool, Broken> {
    let keep = request.is_some_and(|request| request.keep);
    let text = format!("{status} {}\n", reason(status));
    let mut head = Head::new(status, keep)
        .with("Content-Type", "text/plain")
        .with_length(text.len() as u64);
    if status == 405 {
        head = head.with("Allow", "GET, HEAD");
    }
    head.send(wire)?;
    if request.is_none_or(|request| request.method != "HEAD") {
        wire.put(text.as_bytes())?;
    }
    Ok(keep)
}
