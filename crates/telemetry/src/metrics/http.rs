//! A server for two pages: `/metrics` and `/health`. It serves one connection at a time, since a scraper comes every few
//! seconds, and gives each two seconds.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::registry;
use crate::view::{Health, HealthState, ProgramView};

/// The longest request head.
const HEAD_MOST: usize = 8192;
/// How long a request, or its answer, may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Processes and actors that `/health` looks at.
const LISTED: usize = 64;

/// Why metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The address is in use, or is none of this machine.
    #[error("metrics cannot be served at {address}: {source}; choose another address")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// Serves metrics until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// The address, with the port that the system chose if port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            drop(thread.join());
        }
    }
}

/// What is served: programs, each with up to this number of processes and actors.
pub type Views = dyn Fn(usize) -> Vec<ProgramView> + Send + Sync;

/// Starts to serve the metrics and the health of this program. It also makes engines that start from now on measure times.
///
/// # Errors
/// [`MetricsError`].
pub fn serve(address: SocketAddr) -> Result<MetricsServer, MetricsError> {
    let server = serve_views(address, Arc::new(|most| vec![registry::view(most)]))?;
    crate::raise(crate::Level::Measure);
    Ok(server)
}

/// Starts to serve the metrics and the health of these programs.
///
/// # Errors
/// [`MetricsError`].
pub fn serve_views(address: SocketAddr, views: Arc<Views>) -> Result<MetricsServer, MetricsError> {
    let failed = |source| MetricsError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                match stream {
                    // A client that is too slow, or has gone, gets no answer.
                    Ok(mut stream) => drop(answer(&mut stream, &*views)),
                    // Probably there are no free descriptors; another thread may close some.
                    Err(_) => std::thread::sleep(Duration::from_millis(10)),
                }
            }
        });
    let thread = Some(thread.map_err(failed)?);
    Ok(MetricsServer {
        address: bound,
        stop,
        thread,
    })
}

/// Reads the head of a request: its method and path.
fn request(stream: &mut TcpStream) -> io::Result<Option<(String, String)>> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut piece)?;
        head.extend_from_slice(&piece[..count]);
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(&head) {
            Ok(httparse::Status::Complete(_)) => {
                return Ok(parsed
                    .method
                    .zip(parsed.path)
                    .map(|(m, p)| (m.to_owned(), p.to_owned())));
            }
            Ok(httparse::Status::Partial) if count > 0 && head.len() <= HEAD_MOST => {}
            _ => return Ok(None),
        }
    }
}

struct Page {
    status: &'static str,
    kind: &'static str,
    body: String,
}

/// The worst health of all programs, with all reasons.
fn health(views: &[ProgramView]) -> Health {
    let all: Vec<_> = views.iter().map(ProgramView::health).collect();
    let reasons = all.iter().filter(|health| !health.reason.is_empty());
    let reasons: Vec<_> = reasons.map(|health| &*health.reason).collect();
    Health {
        state: all
            .iter()
            .map(|health| health.state)
            .max()
            .unwrap_or_default(),
        reason: reasons.join("; "),
    }
}

fn page(method: &str, path: &str, views: &Views) -> Page {
    let plain = |status, body: &str| Page {
        status,
        kind: "text/plain; charset=utf-8",
        body: format!("{body}\n"),
    };
    if method != "GET" && method != "HEAD" {
        return plain("405 Method Not Allowed", "use GET");
    }
    match path.split('?').next().unwrap_or_default() {
        "/metrics" => Page {
            status: "200 OK",
            kind: "application/openmetrics-text; version=1.0.0; charset=utf-8",
            body: super::text(&views(0)),
        },
        "/health" => {
            let health = health(&views(LISTED));
            let status = match health.state {
                HealthState::Failed => "503 Service Unavailable",
                _ => "200 OK",
            };
            let body = serde_json::to_string(&health).expect("strings are always JSON");
            Page {
                status,
                kind: "application/json",
                body: body + "\n",
            }
        }
        _ => plain("404 Not Found", "there are /metrics and /health"),
    }
}

fn answer(stream: &mut TcpStream, views: &Views) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = request(stream)?;
    let (page, bare) = match &request {
        Some((method, path)) => (page(method, path, views), method == "HEAD"),
        None => {
            let body = "this is no request that is understood\n".to_owned();
            (
                Page {
                    status: "400 Bad Request",
                    kind: "text/plain; charset=utf-8",
                    body,
                },
                false,
            )
        }
    };
    let Page { status, kind, body } = page;
    let length = body.len();
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if !bare {
        answer += &body;
    }
    stream.write_all(answer.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(server: &MetricsServer, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    #[test]
    fn pages_are_served_and_other_requests_are_refused() {
        let server = serve(([127, 0, 0, 1], 0).into()).expect("a port is free");
        let metrics = get(&server, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
        assert!(
            metrics.contains("\neverwarp_health{program=\"")
                && metrics.ends_with("\"} 1.0\n# EOF\n"),
            "{metrics}"
        );
        let health = get(&server, "GET /health HTTP/1.1\r\n\r\n");
        assert!(health.ends_with("\r\n\r\n{\"state\":\"ok\"}\n"), "{health}");
        let head = get(&server, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.ends_with("\r\n\r\n"), "{head}");
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("\u{1}\u{2}\r\n\r\n", "400"),
        ] {
            assert_eq!(&get(&server, request)[9..12], status);
        }
        let taken = serve(server.address()).expect_err("the port is taken");
        let text = taken.to_string();
        assert!(
            text.contains(&server.address().to_string()) && text.contains("choose another"),
            "{text}"
        );
    }
}
