//! What is left to compile for an image, and compiling it ahead of the start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use everwarp_assembler::split::split;
use everwarp_assembler::{Assembler, Estimate};
use everwarp_engine::Image;

use crate::cache::{Cache, key, linked_key};
use crate::image::source;
use crate::parts::{assemble_kept, assembled_by_driver, driver_knows, missing};
use crate::precompiled;

/// About how long NVRTC takes for the kernels' own code.
const UNIT: Duration = Duration::from_secs(5);

/// What the cache does not have of an image.
#[derive(Debug)]
pub struct Ahead {
    image: Image,
    arch: u32,
    cache: Cache,
    assembler: Assembler,
    /// The kernels' own code is missing.
    unit: bool,
    expected: Duration,
}

impl Ahead {
    /// Looks for what is missing. None if the image is whole, or if this program cannot compile it ahead, because the driver
    /// assembles.
    pub fn of(image: Image, arch: u32, cache: Cache) -> Option<Self> {
        if assembled_by_driver() {
            return None;
        }
        let assembler = || {
            let assembler = Assembler::find().ok();
            assembler.filter(|assembler| driver_knows(assembler.ptxas()))
        };
        Self::with(image, arch, cache, assembler)
    }

    fn with(
        image: Image,
        arch: u32,
        cache: Cache,
        assembler: impl FnOnce() -> Option<Assembler>,
    ) -> Option<Self> {
        let (source, linked) = (source(&image), &image.linked);
        let key_of_all = linked_key(&source, linked, arch);
        let given = precompiled::find(linked, arch, &key_of_all);
        if given.is_ok_and(|code| code.is_some()) || cache.has(&key_of_all) {
            return None;
        }
        let assembler = assembler()?;
        let unit = !cache.has(&key(&source, arch));
        let parts = missing(&linked.parts, arch, &cache);
        let estimates = parts.map(|part| split(&part.ptx).estimate);
        let estimate: Estimate = estimates
            .reduce(|all, part| all.and(&part))
            .unwrap_or_default();
        let cores = available_parallelism().map_or(1, usize::from);
        let expected = estimate.on(cores) + if unit { UNIT } else { Duration::ZERO };
        Some(Self {
            image,
            arch,
            cache,
            assembler,
            unit,
            expected,
        })
    }

    /// About how long it takes.
    pub fn expected(&self) -> Duration {
        self.expected
    }

    /// Compiles and assembles what is missing into the cache, until `unwanted` is set. An error comes again when the image is
    /// linked, and is reported then. NVRTC is not interrupted, which runs once for each version and architecture.
    pub fn make(&self, unwanted: &Arc<AtomicBool>) {
        if self.unit && !unwanted.load(Ordering::Relaxed) {
            drop(self.cache.compile(&source(&self.image), self.arch));
        }
        if unwanted.load(Ordering::Relaxed) {
            return;
        }
        let assembler = self.assembler.clone().until(Arc::clone(unwanted));
        let parts = &self.image.linked.parts;
        assemble_kept(&assembler, parts, self.arch, &self.cache);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use everwarp_cache::Kind;
    use everwarp_engine::{Linked, LinkedPart};

    use super::*;
    use crate::parts::tests::ptxas_in;

    const ARCH: u32 = 90;

    /// An image with one long part.
    fn image() -> Image {
        let function = ".visible .func f()\n{\n  ret;\n}\n";
        let part = LinkedPart {
            name: "m".into(),
            ptx: function.repeat(2000).into(),
        };
        let linked = Linked {
            parts: vec![part],
            ..Linked::default()
        };
        Image {
            linked,
            ..Image::default()
        }
    }

    #[test]
    fn what_is_missing_is_made_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::at(&folder.path().join("cache"));
        let tool = ptxas_in(folder.path(), "");
        let look = || {
            let assembler = || Some(Assembler::new(tool.clone()));
            Ahead::with(image(), ARCH, cache.clone(), assembler)
        };
        let put = |key: &str| {
            let written = cache.inner().write(Kind::Image, key, "", b"machine code");
            written.expect("it is writable");
        };
        let first = look().expect("all is missing");
        assert!(first.unit && first.expected() > UNIT);
        put(&key(&source(&image()), ARCH));
        let second = look().expect("the part is missing");
        assert!(!second.unit && second.expected() < UNIT);
        // Nothing is made that is not wanted.
        second.make(&Arc::new(AtomicBool::new(true)));
        assert!(look().is_some_and(|ahead| ahead.expected() == second.expected()));
        second.make(&Arc::default());
        let third = look().expect("it is not linked");
        assert_eq!(third.expected(), Duration::ZERO);
        put(&linked_key(&source(&image()), &image().linked, ARCH));
        assert!(look().is_none());
    }

    #[test]
    fn without_an_assembler_nothing_is_done_ahead() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::at(folder.path());
        assert!(Ahead::with(image(), ARCH, cache, || None).is_none());
    }
}
