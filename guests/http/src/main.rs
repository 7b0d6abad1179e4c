//! An HTTP/1.1 server for one connection, which is its standard input and output: a process of `everwarp serve`, or of
//! `everwarp run http.wasm --listen PORT --per-connection`. `http [--files DIR] [--route /PATH]...` answers with the files
//! beneath a directory, and for the paths of routes by the programs that the host knows by these names. With
//! `--idle-status CODE` it exits with that code when no request comes or the host asks for the connection, and leaves that to the host.
//!
//! The host moves bytes; everything about HTTP is here.

mod cgi;
mod date;
mod files;
mod request;
mod response;
mod wasi;
mod wire;

use std::process::ExitCode;
use std::time::Duration;

use request::{Next, Request, Wrong};
use response::send_status;
use wire::{Broken, Wire};

/// Bytes of the largest body.
const BODY_MOST: u64 = 16 << 20;
/// Requests of one connection.
const REQUESTS_MOST: u32 = 100_000;
/// How long a connection may be idle between two requests, and how long until it is handed back.
const IDLE_LIMIT: Duration = Duration::from_secs(30);
const LINGER: Duration = Duration::from_millis(250);

/// What the command line asks for.
struct Site {
    files: Option<String>,
    /// The paths of programs, the longest first.
    routes: Vec<String>,
    /// The exit code that leaves the connection to the host until the next request comes.
    idle_status: Option<u8>,
}

impl Site {
    fn of_args(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut site = Self {
            files: None,
            routes: Vec::new(),
            idle_status: None,
        };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--files" => site.files = Some(args.next().ok_or("--files needs a directory")?),
                "--route" => site.routes.push(args.next().ok_or("--route needs a path")?),
                "--idle-status" => {
                    let status = args.next().and_then(|status| status.parse().ok());
                    site.idle_status = Some(status.ok_or("--idle-status needs a code")?);
                }
                other => {
                    return Err(format!(
                        "`{other}` is no option: use http [--files DIR] [--route /PATH]... [--idle-status CODE]"
                    ));
                }
            }
        }
        site.routes
            .sort_by_key(|route| std::cmp::Reverse(route.len()));
        Ok(site)
    }

    /// The route for a path, and the part of the path beneath it.
    fn route<'s, 'p>(&'s self, path: &'p str) -> Option<(&'s str, &'p str)> {
        self.routes
            .iter()
            .find_map(|route| Some((route.as_str(), cgi::beneath(route, path)?)))
    }
}

/// Answers one request; returns whether the connection goes on.
fn answer(wire: &mut Wire, site: &Site, request: &Request) -> Result<bool, Wrong> {
    // A file needs no body, but what was sent has to be read before the next request.
    let body = request::read_body(wire, request, BODY_MOST)?;
    let answered = match (site.route(&request.path), &site.files) {
        (Some(route), _) => cgi::answer(wire, request, route, &body),
        (None, Some(directory)) => files::answer(wire, request, directory),
        (None, None) => send_status(wire, 404, Some(request)),
    };
    answered.map_err(|broken| match broken {
        Broken::End | Broken::Late | Broken::Failed => Wrong::Broken,
    })
}

/// Answers the requests of the connection, one after the other. Returns whether the connection goes on without this process.
fn serve(wire: &mut Wire, site: &Site) -> Result<bool, Wrong> {
    let hands_back = site.idle_status.is_some();
    let limit = if hands_back { LINGER } else { IDLE_LIMIT };
    for _ in 0..REQUESTS_MOST {
        // Others wait for their turn. What was read and not used would be lost.
        if hands_back && wire.is_asked_back() && wire.ready().is_empty() {
            wire.flush()?;
            return Ok(true);
        }
        let request = match request::read(wire, limit)? {
            Next::Request(request) => request,
            Next::Idle => return Ok(hands_back),
            Next::End => return Ok(false),
        };
        if !answer(wire, site, &request)? {
            return Ok(false);
        }
    }
    Ok(false)
}

fn main() -> ExitCode {
    let site = match Site::of_args(std::env::args().skip(1)) {
        Ok(site) => site,
        Err(wrong) => {
            eprintln!("http: {wrong}");
            return ExitCode::from(2);
        }
    };
    let mut wire = Wire::new();
    match serve(&mut wire, &site) {
        // The code is there: only with it a connection is handed back.
        Ok(true) => return ExitCode::from(site.idle_status.unwrap_or(0)),
        Ok(false) => wire.close(),
        Err(Wrong::Status(status)) => {
            if send_status(&mut wire, status, None).is_ok() {
                wire.close();
            }
        }
        Err(Wrong::Broken) => {}
    }
    ExitCode::SUCCESS
}
