//! Frames over a Unix socket: 8 bytes of header, then up to [`BODY_MOST`] bytes, with up to [`DESCRIPTORS_MOST`]
//! descriptors.
//!
//! The header is the body's length (4 bytes), the number of descriptors (1 byte), and 3 bytes of zero. The descriptors
//! travel with the first bytes of the frame.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use everwarp_engine::sync::{ignore_poison, lock};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The longest body.
pub(crate) const BODY_MOST: usize = 1 << 20;
/// The most descriptors of one frame. The system's limit is 253.
pub(crate) const DESCRIPTORS_MOST: usize = 128;
const HEADER: usize = 8;
/// Bytes that may wait for a peer that does not read. A thread that has more to send waits.
const WAITING_MOST: usize = 4 << 20;

/// A frame that was received.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) body: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Receives the frames of one socket.
#[derive(Debug)]
pub(crate) struct FrameReceiver {
    socket: Arc<OwnedFd>,
    /// Bytes that were received, from `begin` on.
    buffer: Vec<u8>,
    begin: usize,
    descriptors: VecDeque<OwnedFd>,
}

impl FrameReceiver {
    pub(crate) fn new(socket: Arc<OwnedFd>) -> Self {
        Self {
            socket,
            buffer: Vec::new(),
            begin: 0,
            descriptors: VecDeque::new(),
        }
    }

    /// Receives the next frame; `None` if the peer has closed the socket between two frames.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::InvalidData`] for a frame that breaks the rules; and
    /// [`io::ErrorKind::UnexpectedEof`] if the socket is closed within a frame.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Frame>> {
        if !self.fill(HEADER)? {
            return Ok(None);
        }
        let header = &self.buffer[self.begin..self.begin + HEADER];
        let length = u32::from_le_bytes(header[..4].try_into().expect("four bytes")) as usize;
        let count = usize::from(header[4]);
        if length > BODY_MOST || count > DESCRIPTORS_MOST || header[5..] != [0; 3] {
            return Err(invalid("a frame's header is not one of this protocol"));
        }
        if !self.fill(HEADER + length)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let body = self.begin + HEADER..self.begin + HEADER + length;
        let body = self.buffer[body].to_vec();
        self.begin += HEADER + length;
        if self.descriptors.len() < count {
            // The receiver has too many files open, and the system has dropped them.
            return Err(invalid("descriptors of a frame did not arrive"));
        }
        Ok(Some(Frame {
            body,
            descriptors: self.descriptors.drain(..count).collect(),
        }))
    }

    /// Receives until there are `count` bytes; `false` if the socket was closed before the first of them.
    fn fill(&mut self, count: usize) -> io::Result<bool> {
        while self.buffer.len() - self.begin < count {
            if self.begin > 0 {
                self.buffer.drain(..self.begin);
                self.begin = 0;
            }
            let have = self.buffer.len();
            let room = (count - have).max(16 << 10);
            self.buffer.resize(have + room, 0);
            let received = self.receive_some(have);
            self.buffer
                .truncate(have + received.as_ref().map_or(0, |n| *n));
            match received? {
                0 if have == 0 => return Ok(false),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => {}
            }
        }
        Ok(true)
    }

    fn receive_some(&mut self, from: usize) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MOST))];
        loop {
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut slices = [IoSliceMut::new(&mut self.buffer[from..])];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = match recvmsg(&self.socket, &mut slices, &mut control, flags) {
                Err(rustix::io::Errno::INTR) => continue,
                received => received?,
            };
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    self.descriptors.extend(descriptors);
                }
            }
            if self.descriptors.len() > 2 * DESCRIPTORS_MOST {
                return Err(invalid("more descriptors came than frames announce"));
            }
            return Ok(received.bytes);
        }
    }
}

/// Sends frames to one socket, from any thread. A thread that comes while another one sends leaves its frame with that
/// sender and goes on, so that many small frames take few calls of the system.
#[derive(Debug)]
pub(crate) struct FrameSender {
    socket: Arc<OwnedFd>,
    state: Mutex<SendState>,
    sent: Condvar,
}

#[derive(Debug, Default)]
struct SendState {
    waiting: Vec<u8>,
    sending: bool,
    failed: bool,
}

impl FrameSender {
    pub(crate) fn new(socket: Arc<OwnedFd>) -> Self {
        Self {
            socket,
            state: Mutex::default(),
            sent: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, SendState> {
        lock(&self.state)
    }

    fn wait<'m>(&self, state: MutexGuard<'m, SendState>) -> MutexGuard<'m, SendState> {
        ignore_poison(self.sent.wait(state))
    }

