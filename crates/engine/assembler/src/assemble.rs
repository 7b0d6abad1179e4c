//! The assembler: all pieces of all parts in one queue, which as many children as there are cores empty.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::child::{Limits, Stop, run};
use crate::error::{AssembleError, Cause};
use crate::progress::{Progress, report};
use crate::split::split;
use crate::tools::{Tool, ToolError};

const PTXAS: &str = "ptxas";
const NVLINK: &str = "nvlink";

/// A file of PTX.
#[derive(Clone, Copy, Debug)]
pub struct Part<'p> {
    /// Its name in messages.
    pub name: &'p str,
    /// The text.
    pub ptx: &'p str,
}

/// What machine code is made for.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The architecture, 90 meaning `sm_90`.
    pub arch: u32,
    /// The most registers that a function may use.
    pub registers: u32,
    /// Nothing is optimized, so that functions need no constants of their own: other code has them for lists of branches, which the
    /// assembler makes of comparisons.
    pub plain: bool,
}

/// The lowest priority.
const NICE_IDLE: i32 = 19;

/// ptxas and nvlink with the limits of their processes.
#[derive(Clone, Debug)]
pub struct Assembler {
    ptxas: Tool,
    /// How many children run at a time.
    jobs: NonZero<usize>,
    limits: Limits,
    /// Is set when the caller does not want the code any more.
    unwanted: Option<Arc<AtomicBool>>,
}

/// A piece that waits to be assembled.
struct Work<'p> {
    part: usize,
    name: &'p str,
    /// About how long it takes, in seconds.
    seconds: f64,
    text: String,
}

impl Assembler {
    /// The assembler that [`Tool::ptxas`] finds, with as many jobs as there are cores.
    ///
    /// # Errors
    /// There is none.
    pub fn find() -> Result<Self, ToolError> {
        Tool::ptxas().map(Self::new)
    }

    /// An assembler with as many jobs as there are cores.
    pub fn new(ptxas: Tool) -> Self {
        let jobs = std::thread::available_parallelism();
        Self {
            ptxas,
            jobs: jobs.unwrap_or(NonZero::<usize>::MIN),
            limits: Limits::default(),
            unwanted: None,
        }
    }

    /// The same with this many jobs.
    #[must_use]
    pub fn jobs(self, jobs: NonZero<usize>) -> Self {
        Self { jobs, ..self }
    }

    /// The same with other limits of each child.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The same, with children that leave the cores to all others.
    #[must_use]
    pub fn idly(self) -> Self {
        let limits = Limits {
            nice: NICE_IDLE,
            ..self.limits
        };
        Self { limits, ..self }
    }

    /// The same, until `unwanted` is set: then the children are ended, and the result is [`Cause::Stopped`].
    #[must_use]
    pub fn until(self, unwanted: Arc<AtomicBool>) -> Self {
        let unwanted = Some(unwanted);
        Self { unwanted, ..self }
    }

    fn stop(&self) -> Stop {
        Stop::new(self.unwanted.clone())
    }

    /// The program that assembles.
    pub fn ptxas(&self) -> &Tool {
        &self.ptxas
    }

