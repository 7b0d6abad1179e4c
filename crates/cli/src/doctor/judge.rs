//! Findings from the facts, each with the advice for a missing part.

use everwarp::cuda::driver_loads;
use everwarp::files::{BACKEND_SETTING, Backend};
use everwarp::{AdapterReport, CudaUnavailable, EngineKind};

use super::Finding;
use super::facts::{Facts, Gpu, NotStarted, Started};

fn good(what: &'static str, found: String) -> Finding {
    Finding {
        what,
        ok: true,
        found,
        fix: None,
    }
}
fn missing(what: &'static str, found: impl ToString, fix: &'static str) -> Finding {
    Finding {
        what,
        ok: false,
        found: found.to_string(),
        fix: Some(fix),
    }
}

const CORES: &str = "cores";
const DRIVER: &str = "driver";
const GPU: &str = "GPU";
const CAPABILITY: &str = "compute capability";
const COOPERATIVE: &str = "cooperative launch";
const MEMORY: &str = "device memory";
const NVRTC: &str = "NVRTC";
const ASSEMBLER: &str = "assembler";
const CACHE: &str = "image cache";
const IO_URING: &str = "io_uring";
const GPU_DIRECT: &str = "GPUDirect Storage";
const ADAPTER: &str = "adapter";
const ENGINE: &str = "engine";

/// One finding for each part that an engine needs.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut list = vec![cores(facts.cores), driver(&facts.driver)];
    gpu(facts, &mut list);
    let older_driver = |nvrtc| facts.cuda.filter(|driver| !driver_loads(*driver, nvrtc));
    list.push(match &facts.nvrtc {
        Ok((major, minor, path)) => match older_driver((*major, *minor)) {
            Some((cuda, cuda_minor)) => missing(
                NVRTC,
                format!(
                    "{major}.{minor} ({}), whose code the driver does not load: it is made for CUDA {cuda}.{cuda_minor}",
                    path.display()
                ),
                "update the driver, or set EVERWARP_NVRTC to a libnvrtc of the driver's version of CUDA or an earlier one",
            ),
            None => good(NVRTC, format!("{major}.{minor} ({})", path.display())),
        },
        Err(e) => missing(
            NVRTC,
            first_line(e),
            "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc`, or set EVERWARP_NVRTC",
        ),
    });
    list.push(match &facts.assembler {
        Ok(tool) => good(
            ASSEMBLER,
            format!("ptxas {} ({})", tool.version, tool.path.display()),
        ),
        Err(e) => missing(
            ASSEMBLER,
            first_line(e),
            "install the CUDA toolkit, or `pip install nvidia-cuda-nvcc`, or set EVERWARP_PTXAS",
        ),
    });
    list.push(match &facts.cache {
        Some(folder) => good(CACHE, folder.display().to_string()),
        None => missing(
            CACHE,
            "no folder for it",
            "set EVERWARP_CACHE_DIR to a folder that can be written",
        ),
    });
    list.push(match (&facts.io_uring, &facts.backend) {
        (_, Err(why)) => missing(
            IO_URING,
            why,
            "set EVERWARP_IO to io_uring or threads, or do not set it",
        ),
        (Ok(()), Ok(Some(Backend::Threads))) => good(
            IO_URING,
            format!("the kernel offers it, but {BACKEND_SETTING} or --io has files read by threads with plain calls"),
        ),
        (Ok(()), _) => good(
            IO_URING,
            "the kernel offers it; threads with an io_uring each read files".to_owned(),
        ),
        (Err(why), _) => missing(
            IO_URING,
            format!("{why}; threads with plain calls read files"),
            "set the sysctl kernel.io_uring_disabled to 0, or allow it in the container's seccomp profile",
        ),
    });
    // Nothing is missing without it: files go through the host's memory.
    let module = match facts.gpu_direct {
        true => "the module nvidia-fs is loaded; everwarp does not use it",
        false => "the module nvidia-fs is not loaded; everwarp does not need it",
    };
    list.push(good(GPU_DIRECT, module.to_owned()));
    adapters(&facts.adapters, &mut list);
    list.push(engine(facts.kind, &facts.engine));
    list
}

