//! The machine code of an image's parts: from the cache, or assembled on all cores by child processes.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use everwarp_assembler::split::split;
use everwarp_assembler::{AssembleError, Assembler, Cause, Part, Target, Tool};
use everwarp_cache::Kind;
use everwarp_engine::{EngineError, Haste, Linked, LinkedPart, sync::lock, trace::span};
use sha2::{Digest, Sha256};

use crate::cache::{Cache, hex};
use crate::elf::has_constants;
use crate::link::{MAX_REGISTERS, assemble_and_link, link_objects};
use crate::versions::{driver_loads, driver_version};

/// The value of `EVERWARP_PTXAS` with which the driver assembles, in this process.
const DRIVER: &str = "driver";
/// Parts with less text than this are assembled once in each program, which takes some milliseconds.
const KEPT_BYTES: usize = 4 << 10;
/// The most bytes of machine code that an engine keeps in memory.
const MADE_BYTES: usize = 64 << 20;
/// The version of an entry's layout and of the way in which a part is divided.
const FORMAT: &str = "pieces 2";

/// The pieces of a part, as machine code.
type Objects = Arc<Vec<Vec<u8>>>;

/// What an engine assembles with, and the machine code that it has made and that the cache does not keep: of short parts, and where
/// the cache's folder cannot be written. Each image that an engine gets has the parts of the one before.
#[derive(Debug, Default)]
pub(crate) struct Made {
    assembler: OnceLock<Option<Assembler>>,
    objects: Mutex<VecDeque<(String, Objects)>>,
}

impl Made {
    /// The assembler, unless the driver assembles: because the user wants it, or because there is none whose machine code the
    /// driver knows.
    pub(crate) fn assembler(&self) -> Option<&Assembler> {
        let find = || {
            if assembled_by_driver() {
                return None;
            }
            let assembler = Assembler::find().ok();
            assembler.filter(|assembler| driver_knows(assembler.ptxas()))
        };
        self.assembler.get_or_init(find).as_ref()
    }

    fn get(&self, key: &str) -> Option<Objects> {
        let objects = lock(&self.objects);
        let found = objects.iter().find(|(known, _)| known == key);
        found.map(|(_, objects)| Arc::clone(objects))
    }

    /// Keeps machine code, in the place of the oldest if it is too much.
    fn put(&self, key: String, made: Objects) {
        let mut objects = lock(&self.objects);
        objects.push_back((key, made));
        let size = |(_, objects): &(String, Objects)| objects.iter().map(Vec::len).sum::<usize>();
        let mut bytes: usize = objects.iter().map(size).sum();
        while bytes > MADE_BYTES
            && let Some(oldest) = objects.pop_front()
        {
            bytes -= size(&oldest);
        }
    }
}

/// Whether the user wants the driver to assemble, rather than ptxas.
pub fn assembled_by_driver() -> bool {
    std::env::var_os("EVERWARP_PTXAS").is_some_and(|value| value == DRIVER)
}

/// The target of parts: functions that the scheduler's kernel calls.
pub(crate) fn target(arch: u32) -> Target {
    Target {
        arch,
        registers: MAX_REGISTERS,
        plain: false,
    }
}

/// Links the machine code of an image's unit with its parts: assembled by ptxas if it is installed, else by the driver. A
/// context must be current.
pub(crate) fn link(
    unit: &[u8],
    linked: &Linked,
    arch: u32,
    cache: &Cache,
    made: &Made,
) -> Result<Vec<u8>, EngineError> {
    let by_driver = || {
        let _span = span("image: the driver assembles");
        assemble_and_link(unit, linked)
    };
    let Some(assembler) = made.assembler() else {
        return by_driver();
    };
    match objects(assembler, &linked.parts, &target(arch), cache, made) {
        Ok(objects) => {
            let _span = span("image: link");
            let objects: Vec<_> = objects.iter().flat_map(|part| part.iter()).collect();
            // A driver that is older than the assembler may not know its machine code.
            link_objects(unit, &objects).or_else(|_| by_driver())
        }
        // The driver has no limits, so it is not asked for what has reached one.
        Err(error) if is_of_the_module(&error.cause) => Err(EngineError::Assemble(Box::new(error))),
        Err(_) => by_driver(),
    }
}

/// Assembles parts ahead of an image, if that is how an image gets them. An error comes again when the image is linked, and is
/// reported then.
pub(crate) fn assemble_ahead(parts: &[LinkedPart], arch: u32, cache: &Cache, made: &Made) {
    if let Some(assembler) = made.assembler() {
        let _ = objects(assembler, parts, &target(arch), cache, made);
    }
}

