//! Divides a file of PTX into files that are assembled on their own and linked afterwards.
//!
//! A piece holds the functions that it was given and declares those of other pieces that it calls. A function that only its
//! own piece calls stays local to it, so that ptxas knows its registers at the call. For Lua's 855 functions the code of 772
//! has the length that it has in one file, and all code together is 0.2 % longer (`bench/results` has the measurement).
//!
//! The text comes from our own compiler: it begins with directives, and then has functions and declarations of functions,
//! each of whose lines begins in the first column where it begins or ends one. Other text is not divided.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};

use crate::cost::{Estimate, of_function};

/// The bytes of PTX that a piece should have: about a tenth of a second of work, five times what a process costs.
const PIECE_BYTES: usize = 64 << 10;
/// The most pieces of one file.
const PIECES_MOST: usize = 256;

/// Who may call a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linkage {
    /// Functions of the same file.
    Local,
    /// Functions of all files.
    Visible,
    /// Functions of all files, unless another file has a visible function of the same name: then they call that one.
    Weak,
}

impl Linkage {
    /// What comes before the signature.
    pub(crate) const fn directive(self) -> &'static str {
        match self {
            Self::Local => "",
            Self::Visible => ".visible ",
            Self::Weak => ".weak ",
        }
    }
}

/// A function or kernel with its body.
#[derive(Debug)]
pub(crate) struct Function<'t> {
    pub(crate) name: &'t str,
    /// `.func …` or `.entry …`, without what comes before and without the body.
    pub(crate) signature: &'t str,
    linkage: Linkage,
    /// From the line after the signature.
    pub(crate) body: &'t str,
}

impl Function<'_> {
    fn bytes(&self) -> usize {
        self.signature.len() + self.body.len()
    }
}

/// A file, taken apart.
#[derive(Debug, Default)]
pub(crate) struct File<'t> {
    /// What every file with some of its functions begins with: directives, and variables of other files.
    pub(crate) directives: Vec<&'t str>,
    pub(crate) functions: Vec<Function<'t>>,
    /// Declared functions of other files, by their names.
    pub(crate) others: BTreeMap<&'t str, &'t str>,
}

/// The name in a signature: `.func (.param .b32 ret) NAME(…)`.
fn name(signature: &str) -> Option<&str> {
    let rest = signature
        .strip_prefix(".func")
        .or_else(|| signature.strip_prefix(".entry"))?;
    let mut rest = rest.trim_start();
    if let Some(result) = rest.strip_prefix('(') {
        rest = result.split_once(')')?.1.trim_start();
    }
    let end = rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

fn is_of_name(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_byte_of_name)
}

const fn is_byte_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%')
}

/// The names in a text, which include those of functions that it calls.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    // Megabytes of text are searched while a process waits, so the bytes are not decoded.
    let words = text.as_bytes().split(|byte| !is_byte_of_name(*byte));
    words
        .filter(|word| matches!(word, [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..]))
        .filter_map(|word| str::from_utf8(word).ok())
}

pub(crate) fn parse(text: &str) -> Option<File<'_>> {
    let mut file = File::default();
    let mut at = 0;
    while let Some(line) = text[at..].lines().next() {
        let next = (at + line.len() + 1).min(text.len());
        let (begin, end) = (line.trim_end(), next);
        at = end;
        if begin.is_empty() || begin.starts_with("//") {
            continue;
        }
        let directive = [".version", ".target", ".address_size", ".extern .global"];
        if directive.iter().any(|d| begin.starts_with(d)) {
            file.directives.push(begin);
            continue;
        }
        let external = begin.starts_with(".extern ");
        let (linkage, signature) = match begin.split_once(' ') {
            Some((".visible", signature)) => (Linkage::Visible, signature),
            Some((".weak", signature)) => (Linkage::Weak, signature),
            Some((".extern", signature)) => (Linkage::Local, signature),
            _ => (Linkage::Local, begin),
        };
        let name = name(signature)?;
        if let Some(declared) = signature.strip_suffix(';') {
            // A function that the file has is declared where it is needed.
            if external {
                file.others.insert(name, declared);
            }
            continue;
        }
        if external || signature.contains('}') {
            return None;
        }
        let close = text[end..].find("\n}\n").map(|c| end + c + "\n}\n".len());
        at = close.or_else(|| text.ends_with("\n}").then_some(text.len()))?;
        let (signature, body) = match signature.strip_suffix('{') {
            Some(signature) => (signature.trim_end(), &text[next - 2..at]),
            None => (signature, &text[end..at]),
        };
        if !body.starts_with('{') {
            return None;
        }
        file.functions.push(Function {
            name,
            signature,
            linkage,
            body,
        });
    }
    Some(file)
}

