//! A record of what happens to files, from which the images are made that a power cut may leave. For tests.
//!
//! A write may be on the device from the start of its call on. It is there for certain when a sync has succeeded that started after
//! the call had returned. Until then each sector may have what it had at the last such sync or after any later write, whatever the
//! others have; and so may the file's size. A sector is old or new, not half of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that a device writes as one.
const SECTOR: usize = 512;

#[derive(Debug)]
enum Change {
    Bytes { at: usize, bytes: Vec<u8> },
    Size(usize),
}

#[derive(Debug)]
enum Event {
    /// A change begins. Of a change that fails nothing is left.
    Begin { file: u64, change: Change },
    /// The change of an earlier event is seen by all programs.
    End(usize),
    /// A sync begins.
    Flush { file: u64 },
    /// The sync of an earlier event has succeeded.
    Flushed(usize),
}

/// What has happened to all files of a `Files`, in order.
#[derive(Debug, Default)]
pub struct Record {
    events: Mutex<Vec<Event>>,
    /// Held by appends, whose place is where the file ends.
    appends: Mutex<()>,
}

impl Change {
    /// Makes the change, and returns the range of bytes that it has touched.
    fn apply(&self, image: &mut Vec<u8>) -> (usize, usize) {
        let before = image.len();
        match self {
            Self::Bytes { at, bytes } if bytes.is_empty() => (*at, *at),
            Self::Bytes { at, bytes } => {
                let end = at + bytes.len();
                image.resize(before.max(end), 0);
                image[*at..end].copy_from_slice(bytes);
                (*at, end)
            }
            Self::Size(size) => {
                image.resize(*size, 0);
                (before.min(*size), before.max(*size))
            }
        }
    }
}

fn sector(image: &[u8], number: usize) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    let first = (number * SECTOR).min(image.len());
    let part = &image[first..(first + SECTOR).min(image.len())];
    bytes[..part.len()].copy_from_slice(part);
    bytes
}

impl Record {
    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn push(&self, event: Event) -> usize {
        let mut events = self.events();
        events.push(event);
        events.len() - 1
    }
    /// How many events there are: the present moment.
    pub fn moment(&self) -> usize {
        self.events().len()
    }