    /// Assembles parts to relocatable machine code: for each part its pieces. Nothing is left of the work, whether it
    /// succeeds or not.
    ///
    /// # Errors
    /// A part cannot be assembled, or not within the limits; the others are given up.
    pub fn assemble(
        &self,
        parts: &[Part<'_>],
        target: &Target,
    ) -> Result<Vec<Vec<Vec<u8>>>, AssembleError> {
        let Some(first) = parts.first() else {
            return Ok(Vec::new());
        };
        let folder = scratch(PTXAS, first.name)?;
        let mut work = Vec::new();
        for (part, Part { name, ptx }) in parts.iter().enumerate() {
            let pieces = split(ptx);
            for (text, seconds) in pieces.texts.into_iter().zip(pieces.seconds) {
                work.push(Work {
                    part,
                    name,
                    seconds,
                    text,
                });
            }
        }
        work.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let of = work.len();
        report(Progress { done: 0, of });
        let done = AtomicUsize::new(0);
        let assembled = self.on_all_cores(first.name, work, |number, work, stop| {
            let object = self.piece(folder.path(), number, work, target, stop)?;
            let done = 1 + done.fetch_add(1, Ordering::Relaxed);
            report(Progress { done, of });
            Ok((work.part, object))
        });
        // Also after an error, so that nothing that shows the progress goes on.
        report(Progress { done: of, of });
        let mut objects = vec![Vec::new(); parts.len()];
        for (part, object) in assembled? {
            objects[part].push(object);
        }
        Ok(objects)
    }

    /// Links machine code to an image.
    ///
    /// # Errors
    /// There is no nvlink, a function is missing, or the limits do not suffice.
    pub fn link(
        &self,
        name: &str,
        objects: &[&[u8]],
        target: &Target,
    ) -> Result<Vec<u8>, AssembleError> {
        let failed = |cause| AssembleError {
            part: name.to_owned(),
            cause,
        };
        let nvlink = Tool::nvlink(&self.ptxas).map_err(|e| failed(e.into()))?;
        let folder = scratch(NVLINK, name)?;
        let files: Vec<_> = (0..objects.len())
            .map(|number| folder.path().join(format!("{number}.cubin")))
            .collect();
        let unusable = |source| {
            failed(Cause::Run {
                program: NVLINK,
                source,
            })
        };
        for (file, object) in files.iter().zip(objects) {
            std::fs::write(file, object).map_err(unusable)?;
        }
        let output = folder.path().join("linked.cubin");
        let arguments = |command: &mut Command| {
            command.arg(format!("--arch=sm_{}", target.arch));
            command.arg("-o").arg(&output).args(&files);
        };
        let stop = self.stop();
        run(NVLINK, &nvlink.path, &arguments, &self.limits, &stop).map_err(failed)?;
        std::fs::read(&output).map_err(unusable)
    }

    /// Does all work; of errors, the first one in time.
    fn on_all_cores<'p, T: Send>(
        &self,
        part: &str,
        work: Vec<Work<'p>>,
        one: impl Fn(usize, &Work<'p>, &Stop) -> Result<T, AssembleError> + Sync,
    ) -> Result<Vec<T>, AssembleError> {
        let threads = self.jobs.get().min(work.len());
        let stop = self.stop();
        let failed = Mutex::new(None);
        let queue = Mutex::new(work.into_iter().enumerate());
        let lock = || queue.lock().unwrap_or_else(|e| e.into_inner()).next();
        let thread = || {
            let mut done = Vec::new();
            while !stop.is_set()
                && let Some((number, work)) = lock()
            {
                match one(number, &work, &stop) {
                    Ok(result) => done.push((number, result)),
                    Err(error) => {
                        let mut failed = failed.lock().unwrap_or_else(|e| e.into_inner());
                        failed.get_or_insert(error);
                        stop.fail();
                    }
                }
            }
            done
        };
        let mut done = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(thread)).collect();
            let mut done = Vec::new();
            for thread in threads {
                match thread.join() {
                    Ok(more) => done.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            done
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
            return Err(error);
        }
        if stop.is_set() {
            // Some may be missing.
            return Err(AssembleError {
                part: part.to_owned(),
                cause: Cause::Stopped { program: PTXAS },
            });
        }
        // The same order each time, so that images are the same.
        done.sort_by_key(|(number, _)| *number);
        Ok(done.into_iter().map(|(_, result)| result).collect())
    }

    fn piece(
        &self,
        folder: &Path,
        number: usize,
        work: &Work<'_>,
        target: &Target,
        stop: &Stop,
    ) -> Result<Vec<u8>, AssembleError> {
        let file = |extension: &str| folder.join(format!("{number}.{extension}"));
        let (input, output) = (file("ptx"), file("cubin"));
        let arguments = |command: &mut Command| {
            command
                .arg("-c")
                .arg(format!("-arch=sm_{}", target.arch))
                .arg(format!("--maxrregcount={}", target.registers))
                .args(target.plain.then_some("-O0"))
                .arg("-o")
                .args([&output, &input]);
        };
        let made = self.files(&input, &output, &work.text, |limits| {
            run(PTXAS, &self.ptxas.path, &arguments, limits, stop)
        });
        made.map_err(|cause| AssembleError {
            part: work.name.to_owned(),
            cause,
        })
    }

    /// Writes the input, runs, and reads the output. Both files are removed, so that the folder never holds much.
    fn files(
        &self,
        input: &PathBuf,
        output: &PathBuf,
        text: &str,
        run: impl FnOnce(&Limits) -> Result<(), Cause>,
    ) -> Result<Vec<u8>, Cause> {
        let failed = |source| Cause::Run {
            program: PTXAS,
            source,
        };
        std::fs::write(input, text).map_err(failed)?;
        run(&self.limits)?;
        let object = std::fs::read(output).map_err(failed)?;
        for file in [input, output] {
            std::fs::remove_file(file).map_err(failed)?;
        }
        Ok(object)
    }
}

/// A folder for the files of one piece of work, which only this user can read and which is removed with its value.
fn scratch(program: &'static str, part: &str) -> Result<tempfile::TempDir, AssembleError> {
    let mut folder = tempfile::Builder::new();
    folder.prefix("everwarp-");
    #[cfg(unix)]
    folder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    folder.tempdir().map_err(|source| AssembleError {
        part: part.to_owned(),
        cause: Cause::Run { program, source },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;
    use crate::testing::{fake_ptxas, ptxas};

    const TARGET: Target = Target {
        arch: 90,
        registers: 64,
        plain: false,
    };

    /// A module of functions that call each other, as our compiler writes them.
    fn module(functions: usize, lines: usize) -> String {
        let mut text = String::from(".version 7.5\n.target sm_80\n.address_size 64\n");
        for n in 0..functions {
            text += &format!(".func (.param .b32 ret) m{n}(.param .b32 a0);\n");
        }
        for n in 0..functions {
            let own = "  mad.lo.s32 %r0, %r0, %r0, 7;\n".repeat(lines);
            let next = (n + 1) % functions;
            text += &format!(
                ".func (.param .b32 ret) m{n}(.param .b32 a0)\n{{\n  .reg .b32 %r<2>;\n  .reg .pred %p;\n  \
                 ld.param.b32 %r0, [a0];\n{own}  setp.eq.u32 %p, %r0, 0;\n  @%p bra $end;\n  {{\n  .param .b32 c0;\n  \
                 .param .b32 r;\n  st.param.b32 [c0], %r0;\n  call (r), m{next}, (c0);\n  ld.param.b32 %r0, [r];\n  }}\n\
                 $end:\n  st.param.b32 [ret], %r0;\n  ret;\n}}\n"
            );
        }
        text + ".visible .entry run(.param .u64 p)\n{\n  {\n  .param .b32 c0;\n  .param .b32 r;\n  st.param.b32 [c0], 1;\n  \
                call (r), m0, (c0);\n  }\n  ret;\n}\n"
    }

    fn part<'p>(name: &'p str, ptx: &'p str) -> Part<'p> {
        Part { name, ptx }
    }

    #[test]
    fn pieces_are_assembled_and_linked() {
        let Some(ptxas) = ptxas() else { return };
        let assembler = Assembler::new(ptxas);
        let text = module(60, 80);
        let objects = assembler.assemble(&[part("m", &text)], &TARGET);
        let objects = objects.expect("it assembles").remove(0);
        assert!(objects.len() > 1);
        let all: Vec<_> = objects.iter().map(Vec::as_slice).collect();
        let image = assembler.link("m", &all, &TARGET).expect("it links");
        assert!(image.starts_with(b"\x7fELF"));
        for function in ["m0", "m59", "run"] {
            let name = format!(".text.{function}\0");
            assert!(
                image.windows(name.len()).any(|w| w == name.as_bytes()),
                "{name}"
            );
        }
        // A function that no piece has is missed. The kernel, which needs it, stays.
        let kernel = |object: &&[u8]| object.windows(10).any(|w| w == b".text.run\0");
        let mut fewer = all.clone();
        fewer.swap_remove(
            all.iter()
                .position(|o| !kernel(o))
                .expect("there are others"),
        );
        let missing = assembler.link("m", &fewer, &TARGET);
        let missing = missing.expect_err("a piece is missing").to_string();
        assert!(missing.contains("m: nvlink refuses the code"), "{missing}");
        assert!(missing.contains("ndefined"), "{missing}");
    }

    #[test]
    fn jobs_and_order_do_not_change_the_code() {
        let Some(ptxas) = ptxas() else { return };
        let text = module(40, 80);
        let of = |jobs| {
            let assembler = Assembler::new(ptxas.clone());
            let assembler = assembler.jobs(NonZero::new(jobs).expect("it is not zero"));
            let made = assembler.assemble(&[part("m", &text)], &TARGET);
            made.expect("it assembles")
        };
        assert_eq!(of(1), of(3));
    }

    #[test]
    fn text_that_is_refused_names_its_part() {
        let Some(ptxas) = ptxas() else { return };
        let assembler = Assembler::new(ptxas);
        let (right, wrong) = (module(2, 1), module(2, 1).replace("mad.lo", "nonsense"));
        let made = assembler.assemble(&[part("right", &right), part("wrong", &wrong)], &TARGET);
        let error = made.expect_err("it is no PTX").to_string();
        assert!(
            error.starts_with("wrong: ptxas refuses the code"),
            "{error}"
        );
        assert!(error.contains("nonsense"), "{error}");
    }

    /// Nested loops take ptxas time and memory out of proportion.
    fn hostile(loops: usize) -> String {
        let begin: String = (0..loops)
            .map(|n| format!("$L{n}:\n  add.u32 %r{}, %r0, {n};\n", n % 50))
            .collect();
        let end: String = (0..loops)
            .rev()
            .map(|n| {
                format!(
                    "  setp.lt.u32 %p, %r{}, %r{};\n  @%p bra $L{n};\n",
                    n % 50,
                    (n + 7) % 50
                )
            })
            .collect();
        format!(
            ".version 7.5\n.target sm_80\n.address_size 64\n.visible .func f(.param .b32 a0)\n{{\n  .reg .b32 %r<50>;\n  \
             .reg .pred %p;\n  ld.param.b32 %r0, [a0];\n{begin}{end}  ret;\n}}\n"
        )
    }

    #[test]
    fn a_hostile_function_ends_at_a_limit_by_name() {
        let Some(ptxas) = ptxas() else { return };
        let text = hostile(20_000);
        let of = |limits| {
            let assembler = Assembler::new(ptxas.clone()).limits(limits);
            let made = assembler.assemble(&[part("hostile.wasm", &text)], &TARGET);
            made.expect_err("it has a limit")
        };
        let time = of(Limits {
            time: Duration::from_secs(1),
            ..Limits::default()
        });
        assert!(matches!(time.cause, Cause::Time { .. }), "{time}");
        assert!(
            time.to_string()
                .starts_with("hostile.wasm: ptxas needs more than ")
        );
        let memory = of(Limits {
            memory: 300 << 20,
            ..Limits::default()
        });
        assert!(matches!(memory.cause, Cause::Memory { .. }), "{memory}");
    }

    #[test]
    #[cfg(unix)]
    fn work_that_is_not_wanted_any_more_ends_and_is_not_taken_for_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let unwanted = Arc::new(AtomicBool::new(false));
        // The second child tells that it runs, and goes on for ever.
        let script = "n=$(ls $D | wc -l); : > $D/$n.$$; printf made > \"$out\"; [ $n -ge 1 ] && exec sleep 1000; exit 0";
        let tool = fake_ptxas(folder.path(), script);
        let assembler = Assembler::new(tool).jobs(NonZero::<usize>::MIN);
        let text = module(200, 80);
        let made = std::thread::scope(|scope| {
            let made = scope.spawn(|| {
                let assembler = assembler.until(Arc::clone(&unwanted));
                assembler.assemble(&[part("m", &text)], &TARGET)
            });
            let marks = folder.path().join("own");
            while std::fs::read_dir(&marks).map_or(0, Iterator::count) < 2 && !made.is_finished() {
                std::thread::yield_now();
            }
            unwanted.store(true, Ordering::Relaxed);
            made.join().expect("it does not panic")
        });
        let error = made.expect_err("it is not whole");
        assert!(matches!(error.cause, Cause::Stopped { .. }), "{error}");
        // What comes afterwards does not begin.
        let again = Assembler::new(Tool {
            path: "/nowhere".into(),
            version: "13.0".into(),
        });
        let made = again.until(unwanted).assemble(&[part("m", &text)], &TARGET);
        assert!(matches!(
            made.expect_err("it is not wanted").cause,
            Cause::Stopped { .. }
        ));
    }

    #[test]
    #[cfg(unix)]
    fn a_child_that_is_killed_now_and_then_costs_a_retry() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Every third start kills itself; no start follows such a one directly with another of the same piece.
        let script = "n=$(ls $D | wc -l); : > $D/$n.$$; [ $((n % 3)) -eq 1 ] && kill -9 $$; printf made > \"$out\"";
        let tool = fake_ptxas(folder.path(), script);
        let one = NonZero::<usize>::MIN;
        let text = module(200, 80);
        let made = Assembler::new(tool)
            .jobs(one)
            .assemble(&[part("m", &text)], &TARGET);
        let objects = made.expect("each piece is started twice at most").remove(0);
        assert!(objects.len() > 3 && objects.iter().all(|o| o == b"made"));
    }

    #[test]
    #[cfg(unix)]
    fn one_failure_ends_the_others_at_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // The first piece is refused; all others would never end.
        let script =
            "case \"$in\" in */0.ptx) sleep 0.2; echo no >&2; exit 9;; esac; exec sleep 1000";
        let tool = fake_ptxas(folder.path(), script);
        let jobs = NonZero::new(4).expect("it is not zero");
        let text = module(60, 80);
        let made = Assembler::new(tool)
            .jobs(jobs)
            .assemble(&[part("m", &text)], &TARGET);
        let error = made.expect_err("one fails").to_string();
        assert!(error.contains("exit code 9): no"), "{error}");
    }

    #[test]
    #[cfg(unix)]
    fn progress_reaches_the_end() {
        static MOST: AtomicUsize = AtomicUsize::new(0);
        crate::progress::listen(|progress| {
            assert!(progress.done <= progress.of);
            MOST.fetch_max(progress.done, Ordering::Relaxed);
        });
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tool = fake_ptxas(folder.path(), "printf made > \"$out\"");
        let text = module(60, 80);
        let made = Assembler::new(tool).assemble(&[part("m", &text)], &TARGET);
        let pieces = made.expect("it assembles")[0].len();
        assert!(MOST.load(Ordering::Relaxed) >= pieces);
    }
}