/// The pieces of a file, those first that take longest, and how long they take.
#[derive(Debug)]
pub struct Pieces {
    /// The text of each.
    pub texts: Vec<String>,
    /// How long they take.
    pub estimate: Estimate,
    pub(crate) seconds: Vec<f64>,
}

/// Divides a file into pieces of about `PIECE_BYTES`. A piece is much longer than the others only if one of its functions
/// is. The pieces are the same for the same text. Text that has no functions, or something else besides, is one piece.
pub fn split(text: &str) -> Pieces {
    let file = parse(text).filter(|file| !file.functions.is_empty());
    let Some(file) = file else {
        let seconds = vec![of_function(text.len())];
        return Pieces {
            texts: vec![text.to_owned()],
            estimate: Estimate::of(seconds.iter().copied()),
            seconds,
        };
    };
    // The nearest number, so that a file that is a little longer than a piece stays whole.
    let count = (text.len() + PIECE_BYTES / 2) / PIECE_BYTES;
    let count = count.clamp(1, PIECES_MOST);
    let (piece_of, costs) = spread(&file.functions, count);
    let texts = write(&file, &piece_of, costs.len());
    let mut pieces: Vec<_> = costs.into_iter().zip(texts).collect();
    pieces.retain(|(_, text)| !text.is_empty());
    pieces.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let (seconds, texts): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
    Pieces {
        texts,
        estimate: Estimate::of(seconds.iter().copied()),
        seconds,
    }
}

/// The file that a function goes to, when a file is divided by [`divide_by`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file with this number.
    File(usize),
    /// The file with this number, where it stands for a function that the image may not have: it gives way to a function of
    /// the same name in another file.
    StandIn(usize),
}

/// Divides a file into `count` files, as `place` says for each function by its name. Functions of all files may call each other;
/// so the text of a file does not depend on what the other files have. A file without functions is empty.
///
/// `None` for text that cannot be divided.
pub fn divide_by(text: &str, count: usize, place: impl Fn(&str) -> Place) -> Option<Vec<String>> {
    let mut file = parse(text).filter(|file| !file.functions.is_empty())?;
    let mut piece_of = Vec::with_capacity(file.functions.len());
    for function in &mut file.functions {
        let (piece, linkage) = match place(function.name) {
            Place::File(piece) => (piece, Linkage::Visible),
            Place::StandIn(piece) => (piece, Linkage::Weak),
        };
        function.linkage = linkage;
        piece_of.push(piece);
    }
    Some(write(&file, &piece_of, count))
}