    /// Sends a frame with descriptors.
    ///
    /// # Errors
    /// The peer has closed the socket, now or before.
    pub(crate) fn send(&self, body: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        assert!(
            body.len() <= BODY_MOST,
            "messages are split before they are sent"
        );
        if descriptors.len() > DESCRIPTORS_MOST {
            let text = format!("more than {DESCRIPTORS_MOST} files and directories");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut state = self.state();
        // Descriptors travel with the first bytes of their frame, so their sender does not leave it with another one.
        while state.sending
            && !state.failed
            && (!descriptors.is_empty() || state.waiting.len() > WAITING_MOST)
        {
            state = self.wait(state);
        }
        if state.failed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let length = (body.len() as u32).to_le_bytes();
        let count = descriptors.len() as u8;
        let header = [length[0], length[1], length[2], length[3], count, 0, 0, 0];
        if state.sending {
            state.waiting.extend_from_slice(&header);
            state.waiting.extend_from_slice(body);
            return Ok(());
        }
        state.sending = true;
        drop(state);
        let mut result = send_all(&self.socket, &[&header, body], descriptors);
        loop {
            let mut state = self.state();
            state.failed |= result.is_err();
            if state.waiting.is_empty() || state.failed {
                state.sending = false;
                self.sent.notify_all();
                return result;
            }
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            self.sent.notify_all();
            result = send_all(&self.socket, &[&waiting], &[]);
        }
    }
}

/// Sends all bytes, and descriptors with the first of them.
pub(crate) fn send_all(
    socket: &impl AsFd,
    parts: &[&[u8]],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let pushed = control.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(pushed, "there is room for as many as are sent");
    }
    let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut left = &mut slices[..];
    while left.iter().any(|part| !part.is_empty()) {
        // A peer that has closed the socket is an error of this call and no signal.
        match sendmsg(socket, left, &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            sent => {
                IoSlice::advance_slices(&mut left, sent?);
                control = SendAncillaryBuffer::new(&mut []);
            }
        }
    }
    Ok(())
}

/// Ends both directions of a socket, for every program that has it. Threads that wait for it return.
pub(crate) fn shut_down(socket: &impl AsFd) {
    // A socket whose peer is gone cannot be shut down, and need not be.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (FrameSender, FrameReceiver, UnixStream) {
        let (a, b) = UnixStream::pair().expect("sockets can be made");
        let raw = a.try_clone().expect("it can be duplicated");
        let sender = FrameSender::new(Arc::new(a.into()));
        (sender, FrameReceiver::new(Arc::new(b.into())), raw)
    }

    #[test]
    fn frames_arrive_in_order_with_their_own_descriptors() {
        let (sender, mut receiver, raw) = pair();
        let files: Vec<_> = (0..3)
            .map(|n| {
                let mut file = tempfile::tempfile().expect("a temporary file");
                write!(file, "file {n}").expect("it is writable");
                file.rewind().expect("it can be read again");
                file
            })
            .collect();
        sender.send(b"none", &[]).expect("it is read");
        sender
            .send(b"one", &[files[0].as_fd()])
            .expect("it is read");
        let two = [files[1].as_fd(), files[2].as_fd()];
        sender.send(&[7; 70_000], &two).expect("it is read");
        drop((sender, raw));
        let mut seen = Vec::new();
        while let Some(frame) = receiver.receive().expect("frames") {
            let texts = frame.descriptors.into_iter().map(|fd| {
                let mut text = String::new();
                let mut file = std::fs::File::from(fd);
                file.read_to_string(&mut text).expect("it is text");
                text
            });
            seen.push((frame.body.len(), texts.collect::<Vec<_>>()));
        }
        let texts = |numbers: &[u32]| numbers.iter().map(|n| format!("file {n}")).collect();
        assert_eq!(
            seen,
            [(4, texts(&[])), (3, texts(&[0])), (70_000, texts(&[1, 2]))]
        );
    }

    #[test]
    fn frames_of_many_threads_arrive_whole() {
        let (sender, mut receiver, raw) = pair();
        drop(raw);
        const FRAMES: u32 = 2_000;
        std::thread::scope(|scope| {
            let sender = Arc::new(sender);
            for thread in 0..4_u8 {
                let sender = Arc::clone(&sender);
                scope.spawn(move || {
                    for n in 0..FRAMES {
                        let mut body = vec![thread; (n % 700) as usize + 5];
                        body[1..5].copy_from_slice(&n.to_le_bytes());
                        sender.send(&body, &[]).expect("it is read");
                    }
                });
            }
            drop(sender);
            let mut next = [0; 4];
            while let Some(Frame { body, .. }) = receiver.receive().expect("frames") {
                let thread = usize::from(body[0]);
                let n = u32::from_le_bytes(body[1..5].try_into().expect("four bytes"));
                assert_eq!((n, body.len()), (next[thread], (n % 700) as usize + 5));
                assert!(body[5..].iter().all(|byte| usize::from(*byte) == thread));
                next[thread] += 1;
            }
            assert_eq!(next, [FRAMES; 4]);
        });
    }

    #[test]
    fn broken_frames_are_errors() {
        let cases: [(&[u8], io::ErrorKind); 5] = [
            (&[0xff; 8], io::ErrorKind::InvalidData),
            (&[1, 0, 0, 0, 0, 1, 0, 0, 9], io::ErrorKind::InvalidData),
            (&[1, 0, 0, 0, 1, 0, 0, 0, 9], io::ErrorKind::InvalidData),
            (&[1, 0, 0], io::ErrorKind::UnexpectedEof),
            (&[2, 0, 0, 0, 0, 0, 0, 0, 9], io::ErrorKind::UnexpectedEof),
        ];
        for (bytes, kind) in cases {
            let (sender, mut receiver, mut raw) = pair();
            raw.write_all(bytes).expect("it is read");
            drop((sender, raw));
            let error = receiver.receive().expect_err("it is broken");
            assert_eq!(error.kind(), kind, "{bytes:?}");
        }
    }

    #[test]
    fn a_closed_peer_is_an_error_for_every_sender() {
        let (sender, receiver, raw) = pair();
        drop((receiver, raw));
        for _ in 0..2 {
            let sent = sender.send(b"lost", &[]);
            assert_eq!(sent.map_err(|e| e.kind()), Err(io::ErrorKind::BrokenPipe));
        }
    }
}