const BROKEN_DRIVER: &str =
    "run nvidia-smi, and reload or reinstall the driver if it fails; or use --engine cpu";

/// The longest text about one part.
const FOUND_MOST: usize = 160;

/// The first line of an error, shortened if it is long. The rest is for the command that needs the part.
fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    match line.char_indices().nth(FOUND_MOST) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}...", &line[..end]),
    }
}

fn cores(cores: usize) -> Finding {
    if cores > 1 {
        return good(CORES, format!("{cores}; the cpu engine runs here"));
    }
    missing(
        CORES,
        "only one, which the cpu engine shares with the program that waits for it",
        "check taskset, the container's CPU limit and the virtual machine's size",
    )
}

fn driver(driver: &Result<u32, CudaUnavailable>) -> Finding {
    match driver {
        Ok(count) => good(DRIVER, format!("it works and shows {count} GPUs")),
        Err(CudaUnavailable::NoDriver) => missing(
            DRIVER,
            "not installed: libcuda.so.1 was not found",
            "install NVIDIA's driver, or use --engine cpu",
        ),
        Err(CudaUnavailable::DriverFailed(e)) => missing(
            DRIVER,
            format!("it does not start: {}", first_line(&e.to_string())),
            BROKEN_DRIVER,
        ),
        Err(e) => missing(DRIVER, first_line(&e.to_string()), BROKEN_DRIVER),
    }
}

/// The GPU, and the features that the engine needs.
fn gpu(facts: &Facts, list: &mut Vec<Finding>) {
    let found = |name: &str| good(GPU, name.to_owned());
    match &facts.gpu {
        Ok(gpu) => {
            list.push(good(
                GPU,
                format!("{}, {} multiprocessors", gpu.name, gpu.multiprocessors),
            ));
            let (major, minor) = (gpu.arch / 10, gpu.arch % 10);
            list.push(good(CAPABILITY, format!("{major}.{minor}")));
            list.push(good(COOPERATIVE, "supported".to_owned()));
            list.push(memory(gpu, &facts.engine));
        }
        Err(CudaUnavailable::TooOld { name, major, minor }) => {
            list.push(found(name));
            list.push(missing(
                CAPABILITY,
                format!("{major}.{minor}, but the engine needs 8.0"),
                "use a GPU of the Ampere generation or later (choose one with CUDA_VISIBLE_DEVICES), or --engine cpu",
            ));
        }
        Err(CudaUnavailable::NotCooperative { name }) => {
            list.push(found(name));
            list.push(missing(
                COOPERATIVE,
                "not supported, as under MPS and some kinds of vGPU",
                "stop MPS or give the machine the whole GPU, or use --engine cpu",
            ));
        }
        Err(CudaUnavailable::NoDevice { count, .. }) => list.push(missing(
            GPU,
            format!("the driver shows {count}"),
            "check CUDA_VISIBLE_DEVICES, or the container's GPU option (--gpus all), or use --engine cpu",
        )),
        Err(_) => list.push(missing(
            GPU,
            "unknown without a working driver",
            "repair the driver first, or use --engine cpu",
        )),
    }
}

fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

fn memory(gpu: &Gpu, engine: &Result<Started, NotStarted>) -> Finding {
    let text = match &gpu.memory {
        Ok((free, total)) => format!("{} MiB free of {} MiB", mib(*free), mib(*total)),
        Err(e) => format!("the driver does not say how much is free: {e}"),
    };
    match engine {
        Err(NotStarted {
            wanted: Some(wanted),
            ..
        }) => missing(
            MEMORY,
            format!(
                "{text}, but an engine of default size wants {} MiB",
                mib(*wanted)
            ),
            "end other programs on the GPU (nvidia-smi lists them), or start the engine with smaller Pools",
        ),
        _ => good(MEMORY, text),
    }
}

