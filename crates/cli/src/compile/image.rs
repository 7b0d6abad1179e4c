//! Images: a module with machine code for several architectures, made without a GPU.

use std::path::Path;
use std::time::Instant;

use everwarp::cuda::assembler::{Estimate, split::split};
use everwarp::cuda::build::{BuiltImage, build, estimate};
use everwarp::cuda::cache::Cache;
use everwarp::process::{ImageFile, Module, NativeImage};
use everwarp_process_cuda::image;
use serde::Serialize;

use super::Args;
use crate::error::CliError;
use crate::output::{ResultFile, print, print_json};

/// The least architecture that the engine runs on.
const LEAST: u32 = 80;

/// What an image file contains.
#[derive(Debug, Serialize)]
struct ImageReport<'a> {
    output: &'a Path,
    module_bytes: usize,
    file_bytes: usize,
    /// What was expected, with nothing in the cache.
    estimate_s: f64,
    images: Vec<ImageRow>,
}

#[derive(Debug, Serialize)]
struct ImageRow {
    arch: String,
    bytes: usize,
    seconds: f64,
}

/// Whether a file's name is that of an image.
pub(super) fn is_image(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "ewimg")
}

/// The cores on which the assembler works.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The number of an architecture, such as sm_90.
pub(super) fn architecture(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("sm_").unwrap_or(text).parse();
    match number {
        Ok(arch) if (LEAST..1000).contains(&arch) => Ok(arch),
        _ => Err(format!("use sm_{LEAST} or a later one, such as sm_90")),
    }
}

/// About how long it takes to assemble a module for one architecture: as processes run it, or for a library its plain code.
pub(super) fn expected(module: &Module, ptx: &str) -> Estimate {
    match image(std::slice::from_ref(module), false) {
        Ok(whole) => estimate(&whole),
        Err(_) => split(ptx).estimate,
    }
}

/// Makes the images of a module, and writes them and the module to a file.
pub(super) fn write(
    args: &Args,
    name: String,
    bytes: Vec<u8>,
    output: &Path,
) -> Result<(), CliError> {
    // What is wrong with the path is said before minutes of work.
    let result = ResultFile::create(output)?;
    let module = Module::new(name.as_str(), bytes).map_err(|source| CliError::Module {
        path: args.module.clone(),
        source,
    })?;
    let whole = image(std::slice::from_ref(&module), args.contract)?;
    let expected = estimate(&whole).on(cores()).as_secs_f64();
    let mut architectures = args.arch.clone();
    architectures.sort_unstable();
    architectures.dedup();
    let cache = Cache::user();
    let (mut images, mut rows) = (Vec::new(), Vec::new());
    for arch in architectures {
        let begin = Instant::now();
        let BuiltImage { key, code, .. } = build(&whole, arch, &cache)?;
        rows.push(ImageRow {
            arch: format!("sm_{arch}"),
            bytes: code.len(),
            seconds: begin.elapsed().as_secs_f64(),
        });
        images.push(NativeImage {
            arch,
            key,
            code: code.into(),
        });
    }
    let module = module.bytes().clone();
    let module_bytes = module.len();
    let file = ImageFile {
        name,
        module,
        images,
    };
    let file = file.to_bytes();
    result.fill(|out| out.write_all(&file))?;
    let report = ImageReport {
        output,
        module_bytes,
        file_bytes: file.len(),
        estimate_s: expected * rows.len() as f64,
        images: rows,
    };
    match args.json {
        true => print_json(&report),
        false => print(&describe(&report)),
    }
}

fn describe(report: &ImageReport<'_>) -> String {
    let mut text = format!(
        "{}: {} bytes with the module's {}",
        report.output.display(),
        report.file_bytes,
        report.module_bytes
    );
    for row in &report.images {
        text += &format!(
            "\n  {:<8}{:>12} bytes  {:>8.1} s",
            row.arch, row.bytes, row.seconds
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_a_number_with_or_without_its_prefix() {
        assert_eq!(architecture("sm_90"), Ok(90));
        assert_eq!(architecture("100"), Ok(100));
        for wrong in ["", "sm_", "sm_75", "sm_90a", "ninety", "99999"] {
            assert!(architecture(wrong).is_err(), "{wrong}");
        }
    }
}
