//! Arguments and environment as device code reads them.

use crate::SpawnError;
use crate::config::Strings;

/// Adds what follows to the bytes: four words (how many arguments, their bytes, how many variables, their bytes),
/// then the strings, each with a zero behind it.
pub(crate) fn encode(strings: &Strings, bytes: &mut Vec<u8>) -> Result<(), SpawnError> {
    let begin = bytes.len();
    bytes.extend_from_slice(&[0; 16]);
    let text = bytes.len();
    for arg in &strings.args {
        add(&[arg], bytes)?;
    }
    let variables = bytes.len();
    for (name, value) in &strings.env {
        add(&[name, "=", value], bytes)?;
    }
    let end = bytes.len();
    if end - text >= 1 << 31 {
        let bytes = end - text;
        return Err(SpawnError::TooLong { bytes });
    }
    let (args, env) = (strings.args.len(), strings.env.len());
    let head = [args, variables - text, env, end - variables];
    for (at, number) in (begin..).step_by(4).zip(head) {
        bytes[at..at + 4].copy_from_slice(&(number as u32).to_le_bytes());
    }
    Ok(())
}

/// Adds a string of these parts.
fn add(parts: &[&str], bytes: &mut Vec<u8>) -> Result<(), SpawnError> {
    for part in parts {
        if part.contains('\0') {
            let what = parts.concat();
            return Err(SpawnError::ZeroByte { what });
        }
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes.push(0);
    Ok(())
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
        let mut bytes = Vec::new();
        encode(&strings, &mut bytes).expect("there are no zeros");
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
        let error = encode(&strings, &mut Vec::new()).expect_err("a C string ends there");
        assert!(error.to_string().contains("not\\0fine"), "{error}");
    }
}
