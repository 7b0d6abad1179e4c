//! What each kernel occupies, as the assembler reports it in the log of a compilation.
//!
//! The log of NVRTC 12.8, 13.0 and 13.5 carries the report of `ptxas -v` when a cubin is made. The cubin alone
//! would not do: it states registers and frames but not spills. It serves as the check instead: each of its
//! kernels must be in the report, so that a changed wording is an error and not a clean bill.

use crate::elf;
use crate::unit::Cubin;

/// What one kernel occupies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelUsage {
    /// The kernel's name in the cubin (mangled unless it is `extern "C"`).
    pub kernel: String,
    /// Registers of each thread.
    pub registers: u32,
    /// Bytes of local memory of each thread: the kernel's frame with the deepest chain of calls. With
    /// recursion or calls through pointers the chain is unknown, and this is a lower bound.
    pub stack_bytes: u32,
    /// Bytes stored by spills, summed over the kernel and the functions that were not inlined into it.
    pub spill_store_bytes: u32,
    /// Bytes loaded by spills, summed likewise.
    pub spill_load_bytes: u32,
    /// Bytes of static shared memory of each block, without what the system reserves (1,024 bytes from `sm_80`
    /// on) and without what a launch adds.
    pub shared_bytes: u32,
}

/// Why the report could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// The image is no cubin.
    #[error("the image is not a complete 64-bit ELF file, so it is no cubin")]
    NotElf,
    /// A line of the report has another form than expected.
    #[error(
        "the assembler's report has a line that this version of everwarp cannot read: `{line}`"
    )]
    Line {
        /// The line.
        line: String,
    },
    /// The report on a kernel stops halfway.
    #[error("the assembler's report on `{kernel}` lacks its {part}")]
    Incomplete {
        /// The kernel.
        kernel: String,
        /// What is missing.
        part: &'static str,
    },
    /// The cubin has code on which there is no report.
    #[error(
        "there is no report on `{function}`: the log is of another cubin, the assembler's wording has changed, \
         or the code is relocatable (-rdc=true), where frames and spills of calls are unknown"
    )]
    Unreported {
        /// The kernel, or the function of relocatable code.
        function: String,
    },
}

/// What each kernel of a cubin occupies, in the order of the assembler's report.
///
/// # Errors
/// Any doubt about the report is an error; a kernel is never left out silently.
pub fn usage(cubin: &Cubin) -> Result<Vec<KernelUsage>, UsageError> {
    let kernels = parse(&cubin.log)?;
    let sections = elf::section_names(&cubin.image).ok_or(UsageError::NotElf)?;
    for function in sections.iter().filter_map(|s| s.strip_prefix(".nv.info.")) {
        if !kernels.iter().any(|k| k.kernel == function) {
            return Err(UsageError::Unreported {
                function: function.to_owned(),
            });
        }
    }
    Ok(kernels)
}

/// A kernel whose report is being read.
struct Entry {
    usage: KernelUsage,
    framed: bool,
    used: bool,
}

impl Entry {
    fn new(kernel: &str) -> Self {
        let usage = KernelUsage {
            kernel: kernel.to_owned(),
            registers: 0,
            stack_bytes: 0,
            spill_store_bytes: 0,
            spill_load_bytes: 0,
            shared_bytes: 0,
        };
        Self {
            usage,
            framed: false,
            used: false,
        }
    }

    fn finish(self) -> Result<KernelUsage, UsageError> {
        let part = match (self.framed, self.used) {
            (true, true) => return Ok(self.usage),
            (false, _) => "stack frame",
            (true, false) => "registers",
        };
        Err(UsageError::Incomplete {
            kernel: self.usage.kernel,
            part,
        })
    }
}

/// Reads the assembler's lines of a log.
///
/// A kernel's block opens with its name, gives its frame and spills, then its registers, and then frame and
/// spills of each function that it calls. Each kernel has its own copies of those functions.
fn parse(log: &str) -> Result<Vec<KernelUsage>, UsageError> {
    let mut done = Vec::new();
    let mut open: Option<Entry> = None;
    for line in log.lines().filter(|l| l.starts_with("ptxas")) {
        let unreadable = || UsageError::Line {
            line: line.to_owned(),
        };
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let (kernel, _) = rest.split_once('\'').ok_or_else(unreadable)?;
            if let Some(entry) = open.replace(Entry::new(kernel)) {
                done.push(entry.finish()?);
            }
        } else if line.contains("bytes stack frame") {
            // Before the first kernel stand only functions of relocatable code; `usage` names them.
            let Some(entry) = &mut open else { continue };
            let [frame, stores, loads] = frame(line).ok_or_else(unreadable)?;
            entry.framed = true;
            entry.usage.stack_bytes = entry.usage.stack_bytes.max(frame);
            entry.usage.spill_store_bytes += stores;
            entry.usage.spill_load_bytes += loads;
        } else if let Some((_, rest)) = line.split_once(": Used ") {
            let entry = open.as_mut().ok_or_else(unreadable)?;
            used(rest, &mut entry.usage).ok_or_else(unreadable)?;
            entry.used = true;
        }
    }
    if let Some(entry) = open {
        done.push(entry.finish()?);
    }
    Ok(done)
}

/// The numbers of `16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads`.
fn frame(line: &str) -> Option<[u32; 3]> {
    let mut parts = line.split(", ");
    let mut part = |suffix: &str| {
        let text = parts.next()?.trim_end().strip_suffix(suffix)?;
        text.split_whitespace().next_back()?.parse().ok()
    };
    Some([
        part(" bytes stack frame")?,
        part(" bytes spill stores")?,
        part(" bytes spill loads")?,
    ])
}

/// The parts of `8 registers, used 0 barriers, 512 bytes smem, 16 bytes cumulative stack size`; the first is
/// always there, the stack size only where there is one, and others (constant banks) do not matter here.
fn used(rest: &str, usage: &mut KernelUsage) -> Option<()> {
    let mut registers = None;
    for part in rest.split(", ") {
        if let Some(count) = part.strip_suffix(" registers") {
            registers = Some(count.parse().ok()?);
        } else if let Some(bytes) = part.strip_suffix(" bytes smem") {
            usage.shared_bytes = bytes.parse().ok()?;
        } else if let Some(bytes) = part.strip_suffix(" bytes cumulative stack size") {
            usage.stack_bytes = usage.stack_bytes.max(bytes.parse().ok()?);
        }
    }
    usage.registers = registers?;
    Some(())
}

#[cfg(test)]
mod tests;
