//! Handles: numbers for open files, timers and sockets, which tasks cannot make up.
//!
//! A handle is a place (16 bits) and the place's generation (15 bits), so a handle that was closed names nothing until its
//! place has been used 32,767 times more. Places are used again in turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::errno::FileErrno;
use crate::open_file::OpenFile;
use crate::socket::OpenSocket;

const PLACE_BITS: u32 = 16;
const LAST_GENERATION: u32 = 0x7fff;

/// What a handle names.
#[derive(Clone, Debug)]
pub(crate) enum Open {
    File(Arc<OpenFile>),
    /// A timer, which the server's clock has.
    Timer,
    Socket(Arc<OpenSocket>),
}

impl From<Arc<OpenFile>> for Open {
    fn from(file: Arc<OpenFile>) -> Self {
        Self::File(file)
    }
}

#[derive(Debug)]
struct Place {
    generation: u32,
    open: Option<Open>,
}

#[derive(Debug, Default)]
struct Places {
    all: Vec<Place>,
    free: VecDeque<u32>,
    sockets: u32,
}

/// What is open.
#[derive(Debug)]
pub(crate) struct Handles {
    places: Mutex<Places>,
    pub(crate) limit: u32,
    /// How many of them may be sockets.
    socket_limit: u32,
}

impl Handles {
    pub(crate) fn new(limit: u32, socket_limit: u32) -> Self {
        Self {
            places: Mutex::default(),
            limit,
            socket_limit,
        }
    }
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Gives something a handle; `None` if there are as many as there may be.
    pub(crate) fn insert(&self, open: impl Into<Open>) -> Option<u32> {
        let open = open.into();
        let is_socket = matches!(open, Open::Socket(_));
        let make = || Ok::<_, FileErrno>((open, ()));
        self.insert_with(is_socket, make)
            .ok()
            .map(|(handle, ())| handle)
    }
    /// Gives a handle to what `make` makes, which is not called if there are as many handles or sockets as there may be.
    pub(crate) fn insert_with<T, E: From<FileErrno>>(
        &self,
        is_socket: bool,
        make: impl FnOnce() -> Result<(Open, T), E>,
    ) -> Result<(u32, T), E> {
        let mut places = self.lock();
        let full = places.all.len() as u32 == self.limit && places.free.is_empty();
        if full || is_socket && places.sockets == self.socket_limit {
            return Err(FileErrno::MFILE.into());
        }
        let (open, rest) = make()?;
        let fresh = places.all.len() as u32;
        let at = if fresh < self.limit {
            places.all.push(Place {
                generation: 1,
                open: None,
            });
            fresh
        } else {
            places.free.pop_front().expect("one is free")
        };
        let place = &mut places.all[at as usize];
        place.open = Some(open);
        places.sockets += u32::from(is_socket);
        let place = &places.all[at as usize];
        Ok((place.generation << PLACE_BITS | at, rest))
    }
    /// Takes the handles of all sockets back.
    pub(crate) fn remove_sockets(&self) -> Vec<Arc<OpenSocket>> {
        let mut places = self.lock();
        let Places {
            all,
            free,
            sockets: count,
        } = &mut *places;
        *count = 0;
        let mut sockets = Vec::new();
        for (at, place) in (0..).zip(all) {
            if let Some(Open::Socket(socket)) = &place.open {
                sockets.push(socket.clone());
                place.open = None;
                place.generation = place.generation % LAST_GENERATION + 1;
                free.push_back(at);
            }
        }
        sockets
    }
    /// What a handle names.
    pub(crate) fn get(&self, handle: u32) -> Option<Open> {
        let places = self.lock();
        let place = places.all.get((handle & 0xffff) as usize)?;
        let open = place.open.as_ref()?;
        (place.generation == handle >> PLACE_BITS).then(|| open.clone())
    }
    /// The file of a handle.
    pub(crate) fn file(&self, handle: u32) -> Option<Arc<OpenFile>> {
        match self.get(handle)? {
            Open::File(file) => Some(file),
            Open::Timer | Open::Socket(_) => None,
        }
    }
    /// Takes a handle back; from here on it names nothing.
    pub(crate) fn remove(&self, handle: u32) -> Option<Open> {
        let mut places = self.lock();
        let at = handle & 0xffff;
        let place = places.all.get_mut(at as usize)?;
        if place.generation != handle >> PLACE_BITS {
            return None;
        }
        let open = place.open.take()?;
        place.generation = place.generation % LAST_GENERATION + 1;
        places.free.push_back(at);
        places.sockets -= u32::from(matches!(open, Open::Socket(_)));
        Some(open)
    }
    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        let places = self.lock();
        places.all.iter().filter(|p| p.open.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::How;

    fn file() -> Arc<OpenFile> {
        let file = tempfile::tempfile().expect("a temporary file");
        Arc::new(OpenFile::new(file, How::default()))
    }

    #[test]
    fn stale_and_forged_handles_name_nothing() {
        let handles = Handles::new(2, 2);
        let first = handles.insert(file()).expect("there is room");
        let second = handles.insert(file()).expect("there is room");
        assert!(handles.insert(file()).is_none() && handles.open() == 2);
        assert!(handles.get(first).is_some() && first != second && first as i32 > 0);
        for forged in [0, 1, first ^ 1 << 20, first + 7, u32::MAX, 1 << 31 | first] {
            assert!(handles.get(forged).is_none() && handles.remove(forged).is_none());
        }
        assert!(handles.remove(first).is_some() && handles.remove(first).is_none());
        let again = handles.insert(file()).expect("a place is free");
        assert_eq!(again & 0xffff, first & 0xffff, "the same place");
        assert!(again != first && handles.get(first).is_none());
    }

    #[test]
    fn generations_go_round_and_are_never_0() {
        let handles = Handles::new(1, 1);
        let one = file();
        for _ in 0..2 * LAST_GENERATION {
            let handle = handles.insert(one.clone()).expect("the place is free");
            assert!(handle >> PLACE_BITS != 0 && handle as i32 > 0);
            handles.remove(handle).expect("it is open");
        }
    }
}
