//! How requests are served: the one place where each call meets its code.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use everwarp_contract::hostcall::{BadCall, HostCall, number};
use everwarp_process::Pid;

use crate::counters::Counters;
use crate::endings::Endings;
use crate::errno::{Errno, Result};
use crate::events::{AnswerCallback, FunctionState, Woken};
use crate::exit::ExitReason;
use crate::limits::DATA_BYTES;
use crate::openings::WaitingOpening;
use crate::poll::{Clocks, Poll};
use crate::process::Process;
use crate::read::FileRead;
use crate::request::{Reply, Request};
use crate::service::Service;
use crate::stat::Time;
use crate::wait::{Served, Wait, WantedFunction};
use crate::waits::{Waits, cancelled};
use crate::{dir, file, net, readdir, sockets};

impl Service {
    /// Serves a request: `reply` is the answer, unless the request must wait, which [`Service::wait_for`] does. When
    /// this returns, the end of a process that has exited has been reported.
    #[must_use = "a request that must wait has not been answered"]
    pub fn answer(&self, request: &Request<'_>, reply: &mut Reply) -> Option<Wait> {
        let mut endings = Endings::default();
        let served = self.serve(request, reply, &mut endings);
        self.report_ends(&mut endings);
        self.serve_openings();
        match served {
            Served::Answered => None,
            Served::Waits(wait) => Some(wait),
        }
    }

    /// Serves a request. The end of a process that exits is added to `endings`, and not reported.
    pub(crate) fn serve(
        &self,
        request: &Request<'_>,
        reply: &mut Reply,
        endings: &mut Endings,
    ) -> Served {
        reply.clear();
        let served = self.try_serve(request, reply, endings);
        let served = served.unwrap_or_else(|errno| {
            reply.set(Err(errno));
            Served::Answered
        });
        match served {
            Served::Waits(_) => Counters::add(&self.counters.waited, 1),
            Served::Answered => self.counters.answered(reply),
        }
        served
    }

    fn try_serve(
        &self,
        request: &Request<'_>,
        reply: &mut Reply,
        endings: &mut Endings,
    ) -> Result<Served> {
        // The host does not know the process of the first two yet, or does not need it; and a process that has never
        // called need not be opened for its exit.
        match request.call {
            Ok(HostCall::Adopt { slot, generation }) => {
                let ancestor = Pid::new(slot, generation);
                return self.adopt(request.process, ancestor).map(answered);
            }
            Ok(HostCall::Interrupt { slot, generation }) => {
                return self
                    .interrupt_child(Pid::new(slot, generation))
                    .map(answered);
            }
            Err(BadCall::Argument {
                number: number::ADOPT | number::INTERRUPT,
            }) => return Err(Errno::INVAL),
            _ => {}
        }
        if request.payload.len() > request.room.min(DATA_BYTES) {
            return self.refuse(Errno::INVAL);
        }
        if let Ok(HostCall::Exit {
            kind,
            code,
            trap,
            function,
            offset,
            fuel_left,
        }) = request.call
        {
            let trap = ExitReason::Trap {
                kind: trap,
                function,
                offset,
            };
            let reason = ExitReason::of_exit(kind, code, trap);
            return self
                .serve_exit(request, reason, fuel_left, endings)
                .map(answered);
        }
        let process = self.process(request.process).or_else(|e| self.refuse(e))?;
        if let Some(number) = request.number() {
            self.counters.called(number, request.payload.len());
        }
        match request.call {
            Ok(call) => self.serve_known(process, call, request, reply),
            Err(BadCall::Argument { .. }) => Err(Errno::INVAL),
            Err(BadCall::Unknown { .. }) => self.refuse(Errno::NOSYS),
        }
    }

    /// Counts a request that no process can have meant.
    fn refuse<T>(&self, errno: Errno) -> Result<T> {
        Counters::add(&self.counters.refused, 1);
        Err(errno)
    }