/// For each function the number of its piece, and for each piece its cost. The largest function goes first, to the piece
/// with the least to do.
fn spread(functions: &[Function<'_>], count: usize) -> (Vec<usize>, Vec<f64>) {
    let mut order: Vec<_> = (0..functions.len()).collect();
    order.sort_by_key(|&f| Reverse(functions[f].bytes()));
    let mut piece_of = vec![0; functions.len()];
    let mut costs = vec![0.0; count];
    // Nanoseconds, because numbers with fractions have no order.
    let mut least: BinaryHeap<_> = (0..count).map(|piece| Reverse((0_u64, piece))).collect();
    for function in order {
        let Reverse((cost, piece)) = least.pop().expect("there is a piece");
        let more = of_function(functions[function].bytes());
        costs[piece] += more;
        piece_of[function] = piece;
        least.push(Reverse((cost + (more * 1e9) as u64 + 1, piece)));
    }
    (piece_of, costs)
}

/// Writes the pieces. A piece without functions is empty.
fn write(file: &File<'_>, piece_of: &[usize], count: usize) -> Vec<String> {
    let functions = &file.functions;
    let number: HashMap<_, _> = functions.iter().map(|f| f.name).zip(0..).collect();
    // A text has millions of words, so each is looked up once.
    let known: HashSet<&str> = number.keys().chain(file.others.keys()).copied().collect();
    // Instructions have shorter names than functions, so that most words are not looked up at all.
    let shortest = known.iter().map(|name| name.len()).min().unwrap_or(0);
    let is_known = |name: &&str| name.len() >= shortest && known.contains(name);
    let calls: Vec<BTreeSet<&str>> = functions
        .iter()
        .map(|f| names(f.body).filter(is_known).collect())
        .collect();
    // A function that is called from another piece must be found by the linker.
    let mut shared = vec![false; functions.len()];
    for (caller, names) in calls.iter().enumerate() {
        for callee in names.iter().filter_map(|name| number.get(name)) {
            shared[*callee] |= piece_of[*callee] != piece_of[caller];
        }
    }
    let mut members = vec![Vec::new(); count];
    for (function, &piece) in piece_of.iter().enumerate() {
        members[piece].push(function);
    }
    let write_piece = |own: &Vec<usize>| {
        let mut out = String::new();
        if own.is_empty() {
            return out;
        }
        let mut line = |parts: &[&str]| {
            for part in parts {
                out.push_str(part);
            }
            out.push('\n');
        };
        for directive in &file.directives {
            line(&[directive]);
        }
        let visibility = |function: usize| match functions[function].linkage {
            Linkage::Local if shared[function] => Linkage::Visible.directive(),
            linkage => linkage.directive(),
        };
        let own_set: BTreeSet<_> = own.iter().copied().collect();
        let called: BTreeSet<_> = own.iter().flat_map(|&f| &calls[f]).collect();
        for callee in called {
            match number.get(callee) {
                Some(f) if own_set.contains(f) => {
                    line(&[visibility(*f), functions[*f].signature, ";"]);
                }
                Some(f) => line(&[".extern ", functions[*f].signature, ";"]),
                None => line(&[".extern ", file.others[callee], ";"]),
            }
        }
        for &function in own {
            let Function {
                signature, body, ..
            } = functions[function];
            line(&[visibility(function), signature]);
            line(&[body.trim_end()]);
        }
        out
    };
    members.iter().map(write_piece).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const HEAD: &str = ".version 7.5\n.target sm_80\n.address_size 64\n";

    /// A file in which function `n` calls the next, and the last one a function of another file.
    pub(crate) fn chain(count: usize, filler: usize) -> String {
        let mut text = format!("{HEAD}.extern .func other(.param .b32 a0);\n");
        for n in 0..count {
            text += &format!(".func (.param .b32 ret) f{n}(.param .b32 a0);\n");
        }
        for n in 0..count {
            let callee = match n + 1 < count {
                true => format!("call (r), f{}, (c0);", n + 1),
                false => "call other, (c0);".to_owned(),
            };
            let body = "  add.u32 %r0, %r0, 1;\n".repeat(filler);
            text += &format!(
                ".func (.param .b32 ret) f{n}(.param .b32 a0)\n{{\n{body}  {{\n  {callee}\n  }}\n  ret;\n}}\n"
            );
        }
        text + ".visible .entry run(.param .u64 p)\n{\n  call (r), f0, (c0);\n  ret;\n}\n"
    }

    #[test]
    fn each_function_is_in_one_piece_and_its_callees_are_declared() {
        let text = chain(40, 400);
        let pieces = split(&text).texts;
        assert!(pieces.len() > 4, "{} pieces", pieces.len());
        let defined =
            |piece: &str, name: &str| piece.contains(&format!(" {name}(.param .b32 a0)\n{{"));
        for n in 0..40 {
            let own: Vec<_> = pieces
                .iter()
                .filter(|piece| defined(piece, &format!("f{n}")))
                .collect();
            assert_eq!(own.len(), 1, "f{n}");
            let callee = match n {
                39 => "other".to_owned(),
                _ => format!("f{}", n + 1),
            };
            let declared = own[0].lines().find(|line| {
                line.ends_with(';')
                    && line.contains(&format!(" {callee}("))
                    && line.contains(".func")
            });
            let external = declared.expect("it is declared").starts_with(".extern ");
            assert_eq!(external, n == 39 || !defined(own[0], &callee), "f{n}");
        }
        let kernels = pieces
            .iter()
            .filter(|p| p.contains("\n.visible .entry run("));
        assert_eq!(kernels.count(), 1);
        assert!(pieces.iter().all(|piece| piece.starts_with(HEAD)));
        assert_eq!(
            split(&text).texts,
            pieces,
            "the same text has the same pieces"
        );
    }

    #[test]
    fn a_function_that_only_its_piece_calls_stays_local() {
        let small = split(&chain(3, 1)).texts;
        assert_eq!(small.len(), 1);
        assert!(!small[0].contains(".visible .func"), "{}", small[0]);
        assert!(small[0].contains("\n.func (.param .b32 ret) f2("));
        let large = split(&chain(3, 10_000)).texts;
        assert!(
            large
                .iter()
                .any(|p| p.contains(".visible .func (.param .b32 ret) f1("))
        );
    }

    #[test]
    fn the_longest_piece_comes_first_and_the_rest_is_even() {
        let mut text = chain(200, 100);
        text += &format!(
            ".func big()\n{{\n{}}}\n",
            "  add.u32 %r0, %r0, 1;\n".repeat(20_000)
        );
        let Pieces { texts, seconds, .. } = split(&text);
        assert!(texts[0].contains(".func big()"));
        assert!(seconds.is_sorted_by(|a, b| a >= b), "{seconds:?}");
        let (most, least) = (seconds[1], *seconds.last().expect("there are some"));
        assert!(most < 1.3 * least, "{seconds:?}");
    }

    #[test]
    fn other_text_stays_whole() {
        for text in [
            "",
            HEAD,
            &format!("{HEAD}.global .b32 word;\n{}", chain(2, 9_000)),
            &format!("{HEAD}.func f() {{ ret; }}\n{}", chain(2, 9_000)),
            &format!("{HEAD}.func f()\n{{\n  ret;\n"),
        ] {
            assert_eq!(split(text).texts, [text]);
        }
    }

    #[test]
    fn a_file_does_not_depend_on_what_the_others_have() {
        let text = chain(6, 3);
        let divided = |standing_in: &[&str]| {
            let place = |name: &str| match name {
                _ if standing_in.contains(&name) => Place::StandIn(1),
                "f4" | "f5" => Place::File(2),
                _ => Place::File(0),
            };
            divide_by(&text, 3, place).expect("it is our text")
        };
        let first = divided(&["f2", "f3"]);
        assert!(first[0].contains("\n.visible .func (.param .b32 ret) f0("));
        assert!(first[0].contains("\n.extern .func (.param .b32 ret) f2("));
        assert!(first[1].contains("\n.weak .func (.param .b32 ret) f2(.param .b32 a0)\n{"));
        assert!(!first[2].contains("f3") && first[2].contains(".extern .func other("));
        let second = divided(&[]);
        assert_eq!(first[2], second[2]);
        assert_eq!(second[1], "");
        // Its pieces keep what they are for the linker.
        let pieces = split(&first[1]).texts;
        assert!(pieces.iter().all(|piece| piece.contains(".weak .func")));
        assert_eq!(divide_by("no text of ours", 3, |_| Place::File(0)), None);
    }

    #[test]
    fn a_brace_may_follow_the_signature() {
        let text = format!("{HEAD}.visible .func f() {{\n  ret;\n}}\n.func g()\n{{\n  ret;\n}}\n");
        let expected =
            format!("{HEAD}.visible .func f()\n{{\n  ret;\n}}\n.func g()\n{{\n  ret;\n}}\n");
        assert_eq!(split(&text).texts, [expected]);
    }
}
