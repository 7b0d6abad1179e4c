//! The machine code of an image's parts: from the cache, or assembled on all cores by child processes.

use everwarp_assembler::{AssembleError, Assembler, Cause, Part, Target, Tool};
use everwarp_cache::Kind;
use everwarp_engine::{EngineError, Linked, LinkedPart, trace::span};
use sha2::{Digest, Sha256};

use crate::cache::{Cache, hex};
use crate::link::{MAX_REGISTERS, assemble_and_link, link_objects};
use crate::versions::{driver_loads, driver_version};

/// The value of `EVERWARP_PTXAS` with which the driver assembles, in this process.
const DRIVER: &str = "driver";
/// Parts with less text than this are assembled each time, which takes as long as reading a file.
const KEPT_BYTES: usize = 32 << 10;
/// The version of an entry's layout and of the way in which a part is divided.
const FORMAT: &str = "pieces 1";

/// Whether the user wants the driver to assemble, rather than ptxas.
pub fn assembled_by_driver() -> bool {
    std::env::var_os("EVERWARP_PTXAS").is_some_and(|value| value == DRIVER)
}

/// The target of parts: functions that the scheduler's kernel calls.
pub(crate) fn target(arch: u32) -> Target {
    Target {
        arch,
        registers: MAX_REGISTERS,
    }
}

/// Links the machine code of an image's unit with its parts: assembled by ptxas if it is installed, else by the driver. A
/// context must be current, and nothing may be resident in it.
pub(crate) fn link(
    unit: &[u8],
    linked: &Linked,
    arch: u32,
    cache: &Cache,
) -> Result<Vec<u8>, EngineError> {
    let by_driver = || {
        let _span = span("image: the driver assembles");
        assemble_and_link(unit, linked)
    };
    if assembled_by_driver() {
        return by_driver();
    }
    // Without an assembler whose machine code it knows, the driver has to do.
    let assembler = Assembler::find().ok();
    let Some(assembler) = assembler.filter(|a| driver_knows(a.ptxas())) else {
        return by_driver();
    };
    match objects(&assembler, &linked.parts, arch, cache) {
        Ok(objects) => {
            let _span = span("image: link");
            // A driver that is older than the assembler may not know its machine code.
            link_objects(unit, &objects).or_else(|_| by_driver())
        }
        // The driver has no limits, so it is not asked for what has reached one.
        Err(error) if is_of_the_module(&error.cause) => Err(EngineError::Assemble(Box::new(error))),
        Err(_) => by_driver(),
    }
}

/// Assembles parts for the cache, if that is how an image gets them.
pub(crate) fn assemble_ahead(parts: &[LinkedPart], arch: u32, cache: &Cache) {
    if missing(parts, arch, cache).next().is_none() || assembled_by_driver() {
        return;
    }
    if let Ok(assembler) = Assembler::find()
        && driver_knows(assembler.ptxas())
    {
        assemble_kept(&assembler, parts, arch, cache);
    }
}

/// The parts that the cache keeps and does not have yet.
pub(crate) fn missing<'p>(
    parts: &'p [LinkedPart],
    arch: u32,
    cache: &Cache,
) -> impl Iterator<Item = &'p LinkedPart> {
    parts
        .iter()
        .filter(move |part| key(part, arch).is_some_and(|key| !cache.has(&key)))
}

/// Assembles the parts that the cache keeps. An error comes again when the image is linked, and is reported then.
pub(crate) fn assemble_kept(assembler: &Assembler, parts: &[LinkedPart], arch: u32, cache: &Cache) {
    let kept: Vec<_> = missing(parts, arch, cache).cloned().collect();
    let _ = objects(assembler, &kept, arch, cache);
}

/// Whether the driver loads what a tool makes.
pub(crate) fn driver_knows(tool: &Tool) -> bool {
    let major = tool.major().and_then(|major| u32::try_from(major).ok());
    let versions = driver_version().zip(major);
    versions.is_some_and(|(driver, major)| driver_loads(driver, (major, 0)))
}

