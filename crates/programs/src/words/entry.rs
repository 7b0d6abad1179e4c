//! The registry's entry of `words`.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{PROGRAM, Words, is_space};
use crate::input::{InputError, Progress};
use crate::mix;
use crate::native::{Facts, NativeProgram, RunError, same_number};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct WordCount;

const FILE: ProgramOption =
    ProgramOption::file("--file", "The file whose words are counted").excludes("--generate");
const GENERATE: ProgramOption = ProgramOption::number(
    "--generate",
    "Count the words of a generated file of this many MiB",
    0,
)
.at_most(1 << 20);
const BUFFERS: ProgramOption =
    ProgramOption::number("--buffers", "How many pieces are read at a time", 32).at_most(4096);
const PIECE: ProgramOption =
    ProgramOption::number("--piece", "The size of a piece in KiB", 256).at_most(1 << 16);

/// A file, and how it is read.
#[derive(Debug)]
pub struct Text {
    file: File,
    path: PathBuf,
    size: u64,
    buffers: u32,
    piece: u32,
}

impl Text {
    fn wrong(path: &Path, source: std::io::Error) -> InputError {
        InputError::File {
            path: path.to_owned(),
            source,
        }
    }
}

/// Writes a text of this many MiB to a file that has no name.
fn generate(mib: u32, progress: &mut Progress<'_>) -> std::io::Result<File> {
    let size = u64::from(mib) << 20;
    let file = tempfile::tempfile()?;
    let mut out = BufWriter::with_capacity(1 << 20, &file);
    let (mut word, mut written) = (0, 0);
    while written < size {
        // Words of 1 to 8 letters, with one or two spaces or a line's end after them.
        let random = mix(word);
        let letters = 1 + (random & 7) as usize;
        let mut text = [0_u8; 10];
        for (at, letter) in text[..letters].iter_mut().enumerate() {
            *letter = b'a' + ((random >> (8 + 5 * at) & 31) as u8) % 26;
        }
        text[letters] = if random >> 60 == 0 { b'\n' } else { b' ' };
        text[letters + 1] = b' ';
        let spaces = 1 + usize::from(random >> 56 & 15 == 0);
        let len = (size - written).min((letters + spaces) as u64);
        out.write_all(&text[..len as usize])?;
        written += len;
        word += 1;
        if word % (1 << 20) == 0 {
            progress("generating a text", Some((written, size)));
        }
    }
    out.flush()?;
    drop(out);
    Ok(file)
}

impl NativeProgram for WordCount {
    type Input = Text;
    type Output = u64;
    const ABOUT: &'static str = "counts the words of a file that may be larger than memory; reads are waited for by no thread";
    const OPTIONS: &'static [ProgramOption] = &[FILE, GENERATE, BUFFERS, PIECE];
    const EXAMPLE: &'static [(&'static str, &'static str)] =
        &[("--generate", "8"), ("--buffers", "4"), ("--piece", "64")];
    const ON_WGPU: bool = false;

    fn program(&self) -> &'static Program {
        &PROGRAM
    }
    fn input(
        &self,
        options: &OptionValues,
        progress: &mut Progress<'_>,
    ) -> Result<Text, InputError> {
        let buffers = options.at_least_one(&BUFFERS)?;
        let piece = options.at_least_one(&PIECE)? << 10;
        let (file, path) = match (options.file(&FILE), options.number(&GENERATE)?) {
            (None, 0) => {
                return Err(InputError::NeedsFile {
                    program: &PROGRAM.name,
                });
            }
            (None, mib) => {
                let path = PathBuf::from("the generated file");
                let file = generate(mib, progress).map_err(|e| Text::wrong(&path, e))?;
                (file, path)
            }
            (Some(path), _) => {
                let file = match options.open(&FILE) {
                    Some(file) => file.try_clone(),
                    None => File::open(path),
                };
                (file.map_err(|e| Text::wrong(path, e))?, path.to_owned())
            }
        };
        let facts = file.metadata().map_err(|e| Text::wrong(&path, e))?;
        if !facts.is_file() {
            let error = std::io::Error::other("it is not a regular file");
            return Err(Text::wrong(&path, error));
        }
        Ok(Text {
            file,
            path,
            size: facts.len(),
            buffers,
            piece,
        })
    }
    fn run(&self, engine: &Engine, text: &Text) -> Result<(u64, Duration), RunError> {
        let file = text.file.try_clone();
        let file = file.map_err(|source| RunError::File {
            path: text.path.clone(),
            source,
        })?;
        let words = Words::new(engine, file, text.size, text.buffers, text.piece)?;
        let begin = Instant::now();
        let count = words.count(engine)?;
        Ok((count, begin.elapsed()))
    }
    fn reference(&self, text: &Text) -> u64 {
        let mut file = &text.file;
        let mut bytes = vec![0; 1 << 20];
        let (mut words, mut after_space, mut at) = (0, true, 0);
        if file.seek(SeekFrom::Start(0)).is_err() {
            return u64::MAX;
        }
        while at < text.size {
            // A file that cannot be read has no reference: the result then differs from it.
            let Ok(count @ 1..) = file.read(&mut bytes) else {
                return u64::MAX;
            };
            for &byte in &bytes[..count.min((text.size - at) as usize)] {
                words += u64::from(after_space && !is_space(byte));
                after_space = is_space(byte);
            }
            at += count as u64;
        }
        words
    }
    fn compare(&self, &output: &u64, &expected: &u64) -> Result<(), String> {
        same_number(output, expected)
    }
    fn facts(&self, _: &Text, &output: &u64) -> Facts {
        Facts {
            result: Some(output),
            ..Facts::default()
        }
    }
}