/// The adapters of the wgpu engine, by the numbers that `--adapter` takes.
fn adapters(adapters: &Result<Vec<AdapterReport>, String>, list: &mut Vec<Finding>) {
    let found = match adapters {
        Ok(found) => found,
        Err(why) => {
            list.push(missing(
                ADAPTER,
                first_line(why),
                "for --engine wgpu, install the Vulkan loader and a driver; the other engines do not need them",
            ));
            return;
        }
    };
    for (number, adapter) in found.iter().enumerate() {
        let AdapterReport {
            name,
            backend,
            driver,
            ..
        } = adapter;
        let kind = match adapter.software {
            true => "software, used only when asked for",
            false => "hardware",
        };
        let text = format!("{number}: {name} ({backend}, {driver}), {kind}");
        list.push(match &adapter.fault {
            None => good(
                ADAPTER,
                format!(
                    "{text}; window of {} MiB, {} KiB of workgroup memory, {}; long loops run to their end{}",
                    mib(adapter.window_bytes),
                    adapter.workgroup_bytes >> 10,
                    match adapter.features.is_empty() {
                        true => "no optional feature".to_owned(),
                        false => adapter.features.join(", "),
                    },
                    match adapter.host_writes {
                        Some(true) => ", and a running dispatch sees what the host writes",
                        Some(false) => ", and a running dispatch does not see what the host writes",
                        None => "",
                    },
                ),
            ),
            Some(fault) => missing(
                ADAPTER,
                format!("{text}: {}", first_line(fault)),
                "update its driver, or choose another adapter with --adapter, or use another engine",
            ),
        });
    }
}

/// The workers of an engine: threads of the CPU, or the warps of blocks of a GPU.
fn workers(kind: EngineKind, started: &Started) -> String {
    let many = |n: u32, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
    match kind {
        EngineKind::Cpu => many(started.workers, "worker thread"),
        EngineKind::Wgpu => many(started.workers, "workgroup"),
        EngineKind::Cuda => format!(
            "{} in {}",
            many(started.workers, "worker"),
            many(started.size, "block")
        ),
    }
}

/// An engine of default size, and the memory that it takes.
fn engine(kind: EngineKind, engine: &Result<Started, NotStarted>) -> Finding {
    match engine {
        Ok(s) => good(
            ENGINE,
            format!(
                "{kind}: {}, {} MiB of device memory, {} MiB of pinned host memory, started in {:.1} ms",
                workers(kind, s),
                mib(s.device_bytes),
                mib(s.host_bytes),
                s.milliseconds
            ),
        ),
        Err(e) => missing(
            ENGINE,
            format!("{kind}: {}", first_line(&e.message)),
            "repair what is missing above, or use --engine cpu; if nothing is missing, report a bug",
        ),
    }
}

#[cfg(test)]
mod tests {
    use everwarp::cuda::assembler::Tool;

    use super::*;

    /// A machine without missing parts.
    fn all() -> Facts {
        Facts {
            cores: 16,
            driver: Ok(1),
            cuda: Some((13, 0)),
            gpu: Ok(Gpu {
                name: "NVIDIA H200".to_owned(),
                multiprocessors: 132,
                arch: 90,
                memory: Ok((100 << 30, 140 << 30)),
            }),
            nvrtc: Ok((13, 0, "libnvrtc.so.13".into())),
            assembler: Ok(Tool {
                path: "/cuda/bin/ptxas".into(),
                version: "13.0.88".to_owned(),
            }),
            cache: Some("/cache".into()),
            io_uring: Ok(()),
            backend: Ok(None),
            gpu_direct: true,
            adapters: Ok(vec![adapter("NVIDIA H200", None)]),
            kind: EngineKind::Cuda,
            engine: Ok(Started {
                device_bytes: 500 << 20,
                host_bytes: 20 << 20,
                workers: 4224,
                size: 264,
                milliseconds: 3.0,
            }),
        }
    }
    fn adapter(name: &str, fault: Option<&str>) -> AdapterReport {
        AdapterReport {
            name: name.to_owned(),
            backend: "Vulkan".to_owned(),
            driver: "NVIDIA 580".to_owned(),
            software: false,
            window_bytes: 2 << 30,
            workgroup_bytes: 48 << 10,
            features: vec!["SUBGROUP"],
            host_writes: Some(false),
            fault: fault.map(str::to_owned),
        }
    }
    /// The one missing part, and what to do.
    fn only_missing(facts: &Facts) -> (&'static str, &'static str) {
        let list = judge(facts);
        let mut missing = list.iter().filter(|f| !f.ok);
        let one = missing.next().expect("something is missing");
        assert!(missing.next().is_none(), "{list:?}");
        let fix = one.fix.expect("it says what to do");
        assert!(!fix.contains('\n'), "one line: {fix}");
        (one.what, fix)
    }

