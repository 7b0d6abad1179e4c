//! The channel ends of a client, and its sets of lines.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everwarp_engine::sync::lock;
use everwarp_engine::trace::spanned;
use everwarp_process::{ChannelEnd, ChannelError};

use super::{ENDS_MOST, Misbehaved, SETS_MOST, Session};
use crate::protocol::{LineCounts, Reply, SystemError};

impl Session {
    pub(super) fn read_lines(&self, request: u32, files: Vec<OwnedFd>) -> Result<(), Misbehaved> {
        let file = files.into_iter().next();
        let file = file.ok_or_else(|| Misbehaved("lines without their file".to_owned()))?;
        let mut sets = lock(&self.lines);
        if sets.len() >= SETS_MOST {
            return Err(Misbehaved(format!("more than {SETS_MOST} sets of lines")));
        }
        let lines = || self.settings.backend.lines(File::from(file));
        let read = spanned("service: read lines", lines);
        let result = match read {
            Ok(lines) => {
                let counts = LineCounts {
                    lines: lines.count(),
                    bytes: lines.bytes(),
                };
                sets.push(lines);
                Ok(counts)
            }
            Err(error) => Err(SystemError::from(&error)),
        };
        drop(sets);
        self.reply(request, Reply::LinesRead { result });
        Ok(())
    }

    pub(super) fn make_channel(
        &self,
        capacity: u32,
        bytes: u32,
    ) -> Result<Result<(u32, u32), ChannelError>, Misbehaved> {
        let host = self.host()?;
        let mut ends = lock(&host.ends);
        if ends.len() + 2 > ENDS_MOST {
            return Ok(Err(ChannelError::Limit));
        }
        let (sender, receiver) = match host.engine.channel(capacity, bytes) {
            Ok(made) => made,
            Err(error) => return Ok(Err(error)),
        };
        let first = host.next_end.fetch_add(2, Ordering::AcqRel);
        ends.insert(first, Arc::new(sender.end()));
        ends.insert(first + 1, Arc::new(receiver.end()));
        Ok(Ok((first, first + 1)))
    }

    pub(super) fn end_of(&self, number: u32) -> Result<Arc<ChannelEnd>, Misbehaved> {
        let end = lock(&self.host()?.ends).get(&number).cloned();
        end.ok_or_else(|| Misbehaved("a channel end that it does not have".to_owned()))
    }
}
