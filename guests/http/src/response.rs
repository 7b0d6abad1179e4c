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

/// The head of an answer.
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) keep: bool,
}

impl Head {
    pub(crate) fn new(status: u16, keep: bool) -> Self {
        Self {
            status,
            fields: Vec::new(),
            keep,
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }

    /// Sends the head.
    pub(crate) fn send(&self, wire: &mut Wire) -> Result<(), Broken> {
        let mut text = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        text += &format!(
            "Date: {}\r\n",
            date::format(date::seconds(SystemTime::now()))
        );
        for (name, value) in &self.fields {
            text += &format!("{name}: {value}\r\n");
        }
        text += if self.keep {
            "Connection: keep-alive\r\n\r\n"
        } else {
            "Connection: close\r\n\r\n"
        };
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
        .with("Content-Length", text.len());
    if status == 405 {
        head = head.with("Allow", "GET, HEAD");
    }
    head.send(wire)?;
    if request.is_none_or(|request| request.method != "HEAD") {
        wire.put(text.as_bytes())?;
    }
    Ok(keep)
}
