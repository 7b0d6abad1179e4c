//! `everwarp serve`: an HTTP server. The host moves bytes; HTTP and routing are a WebAssembly program, `guests/http`, with a
//! process for each connection, and each request of a route is a process of the route's program.

use std::collections::BTreeSet;
use std::path::PathBuf;

use everwarp::process::{AddressRule, ListenAddress};

use crate::error::CliError;
use crate::process::{self, Route, Site};
use crate::run;

/// The program.
const HTTP: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../guests/built/http.wasm"
));
/// The exit code by which the program hands an idle connection back.
const IDLE_STATUS: &str = "75";
/// The name of the directory of files in the program.
pub(crate) const FILES: &str = "/files";

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// An address to listen on: a port of this machine, or ADDRESS:PORT.
    #[arg(long, value_name = "ADDR", required = true)]
    listen: Vec<ListenAddress>,
    /// A directory whose files are served. They are not changed.
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// A program that answers the requests of a path and of all paths beneath it, as one process for each request (CGI).
    #[arg(long, value_name = "/PATH=MODULE.wasm", value_parser = route)]
    route: Vec<Route>,
    /// A directory that the programs of the routes may use, and its name in them (by default the same).
    #[arg(long, value_name = "HOST[::GUEST]", value_parser = process::directory)]
    dir: Vec<(PathBuf, String)>,
    /// An address that the programs of the routes may connect or send to: PORTS of this machine, or HOST:PORTS, as in
    /// 192.0.2.1:80, example.com:443 or *:53.
    #[arg(long, value_name = "HOST:PORTS")]
    connect: Vec<AddressRule>,
    /// The engine: auto, cpu or cuda.
    #[arg(long, default_value = "auto")]
    engine: String,
    /// How many connections are served at the same time; further ones wait, and get their turn after half a second. A
    /// connection that has been idle for a quarter of a second does not count; after a minute it is closed. With Linux's
    /// default limits the CPU engine has room for some 9,500, or half as many with routes.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// How many seconds connections have to end after Ctrl-C or SIGTERM.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain: u32,
    /// How much the processes of a connection and of a request may execute each.
    #[arg(long, value_name = "N")]
    fuel: Option<u64>,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
    /// Name the addresses.
    #[arg(short, long)]
    verbose: bool,
}

fn route(text: &str) -> Result<Route, String> {
    let wrong = || format!("`{text}` is no route: use /PATH=MODULE.wasm");
    let (path, module) = text.split_once('=').ok_or_else(wrong)?;
    let plain = path
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"?#%=".contains(&byte));
    if !path.starts_with('/') || !plain || module.is_empty() {
        return Err(wrong());
    }
    let path = path.trim_end_matches('/');
    Ok(Route {
        path: if path.is_empty() { "/" } else { path }.to_owned(),
        module: PathBuf::from(module),
    })
}

/// Runs the server until a signal ends it, and returns the command's exit code.
pub(crate) fn main(args: ServeArgs) -> Result<u8, CliError> {
    let mut paths = BTreeSet::new();
    if let Some(twice) = args.route.iter().find(|route| !paths.insert(&route.path)) {
        return Err(CliError::Twice {
            option: "--route",
            name: twice.path.clone(),
        });
    }
    let mut words = Vec::<String>::new();
    let mut word = |parts: &[&str]| words.extend(parts.iter().map(|part| (*part).to_owned()));
    word(&["--alone", "--per-connection", "--engine", &args.engine]);
    for address in &args.listen {
        word(&["--listen", &address.to_string()]);
    }
    word(&["--connections", &args.connections.to_string()]);
    word(&["--drain", &args.drain.to_string()]);
    word(&["--idle-status", IDLE_STATUS]);
    if let Some(fuel) = args.fuel {
        word(&["--fuel", &fuel.to_string()]);
    }
    if args.json {
        word(&["--json"]);
    }
    if args.verbose {
        word(&["--verbose"]);
    }
    word(&["--", "--idle-status", IDLE_STATUS]);
    if args.files.is_some() {
        word(&["--files", FILES]);
    }
    for route in &args.route {
        word(&["--route", &route.path]);
    }
    let site = Site {
        program: HTTP,
        files: args.files,
        routes: args.route,
        directories: args.dir,
        connect: args.connect,
    };
    run::site(&words, site)
}