    fn serve_exit(
        &self,
        request: &Request<'_>,
        reason: Result<ExitReason>,
        fuel_left: u64,
        endings: &mut Endings,
    ) -> Result {
        if !self.knows(request.process) {
            return self.refuse(Errno::SRCH);
        }
        endings.count(&request.payload);
        let ended = self.end(request.process, reason?, &request.payload, endings);
        let mut ended = ended.ok_or(Errno::SRCH)?;
        ended.exit.fuel_left = fuel_left;
        endings.ended.push(ended);
        Ok(())
    }

    /// Serves a call of a known process. A call of the table that is not served here does not compile.
    fn serve_known(
        &self,
        process: Arc<Process>,
        call: HostCall,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Served> {
        let of = &*process;
        let bytes = &*request.payload;
        match call {
            // These may have to wait.
            HostCall::PathOpen { .. } => return self.serve_open(process, request, reply),
            HostCall::PollOneoff {
                count,
                realtime,
                monotonic,
            } => {
                let now = Instant::now();
                let clocks = Clocks {
                    realtime,
                    monotonic,
                };
                let poll = Poll::new(of, count, bytes, clocks, now)?;
                reply.values[0] = poll.finish(of, now, &mut reply.data);
                if reply.values[0] == 0 {
                    return Ok(Served::Waits(Wait::for_events(process, poll)));
                }
                Ok(())
            }
            HostCall::FdRead { fd, length } => {
                let at = None;
                return FileRead { fd, length, at }.plain(process, request, reply);
            }
            HostCall::FdWrite { fd } => {
                if process.descriptor(fd)?.socket().is_some() {
                    return sockets::send(process, fd, 0, request, reply);
                }
                file::write(of, fd, bytes, reply)
            }
            HostCall::SockAccept { fd, flags } => {
                return sockets::accept(process, &self.openings, (fd, flags), request, reply);
            }
            HostCall::SockRecv { fd, length, flags } => {
                return sockets::receive(process, fd, (length, flags), request, reply);
            }
            HostCall::SockSend { fd, flags } => {
                return sockets::send(process, fd, flags, request, reply);
            }
            HostCall::NetLaunch { name_length } => {
                sockets::launch(of, &self.openings, name_length, bytes, reply)
            }
            HostCall::SockShutdown { fd, how } => sockets::shut_down(of, fd, how),
            HostCall::NetSocket { family, kind } => {
                net::open(of, &self.openings, (family, kind), reply)
            }
            HostCall::NetBind {
                fd,
                first,
                second,
                third,
            } => net::bind(of, fd, [first, second, third]),
            HostCall::NetConnect {
                fd,
                first,
                second,
                third,
            } => return net::connect(process, fd, [first, second, third], request, reply),
            HostCall::NetListen { fd, backlog } => net::listen(of, fd, backlog),
            HostCall::NetAddress { fd, which } => net::address(of, fd, which, reply),
            HostCall::NetSendTo {
                fd,
                first,
                second,
                third,
            } => return net::send_to(process, fd, [first, second, third], request, reply),
            HostCall::NetReceiveFrom { fd, length, flags } => {
                return net::receive_from(process, fd, (length, flags), request, reply);
            }
            HostCall::NetOption { fd, option } => net::option(of, fd, option, reply),
            HostCall::NetSetOption { fd, option, value } => net::set_option(of, fd, option, value),
            HostCall::NetLookUp { most } => return net::look_up(process, most, request, reply),
            HostCall::FdPread { fd, length, offset } => {
                let at = Some(offset);
                return FileRead { fd, length, at }.plain(process, request, reply);
            }

            HostCall::Nop {
                first,
                second,
                third,
            } => {
                reply.values = [first, second, third];
                reply.data.extend_from_slice(bytes);
                Ok(())
            }
            // `try_serve` serves these, because they need no open process.
            HostCall::Exit { .. } | HostCall::Adopt { .. } | HostCall::Interrupt { .. } => {
                Err(Errno::NOSYS)
            }
            HostCall::NeedFunction { function } => {
                return self.serve_function(process, request.process, function);
            }
            HostCall::CallOff { slot } => {
                self.waits.call_off(&process, slot);
                Ok(())
            }
            HostCall::Output { stream } => {
                let sink = match stream {
                    1 => &of.stdout,
                    2 => &of.stderr,
                    _ => return Err(Errno::INVAL),
                };
                sink.write(bytes)?;
                reply.values[0] = bytes.len() as u64;
                Ok(())
            }

            HostCall::FdAdvise {
                fd,
                offset,
                length,
                advice,
            } => file::advise(of, fd, (offset, length), advice),
            HostCall::FdAllocate { fd, .. } => file::allocate(of, fd),
            HostCall::FdClose { fd } => file::close(of, fd),
            HostCall::FdDatasync { fd } => file::sync(of, fd, File::sync_data),
            HostCall::FdSync { fd } => file::sync(of, fd, File::sync_all),
            HostCall::FdFdstatGet { fd } => file::fdstat(of, fd, reply),
            HostCall::FdFdstatSetFlags { fd, flags } => file::set_flags(of, fd, flags),
            HostCall::FdFdstatSetRights { fd, .. } => file::set_rights(of, fd),
            HostCall::FdFilestatGet { fd } => file::filestat_get(of, fd, reply),
            HostCall::FdFilestatSetSize { fd, size } => file::set_size(of, fd, size),
            HostCall::FdFilestatSetTimes {
                fd,
                accessed,
                modified,
                flags,
            } => file::set_times(of, fd, Time::pair(accessed, modified, flags)?),
            HostCall::FdPrestatGet { fd } => dir::prestat(of, fd, reply),
            HostCall::FdPrestatDirName { fd, length } => {
                dir::prestat_name(of, fd, request.length(length), reply)
            }
            HostCall::FdPwrite { fd, offset } => file::pwrite(of, fd, offset, bytes, reply),
            HostCall::FdReaddir {
                fd,
                length,
                cookie,
                skip,
            } => readdir::readdir(of, fd, request.length(length), (cookie, skip), reply),
            HostCall::FdRenumber { from, to } => file::renumber(of, from, to),
            HostCall::FdSeek { fd, delta, whence } => file::seek(of, fd, delta, whence, reply),
            HostCall::FdTell { fd } => file::tell(of, fd, reply),

            HostCall::PathCreateDirectory { fd } => {
                dir::change(of, fd, request, |dir, path| dir.create_dir(path))
            }
            HostCall::PathFilestatGet { fd, lookup } => {
                dir::filestat_get(of, fd, lookup, request, reply)
            }
            HostCall::PathFilestatSetTimes {
                fd,
                lookup,
                accessed,
                modified,
                flags,
            } => {
                let times = Time::pair(accessed, modified, flags)?;
                dir::set_times(of, fd, lookup, times, request)
            }
            HostCall::PathLink {
                old_fd,
                lookup,
                old_length,
                new_fd,
            } => dir::link(of, (old_fd, lookup, old_length), new_fd, request),
            HostCall::PathReadlink { fd, length } => dir::readlink(of, fd, length, request, reply),
            HostCall::PathRemoveDirectory { fd } => dir::change(of, fd, request, dir::remove),
            HostCall::PathRename {
                old_fd,
                old_length,
                new_fd,
            } => dir::rename(of, (old_fd, old_length), new_fd, request),
            HostCall::PathSymlink { target_length, fd } => {
                dir::symlink(of, target_length, fd, request)
            }
            HostCall::PathUnlinkFile { fd } => {
                dir::change(of, fd, request, |dir, path| dir.remove_file(path))
            }
        }
        .map(answered)
    }

    /// Asks for a function.
    fn serve_function(&self, process: Arc<Process>, pid: Pid, function: u32) -> Result<Served> {
        let wanted = WantedFunction {
            events: Arc::clone(self.events()),
            process: pid,
            function,
        };
        match wanted.state() {
            FunctionState::Present => Ok(Served::Answered),
            FunctionState::Unavailable => Err(Errno::NOSYS),
            FunctionState::Awaited => Ok(Served::Waits(Wait::for_function(process, wanted))),
        }
    }

    /// Answers the requests for functions that there is an answer to by now. To be called after
    /// [`Events::function`](crate::Events::function) returns something else for a function than before.
    pub fn functions_changed(&self) {
        self.waits.functions_changed();
    }

    /// Opens a file or directory if there is room for one.
    fn serve_open(
        &self,
        process: Arc<Process>,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Served> {
        match self.openings.take(&process.held)? {
            Some(permit) => dir::open(&process, request, reply, permit).map(answered),
            None if request.patient => Ok(Served::Waits(Wait::for_room(process, request))),
            None => Err(Errno::LATER),
        }
    }

    /// Answers a read from the page cache; `false` if it cannot be, and then nothing has happened.
    pub(crate) fn read_from_cache(
        &self,
        read: &FileRead,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> bool {
        reply.clear();
        let process = self.process(request.process).ok();
        let done = process.and_then(|process| read.try_cache(&process, request, reply));
        if done.is_some() {
            self.count_read(request, reply);
        }
        done.is_some()
    }

    /// Counts a read and its answer.
    pub(crate) fn count_read(&self, request: &Request<'_>, reply: &Reply) {
        if let Some(number) = request.number() {
            self.counters.called(number, 0);
        }
        self.counters.answered(reply);
    }

    /// Waits, on a thread of the service or for room, and calls `answer` when there is an answer.
    pub fn wait_for(&self, wait: Wait, answer: AnswerCallback) {
        self.wait(wait, answer);
        self.serve_openings();
    }

    /// The same, but the caller calls [`Service::serve_openings`] before long.
    pub(crate) fn wait(&self, wait: Wait, answer: AnswerCallback) {
        let counters = Arc::clone(&self.counters);
        let answer: AnswerCallback = Box::new(move |reply| {
            counters.answered(reply);
            answer(reply)
        });
        match wait.into_opening() {
            Ok((process, request)) => {
                let there = Arc::clone(&process);
                self.openings.wait(WaitingOpening {
                    process,
                    request,
                    answer,
                });
                if there.ended.load(SeqCst) {
                    self.cancel_openings(false);
                }
            }
            Err(wait) => {
                let events = Arc::clone(self.events());
                let done = move |reply: &Reply| {
                    if let Some(woken) = answer(reply) {
                        events.wake(&[woken]);
                    }
                };
                Waits::add(&self.waits, wait, Box::new(done));
            }
        }
    }

    /// Serves the requests for which there is now room to open something.
    pub(crate) fn serve_openings(&self) {
        let mut woken = Vec::new();
        loop {
            let next = self.openings.next();
            if next.is_empty() {
                return;
            }
            for (waiting, permit) in next {
                let mut reply = Reply::default();
                let opened = permit.ok_or(Errno::CANCELED).and_then(|permit| {
                    dir::open(&waiting.process, &waiting.request, &mut reply, permit)
                });
                reply.set(opened);
                woken.extend((waiting.answer)(&reply));
            }
            self.wake(&woken);
            woken.clear();
        }
    }

    /// Cancels everything that waits, and returns when that is done.
    pub fn cancel_waits(&self) {
        self.cancel_openings(true);
        self.waits.cancel();
    }

    /// Cancels what a process that has ended waits to open.
    pub(crate) fn cancel_openings_of(&self, process: &Process) {
        if process.waits.load(SeqCst) > 0 {
            self.cancel_openings(false);
        }
    }

    fn cancel_openings(&self, all: bool) {
        let reply = cancelled();
        let off = self.openings.cancel(all).into_iter();
        let woken: Vec<_> = off.filter_map(|waiting| (waiting.answer)(&reply)).collect();
        self.wake(&woken);
    }

    fn wake(&self, woken: &[Woken]) {
        if !woken.is_empty() {
            self.events().wake(woken);
        }
    }
}

fn answered((): ()) -> Served {
    Served::Answered
}