    pub(crate) fn write(
        &self,
        file: &File,
        at: Option<u64>,
        bytes: Vec<u8>,
        call: impl FnOnce(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let stat = |file: &File| file.metadata();
        let appends = self.appends.lock();
        let _held = at.is_none().then_some(appends);
        let size = stat(file)?.size();
        let change = Change::Bytes {
            at: at.unwrap_or(size) as usize,
            bytes: bytes.clone(),
        };
        let file = stat(file)?.ino();
        let begin = self.push(Event::Begin { file, change });
        let moved = call(&bytes);
        let mut events = self.events();
        if let Some(Event::Begin {
            change: Change::Bytes { bytes, .. },
            ..
        }) = events.get_mut(begin)
        {
            bytes.truncate(*moved.as_ref().unwrap_or(&0));
        }
        events.push(Event::End(begin));
        moved
    }
    pub(crate) fn truncate(
        &self,
        file: &File,
        size: u64,
        call: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let change = Change::Size(size as usize);
        let file = file.metadata()?.ino();
        let begin = self.push(Event::Begin { file, change });
        let done = call();
        let mut events = self.events();
        if let (Err(_), Some(Event::Begin { change, .. })) = (&done, events.get_mut(begin)) {
            *change = Change::Bytes {
                at: 0,
                bytes: Vec::new(),
            };
        }
        events.push(Event::End(begin));
        done
    }
    pub(crate) fn sync(
        &self,
        file: &File,
        call: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let flush = self.push(Event::Flush {
            file: file.metadata()?.ino(),
        });
        call()?;
        self.push(Event::Flushed(flush));
        Ok(())
    }

    /// What programs saw of a file at a moment, by its inode.
    pub fn seen(&self, moment: usize, file: u64) -> Vec<u8> {
        let mut image = Vec::new();
        let events = self.events();
        for event in &events[..moment] {
            if let Event::End(begin) = event
                && let Event::Begin { file: of, change } = &events[*begin]
                && *of == file
            {
                change.apply(&mut image);
            }
        }
        image
    }
    /// An image of a file that a power cut at a moment may leave, chosen at random. Without `heeding` syncs, as if there had been
    /// none.
    pub fn image(
        &self,
        moment: usize,
        file: u64,
        heeding: bool,
        random: &mut dyn FnMut() -> u64,
    ) -> Vec<u8> {
        let events = self.events();
        let past = &events[..moment];
        // The last sync that has succeeded, by its beginning.
        let flushes = past.iter().filter_map(|event| match event {
            Event::Flushed(flush) if heeding => Some(*flush),
            _ => None,
        });
        let of_file =
            |flush: &usize| matches!(&events[*flush], Event::Flush { file: of } if *of == file);
        let flush = flushes.filter(of_file).max().unwrap_or(0);
        let ends = past[..flush].iter().filter_map(|event| match event {
            Event::End(begin) => Some(*begin),
            _ => None,
        });
        let safe: BTreeSet<usize> = ends.collect();
        let (mut image, mut loose) = (Vec::new(), Vec::new());
        for (at, event) in past.iter().enumerate() {
            match event {
                Event::Begin { file: of, change } if *of == file => match safe.contains(&at) {
                    true => drop(change.apply(&mut image)),
                    false => loose.push(change),
                },
                _ => {}
            }
        }
        let mut latest = image.clone();
        let mut sizes = vec![image.len()];
        let mut versions = BTreeMap::<usize, Vec<[u8; SECTOR]>>::new();
        for change in loose {
            let (first, end) = change.apply(&mut latest);
            sizes.push(latest.len());
            for number in first / SECTOR..end.div_ceil(SECTOR) {
                let versions = versions.entry(number).or_default();
                versions.push(sector(&latest, number));
            }
        }
        let mut pick = |count: usize| (random() >> 16) as usize % count;
        let size = sizes[pick(sizes.len())];
        image.resize(size, 0);
        for (number, versions) in versions {
            let Some(version) = pick(versions.len() + 1).checked_sub(1) else {
                continue;
            };
            let first = (number * SECTOR).min(size);
            let part = &mut image[first..(first + SECTOR).min(size)];
            part.copy_from_slice(&versions[version][..part.len()]);
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn images(record: &Record, moment: usize, file: &File) -> BTreeSet<Vec<u8>> {
        let file = file.metadata().expect("it is open").ino();
        let mut state = 77_u64;
        let mut random = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            state >> 8
        };
        let image = |_| record.image(moment, file, true, &mut random);
        (0..500).map(image).collect()
    }
    fn write(record: &Record, file: &File, at: u64, byte: u8, len: usize) {
        let call = |bytes: &[u8]| file.write_at(bytes, at);
        let moved = record.write(file, Some(at), vec![byte; len], call);
        assert_eq!(moved.expect("there is room"), len);
    }
    fn bytes(parts: &[(u8, usize)]) -> Vec<u8> {
        let parts = parts.iter();
        parts.flat_map(|&(byte, len)| vec![byte; len]).collect()
    }

    #[test]
    fn a_write_is_certain_after_a_sync_and_possible_before_it() {
        let file = tempfile::tempfile().expect("a temporary file");
        let record = Record::default();
        write(&record, &file, 0, 1, 1024);
        let written = record.moment();
        record.sync(&file, || Ok(())).expect("it succeeds");
        let synced = record.moment();
        write(&record, &file, 512, 2, 1024);
        let sector = |byte| (byte, 512);
        let before = [
            bytes(&[]),
            bytes(&[sector(0), sector(0)]),
            bytes(&[sector(0), sector(1)]),
            bytes(&[sector(1), sector(0)]),
            bytes(&[sector(1), sector(1)]),
        ];
        assert_eq!(images(&record, written, &file), BTreeSet::from(before));
        let one = bytes(&[sector(1), sector(1)]);
        assert_eq!(
            images(&record, synced, &file),
            BTreeSet::from([one.clone()])
        );
        let after = [
            one,
            bytes(&[sector(1), sector(2)]),
            bytes(&[sector(1), sector(1), sector(0)]),
            bytes(&[sector(1), sector(1), sector(2)]),
            bytes(&[sector(1), sector(2), sector(0)]),
            bytes(&[sector(1), sector(2), sector(2)]),
        ];
        assert_eq!(
            images(&record, record.moment(), &file),
            BTreeSet::from(after)
        );
    }

    #[test]
    fn a_sync_covers_nothing_that_ends_after_it_has_begun() {
        let file = tempfile::tempfile().expect("a temporary file");
        let record = Record::default();
        let synced = record.sync(&file, || {
            write(&record, &file, 0, 1, 512);
            Ok(())
        });
        synced.expect("it succeeds");
        assert!(images(&record, record.moment(), &file).contains(&Vec::new()));
        let failed = record.sync(&file, || Err(io::ErrorKind::Other.into()));
        assert!(failed.is_err());
        assert!(images(&record, record.moment(), &file).contains(&Vec::new()));
        record.sync(&file, || Ok(())).expect("it succeeds");
        let one = bytes(&[(1, 512)]);
        assert_eq!(
            images(&record, record.moment(), &file),
            BTreeSet::from([one])
        );
    }

    #[test]
    fn a_size_is_a_change_as_well_and_a_failed_write_is_none() {
        let file = tempfile::tempfile().expect("a temporary file");
        let record = Record::default();
        write(&record, &file, 0, 1, 512);
        record.sync(&file, || Ok(())).expect("it succeeds");
        let cut = record.truncate(&file, 100, || file.set_len(100));
        cut.expect("it is open");
        let full = record.write(&file, Some(0), vec![9; 512], |_| {
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(full.is_err());
        let inode = file.metadata().expect("it is open").ino();
        assert_eq!(record.seen(record.moment(), inode), [1; 100]);
        let sizes = images(&record, record.moment(), &file);
        let lengths: BTreeSet<_> = sizes.iter().map(Vec::len).collect();
        assert_eq!(lengths, BTreeSet::from([100, 512]));
        assert!(sizes.iter().all(|image| image[..100] == [1; 100]));
        let call = |bytes: &[u8]| file.write_at(&bytes[..3], 100);
        let moved = record.write(&file, None, vec![5; 7], call);
        assert_eq!(moved.expect("there is room"), 3);
        let seen = record.seen(record.moment(), inode);
        assert_eq!(seen, bytes(&[(1, 100), (5, 3)]));
    }
}
