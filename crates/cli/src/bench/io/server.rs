//! The servers that are measured: commands of their own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::load::Reply;

/// The file that is served.
pub(super) const HELLO: &[u8] = b"hello, world!\n";
/// How long a server may take to start, and to give its first answer.
const PATIENCE: Duration = Duration::from_secs(60);

const ECHO: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../guests/built/echo.wasm"
));
const CGI: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../guests/c/built/cgi.wasm"
));

const FORTH: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../guests/built/forth.wasm"
));

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Echo,
    Http,
}

/// A server that runs. It is ended when it is dropped.
pub(super) struct Server {
    child: Child,
    began: Instant,
    address: SocketAddr,
    protocol: Protocol,
    path: &'static str,
    /// Its files.
    _folder: TempDir,
}

fn folder() -> io::Result<TempDir> {
    let folder = TempDir::new()?;
    let site = folder.path().join("site");
    std::fs::create_dir(&site)?;
    std::fs::write(site.join("hello.txt"), HELLO)?;
    std::fs::write(folder.path().join("echo.wasm"), ECHO)?;
    std::fs::write(folder.path().join("cgi.wasm"), CGI)?;
    std::fs::write(folder.path().join("forth.wasm"), FORTH)?;
    Ok(folder)
}

fn this() -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.envs(crate::bench::backend_setting());
    Ok(command)
}

impl Server {
    /// A process for each connection, which echoes.
    pub(super) fn echo(engine: &str, connections: usize) -> io::Result<Self> {
        Self::filter(engine, connections, "echo.wasm", &[])
    }

    /// A process for each connection, which interprets what it receives.
    pub(super) fn interpreter(engine: &str, connections: usize) -> io::Result<Self> {
        Self::filter(engine, connections, "forth.wasm", &["--memory", "1M"])
    }

    fn filter(engine: &str, connections: usize, module: &str, more: &[&str]) -> io::Result<Self> {
        let folder = folder()?;
        let mut command = this()?;
        command
            .arg("run")
            .arg(folder.path().join(module))
            .args(["--alone", "--per-connection", "--drain", "0"])
            .args(more);
        Self::everwarp(command, (engine, connections), folder, Protocol::Echo, "")
    }

    /// `everwarp serve` with a file.
    pub(super) fn http(engine: &str, connections: usize) -> io::Result<Self> {
        let folder = folder()?;
        let mut command = this()?;
        command.args(["serve", "--drain", "0", "--files"]);
        command.arg(folder.path().join("site"));
        let size = (engine, connections);
        Self::everwarp(command, size, folder, Protocol::Http, "/hello.txt")
    }

    /// `everwarp serve` with a program for each request.
    pub(super) fn cgi(engine: &str, connections: usize) -> io::Result<Self> {
        let folder = folder()?;
        let mut command = this()?;
        let route = format!("/hello={}", folder.path().join("cgi.wasm").display());
        command.args(["serve", "--drain", "0", "--route", &route]);
        let size = (engine, connections);
        Self::everwarp(command, size, folder, Protocol::Http, "/hello")
    }

