//! The functions of the image, by id.

use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use everwarp_contract::FunctionId;
use everwarp_engine::sync::lock;
use everwarp_engine::{Function, Image};

/// A function of the image, with the id of its program's first function.
pub(crate) type ImageFunction = (FunctionId, Function);

/// The current table, and those of earlier images. Earlier tables live as long as the engine, because the host may read
/// one while the image is replaced; they are small.
pub(crate) struct FunctionTables {
    current: AtomicPtr<Vec<ImageFunction>>,
    all: Mutex<Vec<*mut Vec<ImageFunction>>>,
}
// SAFETY: the tables are never written after they are published, and freed with the last reference to `self`.
unsafe impl Send for FunctionTables {}
// SAFETY: as above.
unsafe impl Sync for FunctionTables {}

impl FunctionTables {
    pub(crate) fn new(image: &Image) -> Self {
        let tables = Self {
            current: AtomicPtr::new(std::ptr::null_mut()),
            all: Mutex::default(),
        };
        tables.set(image);
        tables
    }
    /// Replaces the table. No worker thread runs.
    pub(crate) fn set(&self, image: &Image) {
        let base = |name| image.base(name).expect("the program is in the image");
        let table: Vec<_> = image
            .functions()
            .map(|(_, p, f)| (base(&p.name), f.clone()))
            .collect();
        let table = Box::into_raw(Box::new(table));
        lock(&self.all).push(table);
        self.current.store(table, Ordering::Release);
    }
    /// The functions in the order of their ids.
    pub(crate) fn get(&self) -> &[ImageFunction] {
        // SAFETY: `new` publishes a table, and tables live as long as `self`.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }
}

impl Drop for FunctionTables {
    fn drop(&mut self) {
        for table in lock(&self.all).drain(..) {
            // SAFETY: it came from `Box::into_raw` in `set`, and no reference into it outlives `self`.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}