/// Whether the cause is the module's, rather than an assembler that is too old for the device or cannot be run.
fn is_of_the_module(cause: &Cause) -> bool {
    matches!(
        cause,
        Cause::Memory { .. } | Cause::Time { .. } | Cause::Killed { .. }
    )
}

/// The machine code of all parts.
pub(crate) fn objects(
    assembler: &Assembler,
    parts: &[LinkedPart],
    arch: u32,
    cache: &Cache,
) -> Result<Vec<Vec<u8>>, AssembleError> {
    let _span = span("image: assemble");
    let keys: Vec<_> = parts.iter().map(|part| key(part, arch)).collect();
    let mut found: Vec<_> = keys
        .iter()
        .map(|key| {
            let entry = cache.inner().read(Kind::Image, key.as_ref()?)?;
            unpack(&entry)
        })
        .collect();
    let missing: Vec<_> = (0..parts.len()).filter(|&p| found[p].is_none()).collect();
    let texts: Vec<_> = missing
        .iter()
        .map(|&p| Part {
            name: &parts[p].name,
            ptx: &parts[p].ptx,
        })
        .collect();
    let made = assembler.assemble(&texts, &target(arch))?;
    for (part, pieces) in missing.into_iter().zip(made) {
        if let Some(key) = &keys[part] {
            let label = format!("sm_{arch}: {} (to be linked)", parts[part].name);
            // The image is kept as well, and says if the folder cannot be written.
            let _ = cache
                .inner()
                .write(Kind::Image, key, &label, &pack(&pieces));
        }
        found[part] = Some(pieces);
    }
    Ok(found.into_iter().flatten().flatten().collect())
}

/// The key of a part's machine code, if it is worth keeping.
fn key(part: &LinkedPart, arch: u32) -> Option<String> {
    let long = part.ptx.len() >= KEPT_BYTES;
    long.then(|| {
        let of = format!(
            "{FORMAT} {} sm_{arch} {MAX_REGISTERS}\n",
            env!("CARGO_PKG_VERSION")
        );
        let hash = Sha256::new().chain_update(of);
        hex(&hash.chain_update(part.ptx.as_bytes()).finalize())
    })
}

/// Pieces as one entry: the length of each in 8 bytes, little-endian, before its bytes.
fn pack(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces {
        out.extend((piece.len() as u64).to_le_bytes());
        out.extend(piece);
    }
    out
}

fn unpack(mut entry: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut pieces = Vec::new();
    while let Some((length, rest)) = entry.split_first_chunk() {
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (piece, rest) = rest.split_at_checked(length)?;
        pieces.push(piece.to_vec());
        entry = rest;
    }
    entry.is_empty().then_some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_as_they_were_written() {
        let pieces = vec![b"one".to_vec(), Vec::new(), b"three".to_vec()];
        let packed = pack(&pieces);
        assert_eq!(unpack(&packed), Some(pieces));
        assert_eq!(unpack(&packed[..packed.len() - 1]), None);
        assert_eq!(unpack(&[packed, vec![0]].concat()), None);
        assert_eq!(unpack(&u64::MAX.to_le_bytes()), None);
    }

    #[test]
    fn the_key_of_a_long_part_depends_on_its_text_and_the_architecture() {
        let part = |text: &str| LinkedPart {
            name: "p".into(),
            ptx: text.repeat(KEPT_BYTES).into(),
        };
        assert_eq!(key(&part("a"), 90), key(&part("a"), 90));
        assert_ne!(key(&part("a"), 90), key(&part("b"), 90));
        assert_ne!(key(&part("a"), 90), key(&part("a"), 80));
        let short = LinkedPart {
            name: "p".into(),
            ptx: "a".into(),
        };
        assert_eq!(key(&short, 90), None);
    }
}