    fn everwarp(
        mut command: Command,
        (engine, connections): (&str, usize),
        folder: TempDir,
        protocol: Protocol,
        path: &'static str,
    ) -> io::Result<Self> {
        command
            .args(["--engine", engine, "--listen", "0", "--verbose"])
            .args(["--connections", &connections.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn()?;
        let errors = child.stderr.take().expect("it is piped");
        let address = announced(errors, &mut child, |line| {
            let (_, rest) = line.split_once("each connection to ")?;
            rest.split(' ').next()?.parse().ok()
        })?;
        Ok(Self {
            child,
            began,
            address,
            protocol,
            path,
            _folder: folder,
        })
    }

    /// Threads of the host alone.
    pub(super) fn looped(protocol: Protocol) -> io::Result<Self> {
        let name = match protocol {
            Protocol::Echo => "server:echo",
            Protocol::Http => "server:http",
        };
        Self::row("cpu", name, protocol)
    }

    /// Tasks of the native program `echo` on an engine.
    pub(super) fn native(engine: &str, slots: usize) -> io::Result<Self> {
        Self::row(engine, &format!("server:native:{slots}"), Protocol::Echo)
    }

    /// The same program, which replies to each request of HTTP.
    pub(super) fn native_http(engine: &str, slots: usize) -> io::Result<Self> {
        let name = format!("server:native-http:{slots}");
        Self::row(engine, &name, Protocol::Http)
    }

    /// A server of this benchmark.
    fn row(engine: &str, name: &str, protocol: Protocol) -> io::Result<Self> {
        let mut command = this()?;
        command
            .args(["bench", "io", "--engine", engine, "--row", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn()?;
        let out = child.stdout.take().expect("it is piped");
        let address = announced(out, &mut child, |line| line.trim().parse().ok())?;
        Ok(Self {
            child,
            began,
            address,
            protocol,
            path: "/hello.txt",
            _folder: folder()?,
        })
    }

    /// nginx; `None` if it is not installed.
    pub(super) fn nginx() -> Option<io::Result<Self>> {
        let found = Command::new("nginx")
            .arg("-v")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.is_ok().then(Self::start_nginx)
    }

    fn start_nginx() -> io::Result<Self> {
        let folder = folder()?;
        // A port that is free now; nginx does not say which it has chosen.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let path = folder.path().join("nginx.conf");
        std::fs::write(&path, nginx_settings(folder.path(), address))?;
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder.path()).arg("-e").arg("stderr");
        command
            .arg("-c")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let began = Instant::now();
        let child = command.spawn()?;
        Ok(Self {
            child,
            began,
            address,
            protocol: Protocol::Http,
            path: "/hello.txt",
            _folder: folder,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bytes of a request.
    pub(super) fn request(&self) -> Vec<u8> {
        match self.protocol {
            Protocol::Echo => {
                b"sixty-four bytes, as a small message of a chat or a game has....".to_vec()
            }
            Protocol::Http => {
                format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", self.path).into_bytes()
            }
        }
    }

    /// The first reply, and how long the server took from its start to that.
    ///
    /// # Errors
    /// It does not answer, or not with success.
    pub(super) fn first_reply(&self) -> io::Result<(Reply, f64)> {
        let stream = loop {
            match TcpStream::connect(self.address) {
                Ok(stream) => break stream,
                Err(error) if self.began.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        (&stream).write_all(&self.request())?;
        if self.protocol == Protocol::Echo {
            let expected = self.request();
            let mut got = vec![0; expected.len()];
            (&stream).read_exact(&mut got)?;
            let right = got == expected;
            let reply = right.then(|| Reply::exact(&expected));
            let reply = reply.ok_or(io::ErrorKind::InvalidData)?;
            return Ok((reply, self.began.elapsed().as_secs_f64()));
        }
        let mut reader = BufReader::new(&stream);
        let mut reply = Vec::new();
        let (mut length, mut chunked) = (None, false);
        loop {
            let from = reply.len();
            if reader.read_until(b'\n', &mut reply)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = String::from_utf8_lossy(&reply[from..]).to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse::<usize>().ok();
            }
            chunked |= line.starts_with("transfer-encoding: chunked");
            if line == "\r\n" {
                break;
            }
        }
        let success = reply.starts_with(b"HTTP/1.1 200 ");
        let head = reply.len();
        match length {
            _ if !success => {}
            Some(length) => {
                reply.resize(head + length, 0);
                reader.read_exact(&mut reply[head..])?;
            }
            None if chunked => {
                while !reply.ends_with(b"\r\n0\r\n\r\n") {
                    if reader.read_until(b'\n', &mut reply)? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
            None => {}
        }
        if !success || reply.len() == head {
            let message = format!("no success: {}", String::from_utf8_lossy(&reply));
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        if self.path.ends_with(".txt") && reply[head..] != *HELLO {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let start_s = self.began.elapsed().as_secs_f64();
        Ok((Reply::http(reply), start_s))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // nginx's first process ends its workers when it is asked to end.
        let asked = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        );
        let begin = Instant::now();
        while asked.is_ok() && begin.elapsed() < Duration::from_secs(5) {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines until one has the address, and goes on reading, so that the server never waits for room.
fn announced(
    from: impl Read + Send + 'static,
    child: &mut Child,
    find: impl Fn(&str) -> Option<SocketAddr>,
) -> io::Result<SocketAddr> {
    let mut lines = BufReader::new(from);
    let mut said = String::new();
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::other(said.trim().to_owned()));
        }
        if let Some(address) = find(&line) {
            std::thread::spawn(move || io::copy(&mut lines, &mut io::sink()));
            return Ok(address);
        }
        said += &line;
    }
}

fn nginx_settings(folder: &Path, address: SocketAddr) -> String {
    let folder = folder.display();
    format!(
        "daemon off;\nworker_processes 2;\nworker_rlimit_nofile 20000;\npid {folder}/nginx.pid;\nerror_log stderr crit;\n\
         events {{ worker_connections 16000; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  keepalive_requests 1000000000;\n  keepalive_timeout 600s;\n\
         \x20 types {{ text/plain txt; }}\n\
         \x20 client_body_temp_path {folder}/body;\n  proxy_temp_path {folder}/proxy;\n  fastcgi_temp_path {folder}/fastcgi;\n\
         \x20 uwsgi_temp_path {folder}/uwsgi;\n  scgi_temp_path {folder}/scgi;\n\
         \x20 server {{ listen {address} backlog=4096; root {folder}/site; open_file_cache max=10; }}\n}}\n"
    )
}
