//! Files of a module with its images: `MODULE.ewimg`, which `everwarp compile` writes.
//!
//! | bytes | |
//! |---|---|
//! | 0..16 | `everwarp image 1` |
//! | 16..48 | SHA-256 of the rest |
//! | then | the module's name, the module, and the number of images as 4 bytes |
//! | then, for each image | the architecture as 4 bytes, its key, its machine code |
//!
//! A text and a run of bytes have their length before them, as 8 bytes. All numbers are little-endian. The hash finds damage;
//! it does not name its writer. So machine code from such a file is used only if the user vouches for it
//! ([`Module::from_file_precompiled`](crate::Module::from_file_precompiled)), and
//! [`Module::from_file`](crate::Module::from_file) takes the module alone.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::error::LoadError;

const MAGIC: &[u8; 16] = b"everwarp image 1";
const HASH_BYTES: usize = 32;
/// More images than there are architectures.
const IMAGES_MOST: u32 = 64;

/// A module and its images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFile {
    /// The module's name.
    pub name: String,
    /// The module.
    pub module: Bytes,
    /// Machine code for GPUs.
    pub images: Vec<NativeImage>,
}

/// The machine code of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeImage {
    /// The architecture, 90 meaning `sm_90`.
    pub arch: u32,
    /// The hash of what it was made from. An engine of another version looks for another one.
    pub key: String,
    /// The code.
    pub code: Bytes,
}

impl ImageFile {
    /// Whether these bytes are meant to be such a file.
    pub fn is(bytes: &[u8]) -> bool {
        bytes.starts_with(b"everwarp image ")
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`LoadError::ImageFile`]: it is of another version, or damaged.
    pub fn read(bytes: &Bytes) -> Result<Self, LoadError> {
        let refused = |reason| LoadError::ImageFile { reason };
        if !bytes.starts_with(MAGIC) {
            return Err(refused("it is of another version of everwarp"));
        }
        let damaged = || refused("it is damaged");
        let mut rest = Rest(bytes.slice(MAGIC.len()..));
        let hash = rest.take(HASH_BYTES).ok_or_else(damaged)?;
        if Sha256::digest(&rest.0).as_slice() != &hash[..] {
            return Err(damaged());
        }
        rest.file().ok_or_else(damaged)
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut rest = Vec::new();
        let run = |bytes: &[u8]| {
            let mut run = (bytes.len() as u64).to_le_bytes().to_vec();
            run.extend(bytes);
            run
        };
        rest.extend(run(self.name.as_bytes()));
        rest.extend(run(&self.module));
        rest.extend((self.images.len() as u32).to_le_bytes());
        for image in &self.images {
            rest.extend(image.arch.to_le_bytes());
            rest.extend(run(image.key.as_bytes()));
            rest.extend(run(&image.code));
        }
        [&MAGIC[..], &Sha256::digest(&rest), &rest].concat()
    }
}

/// The part of a file that has not been read yet.
struct Rest(Bytes);

impl Rest {
    fn take(&mut self, count: usize) -> Option<Bytes> {
        (count <= self.0.len()).then(|| self.0.split_to(count))
    }
    fn number(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_le_bytes(bytes[..].try_into().ok()?))
    }
    fn run(&mut self) -> Option<Bytes> {
        let length = self.take(8)?;
        let length = u64::from_le_bytes(length[..].try_into().ok()?);
        self.take(usize::try_from(length).ok()?)
    }
    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.run()?.to_vec()).ok()
    }
    fn file(mut self) -> Option<ImageFile> {
        let (name, module) = (self.text()?, self.run()?);
        let count = self.number().filter(|count| *count <= IMAGES_MOST)?;
        let mut image = || {
            Some(NativeImage {
                arch: self.number()?,
                key: self.text()?,
                code: self.run()?,
            })
        };
        let images = (0..count).map(|_| image()).collect::<Option<_>>()?;
        self.0.is_empty().then_some(ImageFile {
            name,
            module,
            images,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Module;

    /// The shortest command: `(module (func (export "_start")))`.
    const COMMAND: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x04\x01\x02\0\x0b";

    fn file() -> ImageFile {
        let image = |arch, code: &'static [u8]| NativeImage {
            arch,
            key: format!("key {arch}"),
            code: Bytes::from_static(code),
        };
        ImageFile {
            name: "tool.wasm".to_owned(),
            module: Bytes::from_static(COMMAND),
            images: vec![image(80, b"old"), image(90, b"new code")],
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let bytes = Bytes::from(file().to_bytes());
        assert!(ImageFile::is(&bytes) && !ImageFile::is(COMMAND));
        assert_eq!(ImageFile::read(&bytes), Ok(file()));
    }

    #[test]
    fn a_file_that_is_cut_off_or_changed_anywhere_is_refused() {
        let whole = file().to_bytes();
        for at in 0..whole.len() {
            let cut = Bytes::copy_from_slice(&whole[..at]);
            assert!(ImageFile::read(&cut).is_err(), "{at} bytes");
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(ImageFile::read(&changed.into()).is_err(), "byte {at}");
        }
        let other = [b"everwarp image 2".as_slice(), &whole[16..]].concat();
        let refused = ImageFile::read(&other.into()).expect_err("it is of another version");
        assert!(refused.to_string().contains("another version"), "{refused}");
    }

    #[test]
    fn lengths_beyond_the_end_are_damage() {
        let mut rest = Vec::from(u64::MAX.to_le_bytes());
        rest.extend([0; 40]);
        let bytes = [&MAGIC[..], &Sha256::digest(&rest), &rest].concat();
        assert!(ImageFile::read(&bytes.into()).is_err());
    }

    #[test]
    fn a_module_is_loaded_from_a_file_without_its_images() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("tool.ewimg");
        std::fs::write(&path, file().to_bytes()).expect("it is writable");
        let module = Module::from_file(&path).expect("it is whole");
        assert_eq!((module.name(), &module.bytes()[..]), ("tool.wasm", COMMAND));
        assert!(module.images().is_empty());
        std::fs::write(&path, &file().to_bytes()[..60]).expect("it is writable");
        let refused = Module::from_file(&path).expect_err("it is cut off");
        assert!(
            refused.to_string().contains("everwarp compile"),
            "{refused}"
        );
    }

    /// What [`Module::from_file_precompiled`] makes of a file with these bytes.
    fn precompiled(bytes: &[u8]) -> Result<Module, LoadError> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("tool");
        std::fs::write(&path, bytes).expect("it is writable");
        // SAFETY: the machine code is that of these tests, and nothing runs it.
        unsafe { Module::from_file_precompiled(&path) }
    }

    #[test]
    fn images_come_with_a_module_only_where_the_caller_vouches_for_them() {
        let module = precompiled(&file().to_bytes()).expect("it is whole");
        assert_eq!((module.name(), &module.bytes()[..]), ("tool.wasm", COMMAND));
        assert_eq!(module.images(), file().images);
        assert_eq!(module.clone().images(), file().images);
    }

    #[test]
    fn a_file_without_images_or_a_damaged_one_is_refused() {
        let plain = precompiled(COMMAND).expect_err("it has no images");
        assert!(plain.to_string().contains("without images"), "{plain}");
        let mut damaged = file().to_bytes();
        *damaged.last_mut().expect("it is not empty") ^= 1;
        let damaged = precompiled(&damaged).expect_err("it is damaged");
        assert!(damaged.to_string().contains("it is damaged"), "{damaged}");
    }
}
