//! The program of the example site in `guests/notes/site`, for a route of `everwarp serve`:
//!
//! ```text
//! everwarp serve --listen 8080 --files guests/notes/site --route /notes=guests/built/notes.wasm --dir /tmp/notes::/notes
//! ```
//!
//! | request | answer |
//! |---|---|
//! | `GET /notes` | the notes in JSON: their names and sizes |
//! | `POST /notes` with the form's `name` and `text` | keeps a note, and leads back to the form |
//! | `PUT /notes/NAME` with any bytes | keeps them: an upload |
//! | `GET /notes/NAME`, `DELETE /notes/NAME` | the note; its end |
//!
//! Each request is a process, and a note is a file in the directory that the process was given. It is written under another
//! name first and then renamed, so two requests for one name leave one of the two notes, whole.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The directory of the notes, as `--dir` names it.
const NOTES: &str = "/notes";
/// Bytes of a note: less than the server's limit for a body.
const NOTE_MOST: usize = 8 << 20;
const NAME_MOST: usize = 64;

/// An answer: the status with its reason, a field, and a body.
struct Answer {
    status: &'static str,
    field: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(status: &'static str, body: String) -> Self {
        Self {
            status,
            field: "Content-Type: application/json".to_owned(),
            body: body.into_bytes(),
        }
    }

    fn error(status: &'static str, reason: &str) -> Self {
        Self::json(status, format!("{{\"error\":\"{reason}\"}}\n"))
    }
}

/// Whether a text can be the name of a note. Such a name is written in JSON and in paths as it is.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=NAME_MOST).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(plain)
}

/// A value of a form: `+` is a space, and `%41` is an `A`.
fn decode(value: &str) -> Option<Vec<u8>> {
    let mut bytes = value.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    Some(decoded)
}

/// The value of a field of a form.
fn of_form(form: &str, name: &str) -> Option<Vec<u8>> {
    let mut fields = form.split('&').filter_map(|field| field.split_once('='));
    fields.find_map(|(field, value)| (field == name).then(|| decode(value))?)
}

fn path_of(name: &str) -> PathBuf {
    Path::new(NOTES).join(name)
}

/// Keeps a note. Its first name is that of no note, and of no other process.
fn keep(name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut attempt = 0;
    loop {
        let first = path_of(&format!(".{name}.{attempt}"));
        let made = fs::File::create_new(&first);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => {
                attempt += 1;
            }
            made => {
                let written = made.and_then(|mut file| file.write_all(bytes));
                let kept = written.and_then(|()| fs::rename(&first, path_of(name)));
                if kept.is_err() {
                    // It may not be there.
                    drop(fs::remove_file(&first));
                }
                return kept;
            }
        }
    }
}

fn list() -> io::Result<Answer> {
    let mut notes = Vec::new();
    for entry in fs::read_dir(NOTES)? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        // A note may have been removed since it was listed.
        if let (true, Ok(about)) = (is_name(&name), entry.metadata()) {
            notes.push(format!("{{\"name\":\"{name}\",\"bytes\":{}}}", about.len()));
        }
    }
    notes.sort();
    Ok(Answer::json("200 OK", format!("[{}]\n", notes.join(","))))
}

fn kept(name: &str, body: &[u8]) -> io::Result<Answer> {
    keep(name, body)?;
    let about = format!("{{\"name\":\"{name}\",\"bytes\":{}}}\n", body.len());
    Ok(Answer::json("201 Created", about))
}

fn form(body: &[u8]) -> io::Result<Answer> {
    let fields = std::str::from_utf8(body).ok().and_then(|form| {
        let name = String::from_utf8(of_form(form, "name")?).ok()?;
        Some((name, of_form(form, "text")?))
    });
    let Some((name, text)) = fields.filter(|(name, _)| is_name(name)) else {
        let reason =
            "a form needs a name of letters, digits, dots, hyphens and underscores, and a text";
        return Ok(Answer::error("400 Bad Request", reason));
    };
    keep(&name, &text)?;
    Ok(Answer {
        status: "303 See Other",
        field: "Location: /".to_owned(),
        body: Vec::new(),
    })
}

fn answer(method: &str, info: &str, kind: &str, body: &[u8]) -> io::Result<Answer> {
    if body.len() > NOTE_MOST {
        return Ok(Answer::error(
            "413 Content Too Large",
            "a note has up to 8 MiB",
        ));
    }
    let name = info.strip_prefix('/').unwrap_or(info);
    let is_form =
        kind.split(';').next().unwrap_or("").trim() == "application/x-www-form-urlencoded";
    match (method, name) {
        ("GET" | "HEAD", "") => list(),
        ("POST", "") if is_form => form(body),
        ("POST", "") => Ok(Answer::error("415 Unsupported Media Type", "send a form")),
        (_, name) if !name.is_empty() && !is_name(name) => {
            Ok(Answer::error("404 Not Found", "no note has such a name"))
        }
        ("GET" | "HEAD", name) => Ok(Answer {
            status: "200 OK",
            // A browser must not take a note of a stranger for a page of this site.
            field: "Content-Type: application/octet-stream".to_owned(),
            body: fs::read(path_of(name))?,
        }),
        ("PUT", name) if !name.is_empty() => kept(name, body),
        ("DELETE", name) if !name.is_empty() => {
            fs::remove_file(path_of(name))?;
            Ok(Answer::json("200 OK", "{}\n".to_owned()))
        }
        _ => Ok(Answer::error(
            "405 Method Not Allowed",
            "use GET, POST, PUT or DELETE",
        )),
    }
}

fn main() -> io::Result<()> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let mut body = Vec::new();
    io::stdin().lock().read_to_end(&mut body)?;
    let (method, info) = (variable("REQUEST_METHOD"), variable("PATH_INFO"));
    let answer = match answer(&method, &info, &variable("CONTENT_TYPE"), &body) {
        Ok(answer) => answer,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Answer::error(
            "404 Not Found",
            "there is no such note, or no directory of notes",
        ),
        Err(error) => {
            eprintln!("notes: {error}");
            Answer::error("500 Internal Server Error", "the note cannot be reached")
        }
    };
    let mut out = io::stdout().lock();
    write!(out, "Status: {}\r\n{}\r\n\r\n", answer.status, answer.field)?;
    out.write_all(&answer.body)?;
    out.flush()
}
