//! Counts lines, words and bytes of files and of all files beneath directories.
//!
//! `words [PATH...]`; without a path, standard input. A word is a run of bytes that are not ASCII white space.

#![no_std]
#![no_main]

extern crate alloc;

mod count;

use alloc::format;
use alloc::string::String;

use count::Counts;
use everwarp_guest_wasi::{
    Errno, File, Input, Kind, args, eprintln, exit, open, println, read_dir, start,
};

start!(main);

struct Run {
    input: Input,
    total: Counts,
    files: u64,
    failed: bool,
}

impl Run {
    fn count(&mut self, file: &File, name: &str) -> Result<(), Errno> {
        let mut counts = Counts::default();
        self.input.each(file, |piece| counts.take(piece))?;
        println!("{counts} {name}");
        self.total.add(&counts);
        self.files += 1;
        Ok(())
    }

    fn say(&mut self, path: &str, error: Errno) {
        eprintln!("words: {path}: {error}");
        self.failed = true;
    }

    fn file(&mut self, path: &str) {
        let counted = open(path).and_then(|file| self.count(&file, path));
        if let Err(e) = counted {
            self.say(path, e);
        }
    }

    fn directory(&mut self, path: &str) -> Result<(), Errno> {
        for entry in read_dir(path)? {
            let inner: String = format!("{}/{}", path.trim_end_matches('/'), entry.name);
            match entry.kind {
                Kind::Directory => {
                    if let Err(e) = self.directory(&inner) {
                        self.say(&inner, e);
                    }
                }
                Kind::File => self.file(&inner),
                // A link may lead to a directory above, and round in circles.
                Kind::Other => {}
            }
        }
        Ok(())
    }
}

fn main() {
    let mut run = Run {
        input: Input::new(4096),
        total: Counts::default(),
        files: 0,
        failed: false,
    };
    let args = args();
    let paths = args.get(1..).unwrap_or_default();
    if paths.is_empty()
        && let Err(e) = run.count(&File::STDIN, "-")
    {
        run.say("-", e);
    }
    for path in paths {
        match run.directory(path) {
            Ok(()) => {}
            Err(Errno::NOTDIR) => run.file(path),
            Err(e) => run.say(path, e),
        }
    }
    if run.files != 1 {
        println!("{} total", run.total);
    }
    if run.failed {
        exit(1);
    }
}