/// Assembles parts ahead of an image or an addition, unless `unwanted` is set or becomes so, and says whether they can be in an addition.
/// Only errors of the parts count: others come again when they are linked.
pub(crate) fn assemble_while(
    parts: &[LinkedPart],
    arch: u32,
    cache: &Cache,
    made: &Made,
    haste: Haste,
    unwanted: &Arc<AtomicBool>,
) -> Result<bool, EngineError> {
    let Some(assembler) = made.assembler() else {
        return Ok(false);
    };
    let assembler = assembler.clone().until(Arc::clone(unwanted));
    let assembler = match haste {
        Haste::Awaited => assembler,
        Haste::Idle => assembler.idly(),
    };
    match objects_apart(&assembler, parts, arch, cache, made) {
        // What cannot be read comes in an image, where the driver says what is wrong with it.
        Ok(objects) => {
            let objects: Vec<_> = objects.iter().flat_map(|part| part.iter()).collect();
            Ok(has_constants(&objects) == Some(false))
        }
        Err(error) if is_of_the_module(&error.cause) => Err(EngineError::Assemble(Box::new(error))),
        Err(_) => Ok(false),
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
        .filter(move |part| is_kept(part) && !cache.has(&key(part, &target(arch))))
}

/// Assembles the parts that the cache keeps. An error comes again when the image is linked, and is reported then.
pub(crate) fn assemble_kept(assembler: &Assembler, parts: &[LinkedPart], arch: u32, cache: &Cache) {
    let kept: Vec<_> = missing(parts, arch, cache).cloned().collect();
    let _ = objects(assembler, &kept, &target(arch), cache, &Made::default());
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

/// The machine code of all parts for code that is loaded next to an image. A piece that needs constants of its own is assembled once
/// more without optimization, and needs none then.
pub(crate) fn objects_apart(
    assembler: &Assembler,
    parts: &[LinkedPart],
    arch: u32,
    cache: &Cache,
    made: &Made,
) -> Result<Vec<Objects>, AssembleError> {
    let plain = Target {
        plain: true,
        ..target(arch)
    };
    let needs = |piece: &Vec<u8>| has_constants(&[piece]) == Some(true);
    let mut all = objects(assembler, parts, &target(arch), cache, made)?;
    for (part, pieces) in parts.iter().zip(&mut all) {
        if !pieces.iter().any(needs) {
            continue;
        }
        let mut apart = Vec::new();
        for (text, piece) in split(&part.ptx).texts.into_iter().zip(pieces.iter()) {
            if !needs(piece) {
                apart.push(piece.clone());
                continue;
            }
            let text = LinkedPart {
                name: Arc::clone(&part.name),
                ptx: text.into(),
            };
            let made = objects(assembler, &[text], &plain, cache, made)?;
            apart.extend(made.iter().flat_map(|pieces| pieces.iter().cloned()));
        }
        *pieces = Arc::new(apart);
    }
    Ok(all)
}

/// The machine code of all parts, in their order.
pub(crate) fn objects(
    assembler: &Assembler,
    parts: &[LinkedPart],
    target: &Target,
    cache: &Cache,
    made: &Made,
) -> Result<Vec<Objects>, AssembleError> {
    let _span = span("image: assemble");
    let keys: Vec<_> = parts.iter().map(|part| key(part, target)).collect();
    let find = |(part, key): (&LinkedPart, &String)| {
        made.get(key).or_else(|| {
            let entry = is_kept(part).then(|| cache.inner().read(Kind::Image, key));
            unpack(&entry??).map(Arc::new)
        })
    };
    let mut found: Vec<_> = parts.iter().zip(&keys).map(find).collect();
    let missing: Vec<_> = (0..parts.len()).filter(|&p| found[p].is_none()).collect();
    let texts: Vec<_> = missing
        .iter()
        .map(|&p| Part {
            name: &parts[p].name,
            ptx: &parts[p].ptx,
        })
        .collect();
    let assembled = assembler.assemble(&texts, target)?;
    for (number, pieces) in missing.into_iter().zip(assembled) {
        let (part, key) = (&parts[number], &keys[number]);
        // The image is kept as well, and says if the folder cannot be written.
        let label = format!("sm_{}: {} (to be linked)", target.arch, part.name);
        let kept = is_kept(part) && {
            let inner = cache.inner();
            inner
                .write(Kind::Image, key, &label, &pack(&pieces))
                .is_ok()
        };
        let pieces = Arc::new(pieces);
        if !kept {
            made.put(key.clone(), Arc::clone(&pieces));
        }
        found[number] = Some(pieces);
    }
    Ok(found.into_iter().flatten().collect())
}

/// Whether the cache keeps a part's machine code.
fn is_kept(part: &LinkedPart) -> bool {
    part.ptx.len() >= KEPT_BYTES
}

/// The key of a part's machine code.
fn key(part: &LinkedPart, target: &Target) -> String {
    let of = format!(
        "{FORMAT} {} sm_{} {}{}\n",
        env!("CARGO_PKG_VERSION"),
        target.arch,
        target.registers,
        if target.plain { " plain" } else { "" }
    );
    let hash = Sha256::new().chain_update(of);
    hex(&hash.chain_update(part.ptx.as_bytes()).finalize())
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
pub(crate) mod tests {
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

    fn part(text: &str) -> LinkedPart {
        LinkedPart {
            name: "p".into(),
            ptx: text.into(),
        }
    }

    #[test]
    fn the_key_of_a_part_depends_on_its_text_and_the_architecture() {
        let key = |text: &str, arch| key(&part(text), &target(arch));
        assert_eq!(key("a", 90), key("a", 90));
        assert_ne!(key("a", 90), key("b", 90));
        assert_ne!(key("a", 90), key("a", 80));
        let plain = Target {
            plain: true,
            ..target(90)
        };
        assert_ne!(key("a", 90), super::key(&part("a"), &plain));
    }

    #[test]
    fn code_that_is_too_much_is_forgotten_in_the_order_of_its_age() {
        let made = Made::default();
        for number in 0..5 {
            let objects = vec![vec![number; MADE_BYTES / 4 - 100], vec![number; 100]];
            made.put(number.to_string(), Arc::new(objects));
        }
        let found: Vec<_> = (0..5)
            .filter(|number| made.get(&number.to_string()).is_some())
            .collect();
        assert_eq!(found, [1, 2, 3, 4]);
        assert_eq!(made.get("4").expect("it is the last")[1], [4; 100]);
    }

    /// A program in the place of ptxas, which runs this line of a shell first.
    pub(crate) fn ptxas_in(folder: &std::path::Path, first: &str) -> Tool {
        let path = folder.join("ptxas");
        let script = format!(
            "#!/bin/sh\n{first}\nwhile [ $# -gt 1 ]; do [ \"$1\" = -o ] && out=$2; shift; done\nprintf made > \"$out\"\n"
        );
        // Another process writes the file: the system refuses to run one that a child of this process has open.
        let mut writer = std::process::Command::new("sh");
        writer.args(["-c", "printf %s \"$1\" > \"$0\" && chmod 700 \"$0\""]);
        let written = writer.arg(&path).arg(script).status();
        assert!(written.expect("sh runs").success());
        Tool {
            path,
            version: "13.0".to_owned(),
        }
    }

    #[cfg(unix)]
    #[test]
    fn each_part_is_assembled_once_in_an_engine() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // A file for each run; mktemp puts letters in the place of the X.
        let counts = "mktemp -p \"$(dirname \"$0\")\" run.XXXXXX > /dev/null";
        let tool = ptxas_in(folder.path(), counts);
        let runs = || {
            let files = std::fs::read_dir(folder.path()).expect("it is there");
            let is_run = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("run.");
            files
                .flatten()
                .filter(|file| is_run(&file.file_name()))
                .count()
        };
        let assembler = Assembler::new(tool);
        let function = ".visible .func f()\n{\n  ret;\n}\n";
        let parts = [part(function), part(&function.repeat(2000))];
        let (cache, made) = (Cache::at(&folder.path().join("cache")), Made::default());
        let all = |cache: &Cache, made: &Made| {
            let objects = objects(&assembler, &parts, &target(90), cache, made);
            let objects = objects.expect("it succeeds");
            assert!(
                objects
                    .iter()
                    .flat_map(|part| part.iter())
                    .all(|o| o == b"made")
            );
            runs()
        };
        let first = all(&cache, &made);
        assert!(first >= 2, "{first} runs");
        assert_eq!(all(&cache, &made), first);
        // Another engine finds the long part in the cache.
        assert_eq!(all(&cache, &Made::default()), first + 1);
        // Without a folder that can be written, an engine keeps all.
        let (none, made) = (Cache::at("/nonexistent/cache".as_ref()), Made::default());
        let second = all(&none, &made);
        assert_eq!(all(&none, &made), second);
    }
}
