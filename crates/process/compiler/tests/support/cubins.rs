//! Machine code of images, assembled without a GPU: a folder with one file for each image, named by a hash of its PTX.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::machine::{Images, Machine};
use super::ptx::Interpreter;

/// The architecture of the GPU that everwarp is measured on. The drivers of other GPUs compile the PTX themselves.
pub(crate) const ARCH: &str = "sm_90";

/// An image's code, and the largest frame of its functions in bytes.
pub(crate) struct Cubin {
    pub(crate) code: Vec<u8>,
    pub(crate) frame: u32,
}

/// The path of an image's code.
fn path(folder: &Path, ptx: &str) -> PathBuf {
    let digest = Sha256::digest(ptx);
    let name: String = digest[..16].iter().map(|b| format!("{b:02x}")).collect();
    folder.join(format!("{name}.cubin"))
}

/// Reads an image's code from a folder. A file contains the code, then the frame size in 4 bytes.
pub(crate) fn find(folder: &Path, ptx: &str) -> Option<Cubin> {
    let mut code = std::fs::read(path(folder, ptx)).ok()?;
    let frame = u32::from_le_bytes(*code.last_chunk()?);
    code.truncate(code.len() - 4);
    Some(Cubin { code, frame })
}

/// The largest frame in the assembler's verbose output.
pub(crate) fn largest_frame(log: &str) -> Option<u32> {
    let frames = log.split(" bytes stack frame").map(|before| {
        let digits = before.rfind(|c: char| !c.is_ascii_digit());
        before[digits.map_or(0, |d| d + 1)..].parse().ok()
    });
    frames.flatten().max()
}

/// The interpreter, which also assembles each image that it loads, for later use on a GPU.
pub(crate) struct Assembler {
    interpreter: Interpreter,
    images: Images,
    ptxas: PathBuf,
    folder: PathBuf,
}

impl Assembler {
    pub(crate) fn new(ptxas: &Path, folder: &Path) -> Self {
        Self {
            interpreter: Interpreter::new(),
            images: Images::default(),
            ptxas: ptxas.to_owned(),
            folder: folder.to_owned(),
        }
    }

    fn assemble(&self, ptx: &str) -> Result<(), String> {
        let to = path(&self.folder, ptx);
        if to.exists() {
            return Ok(());
        }
        // The file has a name unique to this image and thread until it is complete.
        let thread = std::thread::current().id();
        let input = to.with_extension(format!("{thread:?}.ptx"));
        let output = to.with_extension(format!("{thread:?}.new"));
        let text = |e: std::io::Error| e.to_string();
        std::fs::write(&input, ptx).map_err(text)?;
        let ran = Command::new(&self.ptxas)
            .args(["-v", "-O3", "-arch", ARCH, "-o"])
            .arg(&output)
            .arg(&input)
            .output()
            .map_err(text)?;
        let log = String::from_utf8_lossy(&ran.stderr);
        if !ran.status.success() {
            return Err(log.into_owned());
        }
        let frame = largest_frame(&log).ok_or_else(|| format!("no frame in: {log}"))?;
        let mut code = std::fs::read(&output).map_err(text)?;
        code.extend(frame.to_le_bytes());
        std::fs::write(&output, code).map_err(text)?;
        std::fs::rename(&output, &to).map_err(text)?;
        std::fs::remove_file(&input).map_err(text)
    }
}

impl Machine for Assembler {
    fn load(
        &mut self,
        prefix: &str,
        ptx: &str,
        calls: &[String],
        depth: u32,
    ) -> Result<u32, String> {
        let image = self.images.add(prefix, ptx, calls)?;
        self.assemble(&image)?;
        self.interpreter.load(ptx)?;
        Ok(depth)
    }
    fn allocate(&mut self, bytes: &[u8], length: u64) -> Result<u64, String> {
        self.interpreter.allocate(bytes, length)
    }
    fn read(&mut self, at: u64, to: &mut [u8]) -> Result<(), String> {
        self.interpreter.read(at, to)
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), String> {
        self.interpreter.write(at, bytes)
    }
    fn run_many(&mut self, prefix: &str, params: &[Vec<u8>], threads: u32) -> Result<(), String> {
        self.interpreter.run_many(prefix, params, threads)
    }
}
