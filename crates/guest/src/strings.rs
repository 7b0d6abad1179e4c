//! Arguments and environment as device code reads them.

use crate::SpawnError;
use crate::config::Strings;

/// Four words (how many arguments, their bytes, how many variables, their bytes), then the strings, each with
/// a zero behind it.
pub(crate) fn encode(strings: &Strings) -> Result<Vec<u8>, SpawnError> {
    let variables = strings
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let lists = [strings.args.clone(), variables.collect()];
    let mut head = Vec::new();
    let mut text = Vec::new();
    for list in &lists {
        let begin = text.len();
        for string in list {
            if string.contains('\0') {
                let what = string.clone();
                return Err(SpawnError::ZeroByte { what });
            }
            text.extend_from_slice(string.as_bytes());
            text.push(0);
        }
        for number in [list.len(), text.len() - begin] {
            head.extend_from_slice(&(number as u32).to_le_bytes());
        }
    }
    if text.len() >= 1 << 31 {
        let bytes = text.len();
        return Err(SpawnError::TooLong { bytes });
    }
    head.append(&mut text);
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_bytes_come_first() {
        let strings = Strings {
            args: vec!["a".into(), "".into()],
            env: vec![("K".into(), "v w".into())],
        };
        let bytes = encode(&strings).expect("there are no zeros");
        let words: Vec<_> = bytes[..16].chunks(4).map(|w| w[0]).collect();
        assert_eq!(words, [2, 3, 1, 6]);
        assert_eq!(&bytes[16..], b"a\0\0K=v w\0");
    }

    #[test]
    fn a_zero_byte_is_named() {
        let args = vec!["fine".into(), "not\0fine".into()];
        let strings = Strings {
            args,
            ..Strings::default()
        };
        let error = encode(&strings).expect_err("a C string ends there");
        assert!(error.to_string().contains("not\\0fine"), "{error}");
    }
}