    #[test]
    fn a_complete_machine_needs_no_fix() {
        for finding in judge(&all()) {
            assert!(finding.ok && finding.fix.is_none(), "{finding:?}");
            assert!(finding.to_string().starts_with("ok "), "{finding}");
        }
    }

    #[test]
    fn workers_are_counted_in_the_singular_and_the_plural() {
        let text = |kind, workers, size| {
            let Ok(started) = all().engine else {
                panic!("the engine of a complete machine starts");
            };
            super::workers(
                kind,
                &Started {
                    workers,
                    size,
                    ..started
                },
            )
        };
        assert_eq!(text(EngineKind::Cpu, 1, 1), "1 worker thread");
        assert_eq!(text(EngineKind::Cpu, 2, 2), "2 worker threads");
        assert_eq!(
            text(EngineKind::Cuda, 4224, 264),
            "4224 workers in 264 blocks"
        );
    }

    #[test]
    fn each_missing_part_has_its_own_line() {
        let (what, fix) = only_missing(&Facts { cores: 1, ..all() });
        assert!(what == CORES && fix.contains("taskset"), "{fix}");

        let name = || "NVIDIA T4".to_owned();
        let gpu = |reason| Facts {
            gpu: Err(reason),
            ..all()
        };
        let (what, fix) = only_missing(&gpu(CudaUnavailable::TooOld {
            name: name(),
            major: 7,
            minor: 5,
        }));
        assert!(what == CAPABILITY && fix.contains("Ampere"), "{fix}");
        let (what, fix) = only_missing(&gpu(CudaUnavailable::NotCooperative { name: name() }));
        assert!(what == COOPERATIVE && fix.contains("MPS"), "{fix}");
        let (what, fix) = only_missing(&gpu(CudaUnavailable::NoDevice {
            ordinal: 0,
            count: 0,
        }));
        assert!(what == GPU && fix.contains("CUDA_VISIBLE_DEVICES"), "{fix}");

        let (what, fix) = only_missing(&Facts {
            nvrtc: Err("not found".to_owned()),
            ..all()
        });
        assert!(what == NVRTC && fix.contains("nvidia-cuda-nvrtc"), "{fix}");
        let (what, fix) = only_missing(&Facts {
            assembler: Err("not found".to_owned()),
            ..all()
        });
        assert!(
            what == ASSEMBLER && fix.contains("nvidia-cuda-nvcc"),
            "{fix}"
        );
        let (what, fix) = only_missing(&Facts {
            cache: None,
            ..all()
        });
        assert!(what == CACHE && fix.contains("EVERWARP_CACHE_DIR"), "{fix}");
        let (what, fix) = only_missing(&Facts {
            backend: Err("no".to_owned()),
            ..all()
        });
        assert!(what == IO_URING && fix.contains("EVERWARP_IO"), "{fix}");
        let (what, fix) = only_missing(&Facts {
            io_uring: Err("no".to_owned()),
            ..all()
        });
        assert!(
            what == IO_URING && fix.contains("io_uring_disabled"),
            "{fix}"
        );
    }

