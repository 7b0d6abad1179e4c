//! JSON documents for processes, one line for each: about 2,100 bytes that differ in length, structure and words.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Words of 2 to 9 letters.
fn words() -> Vec<String> {
    // A linear congruential generator modulo 2^64 with Knuth's factor; its high bits are good enough here.
    let mut state = 7_u64;
    let mut below = |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % bound
    };
    let mut word = || -> String {
        let letters = 2 + below(8);
        (0..letters)
            .map(|_| char::from(b'a' + below(26) as u8))
            .collect()
    };
    (0..500).map(|_| word()).collect()
}

/// Appends document number `i` and a line feed.
fn document(words: &[String], i: usize, to: &mut String) {
    let word = |n: usize| &words[n % words.len()];
    let written = (|| {
        write!(to, r#"{{"id": {i}, "items": ["#)?;
        for k in 0..18 + i % 9 {
            let comma = if k == 0 { "" } else { ", " };
            let (name, price) = (word(i * 7 + k * 13), (i * k * 31 % 10_007) as f64 / 16.0);
            write!(
                to,
                r#"{comma}{{"name": "{name}", "price": {price:.4}, "tags": ["#
            )?;
            for j in 0..k % 5 {
                let comma = if j == 0 { "" } else { ", " };
                write!(to, r#"{comma}"{}""#, word(i + k * j))?;
            }
            write!(
                to,
                r#"], "ok": {}, "none": null}}"#,
                (i + k).is_multiple_of(3)
            )?;
        }
        writeln!(to, r#"], "note": "{}"}}"#, word(i).repeat(i % 5))
    })();
    written.expect("writing to a string cannot fail");
}

/// Writes `count` documents to a file.
pub(super) fn write(path: &Path, count: u32) -> std::io::Result<()> {
    let words = words();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut line = String::new();
    for i in 0..count as usize {
        line.clear();
        document(&words, i, &mut line);
        file.write_all(line.as_bytes())?;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_document_of_about_2100_bytes() {
        let words = words();
        let mut text = String::new();
        (0..1000).for_each(|i| document(&words, i, &mut text));
        assert_eq!(text.lines().count(), 1000);
        for line in text.lines() {
            serde_json::from_str::<serde::de::IgnoredAny>(line).expect("it is JSON");
        }
        let each = text.len() / 1000;
        assert!((1_900..2_300).contains(&each), "{each} bytes each");
    }
}
