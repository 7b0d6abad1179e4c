//! An entry as it lies on disk. All numbers are little-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `EWCUBIN1`: the format |
//! | 32 | SHA-256 of all that follows |
//! | 32 | the key, so that an entry under a wrong name is noticed |
//! | 4 + 4 | major and minor version of the NVRTC that made it |
//! | 8 | length of the log |
//! | … | the log, UTF-8 |
//! | … | the image, to the end |

use std::io;

use sha2::{Digest, Sha256};

use super::key::Key;
use crate::unit::Cubin;

const FORMAT: &[u8; 8] = b"EWCUBIN1";

/// A cubin and the NVRTC that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Major and minor version.
    pub nvrtc: (u32, u32),
    /// What it made.
    pub cubin: Cubin,
}

/// Why an entry cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file is there and cannot be read.
    #[error("the cached cubin cannot be read")]
    Unreadable(#[source] io::Error),
    /// Another program's file, or another version's.
    #[error("the cached cubin has an unknown format")]
    Format,
    /// Some byte is not what was written, or the end is missing.
    #[error("the cached cubin fails its checksum")]
    Checksum,
    /// An entry for another source, renamed.
    #[error("the cached cubin belongs to another source")]
    Key,
    /// The checksum holds and the content does not: a defect of the writer.
    #[error("the cached cubin was written wrongly")]
    Content,
}

impl Entry {
    pub(super) fn encode(&self, key: &Key) -> Vec<u8> {
        let Cubin { image, log } = &self.cubin;
        let mut content = Vec::with_capacity(48 + log.len() + image.len());
        content.extend(key.0);
        content.extend(self.nvrtc.0.to_le_bytes());
        content.extend(self.nvrtc.1.to_le_bytes());
        content.extend((log.len() as u64).to_le_bytes());
        content.extend(log.as_bytes());
        content.extend(image);
        [
            FORMAT.as_slice(),
            Sha256::digest(&content).as_slice(),
            &content,
        ]
        .concat()
    }

    pub(super) fn decode(bytes: &[u8], key: &Key) -> Result<Self, Damage> {
        let rest = bytes
            .strip_prefix(FORMAT.as_slice())
            .ok_or(Damage::Format)?;
        let (sum, content) = rest.split_first_chunk::<32>().ok_or(Damage::Checksum)?;
        if Sha256::digest(content).as_slice() != sum {
            return Err(Damage::Checksum);
        }
        let (found, content) = content.split_first_chunk::<32>().ok_or(Damage::Content)?;
        if *found != key.0 {
            return Err(Damage::Key);
        }
        Self::content(content).ok_or(Damage::Content)
    }

    /// What follows the key.
    fn content(bytes: &[u8]) -> Option<Self> {
        let (major, bytes) = bytes.split_first_chunk()?;
        let (minor, bytes) = bytes.split_first_chunk()?;
        let (log_size, bytes) = bytes.split_first_chunk()?;
        let log_size = usize::try_from(u64::from_le_bytes(*log_size)).ok()?;
        let (log, image) = bytes.split_at_checked(log_size)?;
        let log = str::from_utf8(log).ok()?.to_owned();
        let nvrtc = (u32::from_le_bytes(*major), u32::from_le_bytes(*minor));
        Some(Self {
            nvrtc,
            cubin: Cubin {
                image: image.to_owned(),
                log,
            },
        })
    }
}
