//! The engine's side of the socket.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::folder::Folder;
use super::sockets::{self, ControlError};
use super::{Answer, Request};
use crate::lock::lock;

/// The longest request.
const REQUEST_MOST: usize = 4096;
/// How long a client may take to send its request.
const REQUEST_TIME: Duration = Duration::from_secs(2);
/// How long a client may take to read its answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// The most connections at the same time; further ones are closed.
const CONNECTIONS: usize = 16;
/// How long the end of the command waits for answers that are being written.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// The function that answers requests.
pub(super) type Answers = dyn Fn(Request) -> Answer + Send + Sync;

/// The number of open connections.
#[derive(Debug, Default)]
struct Connections {
    open: Mutex<usize>,
    closed: Condvar,
}

impl Connections {
    /// Counts a connection; false if there are too many.
    fn open(&self) -> bool {
        let mut open = lock(&self.open);
        let allowed = *open < CONNECTIONS;
        *open += usize::from(allowed);
        allowed
    }

    fn close(&self) {
        *lock(&self.open) -= 1;
        self.closed.notify_all();
    }

    /// Waits until all connections are closed, for a limited time.
    fn drain(&self, limit: Duration) {
        let open = lock(&self.open);
        drop(
            self.closed
                .wait_timeout_while(open, limit, |open| *open > 0),
        );
    }
}

/// Serves a socket until it is dropped, and then removes the socket.
#[derive(Debug)]
pub(super) struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    connections: Arc<Connections>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to listen for requests to this process.
    pub(super) fn start(folder: &Folder, answers: Arc<Answers>) -> Result<Self, ControlError> {
        folder.make()?;
        let path = sockets::socket(folder, std::process::id());
        let failed = |source| ControlError::Folder {
            path: path.clone(),
            source,
        };
        // A socket of this name was left by an earlier process with the same id.
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let connections = Arc::<Connections>::default();
        let (stopped, counted) = (stop.clone(), connections.clone());
        let own = folder.clone();
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || {
                remove_stale(&own);
                listen(&listener, &stopped, &answers, &counted);
            })
            .map_err(failed)?;
        Ok(Self {
            path,
            stop,
            connections,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread. If that fails, it sleeps until this program ends.
        let woken = UnixStream::connect(&self.path).is_ok();
        drop(std::fs::remove_file(&self.path));
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            drop(thread.join());
        }
        // The kill of the last process is answered while the command ends.
        self.connections.drain(LAST_ANSWERS);
    }
}

/// Removes sockets of programs that ended without removing them, as many as are found first.
fn remove_stale(folder: &Folder) {
    const MOST: usize = 64;
    for engine in sockets::sockets(folder).into_iter().flatten().take(MOST) {
        drop(super::client::connect(folder, engine));
    }
}

/// Whether the other side is the same user. The folder sees to that, and this is the second lock.
#[cfg(target_os = "linux")]
fn is_own(stream: &UnixStream) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(stream);
    peer.is_ok_and(|peer| peer.uid.as_raw() == super::folder::own_user())
}
#[cfg(not(target_os = "linux"))]
fn is_own(_: &UnixStream) -> bool {
    true
}

fn listen(
    listener: &UnixListener,
    stop: &AtomicBool,
    answers: &Arc<Answers>,
    connections: &Arc<Connections>,
) {
    for stream in listener.incoming() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else {
            // Probably there are no free descriptors; another thread may close some.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if !is_own(&stream) || !connections.open() {
            continue;
        }
        let (answers, counted) = (answers.clone(), connections.clone());
        let mut stream = stream;
        let serve = move || {
            // A client that has disconnected, or is too slow, gets no answer.
            drop(serve(&mut stream, &*answers));
            // Before the stream is closed: a client that sees that may connect again.
            counted.close();
        };
        let builder = std::thread::Builder::new().name("control".to_owned());
        if builder.spawn(serve).is_err() {
            connections.close();
        }
    }
}

/// The time until `until`. A socket's timeout must not be zero, so that is an error.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

/// Reads a line of limited length within a limited time, however slowly its bytes come.
pub(super) fn read_line(
    stream: &mut UnixStream,
    most: usize,
    time: Duration,
) -> io::Result<Vec<u8>> {
    let until = Instant::now() + time;
    let mut line = Vec::new();
    let mut piece = [0; 64 << 10];
    loop {
        stream.set_read_timeout(Some(left(until)?))?;
        let count = match stream.read(&mut piece) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            count => count?,
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let piece = &piece[..count];
        let end = piece.iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(&piece[..end.unwrap_or(count)]);
        if line.len() > most {
            let text = format!("more than {most} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if end.is_some() {
            return Ok(line);
        }
    }
}

/// Writes a line within a limited time.
pub(super) fn write_line(
    stream: &mut UnixStream,
    mut line: &[u8],
    time: Duration,
) -> io::Result<()> {
    let until = Instant::now() + time;
    while !line.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        match stream.write(line) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            count => line = &line[count?..],
        }
    }
    Ok(())
}

/// A message as a line of JSON.
pub(super) fn encode(message: &impl serde::Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("numbers and strings are always JSON");
    line.push(b'\n');
    line
}

fn serve(stream: &mut UnixStream, answers: &Answers) -> io::Result<()> {
    let answer = match read_line(stream, REQUEST_MOST, REQUEST_TIME) {
        Err(e) if e.kind() == io::ErrorKind::InvalidData => refuse(format!("the request has {e}")),
        line => match serde_json::from_slice(&line?) {
            Ok(request) => answers(request),
            Err(e) => refuse(format!("the request is not understood: {e}")),
        },
    };
    write_line(stream, &encode(&answer), ANSWER_TIME)
}

fn refuse(reason: String) -> Answer {
    Answer::Refused { reason }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn answer_under_way_is_written_before_the_server_ends() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::at(temporary.path().join("everwarp"));
        let (asked, seen) = mpsc::channel();
        let (allow, allowed) = mpsc::channel::<()>();
        let (asked, allowed) = (Mutex::new(asked), Mutex::new(allowed));
        let answers = move |_: Request| {
            let asked = lock(&asked);
            asked.send(()).expect("the test waits");
            let allowed = lock(&allowed);
            allowed.recv().expect("the test allows it");
            Answer::Done
        };
        let server = Server::start(&folder, Arc::new(answers)).expect("the socket can be made");
        let socket = sockets::socket(&folder, std::process::id());
        let mut client = UnixStream::connect(socket).expect("the server listens");
        let request = encode(&Request::View { most: 0 });
        write_line(&mut client, &request, REQUEST_TIME).expect("the server reads");
        seen.recv().expect("the request arrives");
        let ending = std::thread::spawn(move || drop(server));
        allow.send(()).expect("the server waits");
        ending.join().expect("the server ends");
        // It is there already: nothing is waited for.
        client.set_nonblocking(true).expect("a socket can be");
        let mut answer = vec![0; 256];
        let length = client.read(&mut answer).expect("the answer was written");
        assert_eq!(answer[..length], encode(&Answer::Done));
    }
}