    #[test]
    fn adapters_have_their_numbers_and_what_is_wrong_with_them() {
        let list = judge(&Facts {
            adapters: Ok(vec![
                adapter("Radeon", None),
                AdapterReport {
                    software: true,
                    ..adapter("llvmpipe", Some("ends loops without a word\nmore"))
                },
            ]),
            ..all()
        });
        let found: Vec<_> = list.iter().filter(|f| f.what == ADAPTER).collect();
        assert_eq!(found.len(), 2, "{list:?}");
        let text = &found[0].found;
        assert!(
            found[0].ok && text.starts_with("0: Radeon (Vulkan"),
            "{text}"
        );
        assert!(
            text.contains("window of 2048 MiB, 48 KiB")
                && text.contains("hardware")
                && text.ends_with("a running dispatch does not see what the host writes"),
            "{text}"
        );
        let text = &found[1].found;
        assert!(
            !found[1].ok && text.starts_with("1: llvmpipe") && text.contains("only when asked for"),
            "{text}"
        );
        assert!(text.ends_with("ends loops without a word"), "{text}");
        let (what, fix) = only_missing(&Facts {
            adapters: Err("the library libvulkan.so.1 was not found".to_owned()),
            ..all()
        });
        assert!(what == ADAPTER && fix.contains("Vulkan"), "{fix}");
    }

    #[test]
    fn driver_that_is_older_than_nvrtc_is_named_with_both_versions() {
        let old = Facts {
            cuda: Some((12, 4)),
            ..all()
        };
        let (what, fix) = only_missing(&old);
        assert!(what == NVRTC && fix.contains("update the driver"), "{fix}");
        let list = judge(&old);
        let found = list.iter().find(|f| f.what == NVRTC).expect("it is there");
        assert!(
            found.found.contains("13.0") && found.found.contains("CUDA 12.4"),
            "{}",
            found.found
        );
        // A newer driver, another minor version and an unknown one are no fault.
        for cuda in [Some((14, 1)), Some((13, 9)), None] {
            let list = judge(&Facts { cuda, ..all() });
            assert!(list.iter().all(|f| f.ok), "{cuda:?}");
        }
    }

    #[test]
    fn a_missing_driver_and_a_broken_one_have_different_fixes() {
        let fix = |reason: fn() -> CudaUnavailable| {
            let list = judge(&Facts {
                driver: Err(reason()),
                gpu: Err(reason()),
                ..all()
            });
            let missing: Vec<_> = list.into_iter().filter(|f| !f.ok).collect();
            assert_eq!(missing.len(), 2, "{missing:?}");
            assert_eq!([missing[0].what, missing[1].what], [DRIVER, GPU]);
            missing[0].fix.expect("it says what to do")
        };
        assert!(fix(|| CudaUnavailable::NoDriver).starts_with("install"));
        let broken = || {
            CudaUnavailable::DriverFailed(everwarp::EngineError::Driver {
                call: "cuInit",
                code: 999,
                name: "CUDA_ERROR_UNKNOWN".to_owned(),
            })
        };
        assert!(fix(broken).starts_with("run nvidia-smi"));
    }

    #[test]
    fn lines_are_short_and_advice_is_given_once() {
        let list = judge(&Facts {
            driver: Err(CudaUnavailable::NoDriver),
            gpu: Err(CudaUnavailable::NoDriver),
            nvrtc: Err("a path, ".repeat(200)),
            engine: Err(NotStarted {
                wanted: None,
                message: "the image could not be compiled\nlong log".to_owned(),
            }),
            ..all()
        });
        for finding in list.iter().filter(|f| !f.ok) {
            let found = &finding.found;
            assert!(found.chars().count() <= FOUND_MOST + 20, "{finding}");
            assert!(!found.contains('\n'), "{finding}");
            assert!(!found.contains("--engine cpu"), "{finding}");
            let fix = finding.fix.expect("it says what to do");
            assert!(fix.chars().count() <= 100, "{finding}");
        }
    }

    #[test]
    fn too_little_device_memory_names_the_missing_bytes() {
        let list = judge(&Facts {
            engine: Err(NotStarted {
                wanted: Some(500 << 20),
                message: "out of device memory".to_owned(),
            }),
            ..all()
        });
        let memory = list.iter().find(|f| f.what == MEMORY).expect("it is there");
        assert!(!memory.ok && memory.found.contains("500 MiB"), "{memory}");
        assert!(memory.fix.expect("a fix").contains("smaller Pools"));
        let engine = list.iter().find(|f| f.what == ENGINE).expect("it is there");
        assert!(!engine.ok && engine.found.contains("cuda"), "{engine}");
    }
}
