//! A bar on a terminal while the assembler works.

use std::sync::{Mutex, PoisonError};

use everwarp::cuda::assembler::progress::{Progress, listen};
use indicatif::{ProgressBar, ProgressStyle};

static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Shows how far the assembler is, from now on. In a pipe nothing is shown.
pub(crate) fn show() {
    listen(|Progress { done, of }| {
        let mut bar = BAR.lock().unwrap_or_else(PoisonError::into_inner);
        if done < of {
            let bar = bar.get_or_insert_with(|| new(of));
            bar.set_position(done as u64);
        } else if let Some(bar) = bar.take() {
            bar.finish_and_clear();
        }
    });
}

fn new(pieces: usize) -> ProgressBar {
    let style = "{msg} {bar:40} {pos}/{len} {elapsed}";
    let style = ProgressStyle::with_template(style).expect("a valid template");
    ProgressBar::new(pieces as u64)
        .with_style(style)
        .with_message("assembling")
}
