//! The page of `everwarp web` in a headless browser, which needs no GPU: its results are verified there, and posted to a
//! server of this test. `.ci/install-chromium --env` prints the variable that names the browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use everwarp_testkit::{Needed, Running};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

/// The time that a browser may take, in software on two busy cores.
const LIMIT: Duration = Duration::from_secs(150);

fn main() {
    let browser = std::env::var("EVERWARP_CHROMIUM").map_err(|_| "EVERWARP_CHROMIUM is not set");
    let needed = Needed::look("a browser", &browser);
    let one = browser.unwrap_or_default();
    let other = one.clone();
    let trials = vec![
        Trial::test("the_command_writes_a_whole_page", whole_page),
        Trial::test("files_of_others_are_not_replaced", files_of_others),
        needed.trial(Trial::test("a_browser_verifies_both_programs", move || {
            verifies(&one)
        })),
        needed.trial(Trial::test(
            "a_browser_without_webgpu_shows_the_reason",
            move || without(&other),
        )),
    ];
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials).exit();
}

/// Writes the page to a folder.
fn page() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    let output = everwarp_testkit::output(command.arg("web").arg(folder.path().join("page")));
    assert!(output.status.success(), "{output:?}");
    folder
}

fn whole_page() -> Result<(), Failed> {
    let folder = page();
    let read = |name: &str| std::fs::read_to_string(folder.path().join("page").join(name));
    let index = read("index.html")?;
    // Every file that the page names is there, and it names no other host.
    let names: Vec<_> = ["src=\"", "href=\""]
        .iter()
        .flat_map(|mark| index.split(mark).skip(1))
        .map(|rest| rest.split('"').next().expect("a quote"))
        .collect();
    assert_eq!(names.len(), 5, "{names:?}");
    for name in names {
        assert!(!read(name)?.is_empty(), "{name}");
    }
    // Each constant that the host reads is in the image's text.
    let (host, image) = (read("host.js")?, read("image.js")?);
    let mut names = 0;
    for (at, mark) in host.match_indices("is.") {
        // `this.` ends like it.
        if host[..at].ends_with(char::is_alphanumeric) {
            continue;
        }
        let rest = &host[at + mark.len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let name = &rest[..end.unwrap_or(rest.len())];
        assert!(image.contains(&format!("\\nconst {name} = ")), "{name}");
        names += 1;
    }
    assert!(names >= 10, "{names}");
    Ok(())
}

fn files_of_others() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let index = folder.path().join("index.html");
    std::fs::write(&index, "mine")?;
    let run = |folder: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
        everwarp_testkit::output(command.arg("web").arg(folder))
    };
    let output = run(folder.path());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("index.html") && text.contains("another folder"),
        "{text}"
    );
    assert_eq!(std::fs::read_to_string(&index)?, "mine");
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 1);
    // An older page is replaced.
    let older = page();
    let older = older.path().join("page");
    std::fs::write(older.join("index.html"), "old")?;
    let output = run(&older);
    assert!(output.status.success(), "{output:?}");
    assert_ne!(std::fs::read_to_string(older.join("index.html"))?, "old");
    Ok(())
}

/// Serves a folder to a browser, and hands over what it posts.
fn serve(listener: TcpListener, folder: std::path::PathBuf, posted: Sender<Value>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { return };
        let (folder, posted) = (folder.clone(), posted.clone());
        std::thread::spawn(move || {
            let _ = answer(stream, &folder, &posted);
        });
    }
}

fn answer(stream: TcpStream, folder: &Path, posted: &Sender<Value>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let lower = line.trim().to_lowercase();
        if lower.is_empty() {
            break;
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let path = first.split(' ').nth(1).unwrap_or("/");
    let name = path.trim_start_matches('/').split('?').next().unwrap_or("");
    let (status, kind, body) = if first.starts_with("POST /result") {
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let _ = posted.send(serde_json::from_slice(&body).unwrap_or(Value::Null));
        ("200 OK", "text/plain", Vec::new())
    } else {
        let kind = match name.rsplit('.').next() {
            Some("html") => "text/html",
            Some("css") => "text/css",
            Some("js") => "text/javascript",
            _ => "text/plain",
        };
        match std::fs::read(folder.join(name)) {
            Ok(body) if !name.contains("..") => ("200 OK", kind, body),
            _ => ("404 Not Found", "text/plain", Vec::new()),
        }
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)
}

/// Opens the page in a browser, and returns what it posts.
fn browse(browser: &str, query: &str, flags: &[&str]) -> Result<Value, Failed> {
    let folder = page();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let (posted, results): (Sender<Value>, Receiver<Value>) = channel();
    let files = folder.path().join("page");
    std::thread::spawn(move || serve(listener, files, posted));
    let profile = tempfile::tempdir()?;
    let mut command = Command::new(browser);
    command
        .args(["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-background-networking"])
        .args(flags)
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{address}/index.html?{query}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut running = Running::start(&mut command);
    let result = results.recv_timeout(LIMIT);
    running.kill();
    Ok(result.map_err(|_| format!("the page posted nothing within {LIMIT:?}"))?)
}

fn verifies(browser: &str) -> Result<(), Failed> {
    let result = browse(
        browser,
        "post&fib=16&width=48&height=32&seed=7&draw=0",
        &["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"],
    )?;
    assert_eq!(result["error"], Value::Null, "{result}");
    let (fib, maze) = (&result["fib"], &result["maze"]);
    assert_eq!(fib["right"], true, "{result}");
    assert_eq!(fib["value"], 987, "{result}");
    assert_eq!(fib["tasks"], 4789, "{result}");
    assert_eq!(maze["right"], true, "{result}");
    assert_eq!(maze["cells"], 48 * 32, "{result}");
    let levels = maze["levels"].as_u64().expect("a number");
    assert!(
        levels > 48 + 32 - 2,
        "a maze is no shorter than its sides: {result}"
    );
    eprintln!("{result}");
    Ok(())
}

fn without(browser: &str) -> Result<(), Failed> {
    let result = browse(
        browser,
        "post",
        &[
            "--disable-features=WebGPU",
            "--disable-gpu",
            "--disable-blink-features=WebGPU",
        ],
    )?;
    let error = result["error"].as_str().unwrap_or_default();
    assert!(error.contains("WebGPU"), "{result}");
    Ok(())
}
