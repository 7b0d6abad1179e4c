//! Functions that an image may lack: files with some of them are written when they are needed.
//!
//! A file is linked into an image, or it is linked with bridges ([`Library::bridges`]) and loaded next to an image that has the table
//! of addresses ([`Library::table`]). Either way its own text is the same, and so is its machine code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;

pub use crate::bridge::Bridges;
use crate::bridge::{gives, pass_on, reach, takes_registers};
use crate::split::{Linkage, names, parse};

/// How many functions one function reaches: the assembler takes time with the square of a function's length.
const REACHED_TOGETHER: usize = 64;

/// Functions that are not in a file and call those of the file.
#[derive(Debug)]
pub struct Library {
    directives: String,
    /// The functions' text.
    text: String,
    /// For each function its name, signature and body, as ranges of the text.
    functions: Vec<[Range<usize>; 3]>,
    /// For each function of the library and of the file, and each that the file declares, its signature.
    signatures: BTreeMap<String, String>,
    /// The number of each of them, in the order of their names: the element of the table that has its address.
    numbers: BTreeMap<String, usize>,
    /// The bytes of the shortest of their names.
    shortest: usize,
    /// The name of the table.
    table: String,
}

impl Library {
    /// The library of the functions in `text`, which has nothing else, and which call functions of `file` besides each other. The
    /// image's variable with the addresses of all these functions has the name `table`. `None` if one of the two is not text that
    /// can be divided.
    pub fn new(file: &str, text: String, table: String) -> Option<Self> {
        let (file, own) = (parse(file)?, parse(&text)?);
        if !own.directives.is_empty() || !own.others.is_empty() {
            return None;
        }
        let within = |part: &str| {
            let begin = part.as_ptr().addr() - text.as_ptr().addr();
            begin..begin + part.len()
        };
        let functions = own.functions.iter();
        let functions = functions.map(|f| [f.name, f.signature, f.body].map(within));
        let functions = functions.collect();
        let all = file.functions.iter().chain(&own.functions);
        let signatures = all.map(|f| (f.name, f.signature));
        let signatures = signatures.chain(file.others.iter().map(|(name, text)| (*name, *text)));
        let signatures: BTreeMap<_, _> = signatures
            .filter(|(_, signature)| signature.starts_with(".func"))
            .map(|(name, signature)| (name.to_owned(), signature.to_owned()))
            .collect();
        let directives = file.directives.join("\n");
        Some(Self {
            directives,
            functions,
            numbers: signatures.keys().cloned().zip(0..).collect(),
            shortest: signatures.keys().map(String::len).min().unwrap_or(0),
            signatures,
            text,
            table,
        })
    }

    /// The name and the bytes of each function.
    pub fn functions(&self) -> impl Iterator<Item = (&str, usize)> {
        let functions = self.functions.iter();
        functions
            .map(|[name, signature, body]| (&self.text[name.clone()], signature.len() + body.len()))
    }

    /// The name, signature and body of the functions with these numbers, in this order.
    fn parts(&self, numbers: &[usize]) -> Vec<[&str; 3]> {
        let functions = numbers.iter().map(|&number| self.functions[number].clone());
        functions
            .map(|ranges| ranges.map(|range| &self.text[range]))
            .collect()
    }

    /// The functions of the library and the file that these call, with their signatures.
    fn called(&self, functions: &[[&str; 3]]) -> BTreeMap<&str, &str> {
        let mut called = BTreeMap::new();
        for [_, _, body] in functions {
            let known = |name| self.signatures.get_key_value(name);
            // Instructions have shorter names than functions, so that most words are not looked up.
            let long = names(body).filter(|name| name.len() >= self.shortest);
            let known = long.filter_map(known);
            called.extend(known.map(|(name, signature)| (name.as_str(), signature.as_str())));
        }
        called
    }

    /// A file with the functions of these numbers, in this order. All other files may call them; the text depends on nothing else. A
    /// file without functions is empty.
    pub fn file(&self, numbers: &[usize]) -> String {
        let own = self.parts(numbers);
        if own.is_empty() {
            return String::new();
        }
        let own_names: BTreeSet<_> = own.iter().map(|[name, ..]| *name).collect();
        let mut out = self.directives.clone();
        let mut write = |parts: &[&str]| parts.iter().for_each(|part| out.push_str(part));
        for (name, signature) in self.called(&own) {
            let linkage = match own_names.contains(name) {
                true => Linkage::Visible.directive(),
                false => ".extern ",
            };
            write(&["\n", linkage, signature, ";"]);
        }
        for [_, signature, body] in own {
            let linkage = Linkage::Visible.directive();
            write(&["\n", linkage, signature, "\n", body.trim_end()]);
        }
        out.push('\n');
        out
    }

    /// What a [`file`](Self::file) with the functions of these numbers is linked with that is loaded next to an image: functions that
    /// stand for all others that it calls, and two kernels. `None` if a signature is not ours, or there are no functions.
    pub fn bridges(&self, numbers: &[usize]) -> Option<Bridges> {
        let own = self.parts(numbers);
        let [first, ..] = *own.first()?;
        let own_names: BTreeSet<_> = own.iter().map(|[name, ..]| *name).collect();
        let mut others = self.called(&own);
        others.retain(|name, _| !own_names.contains(name));
        let count = self.numbers.len();
        let given = own_names.iter().map(|name| {
            let number = self.numbers[*name];
            (*name, vec![number, count + number])
        });
        let own: Vec<_> = own
            .iter()
            .map(|[name, signature, _]| (*name, *signature))
            .collect();
        let others = others.into_iter();
        let others = others.map(|(name, signature)| (signature, self.numbers[name]));
        Bridges::of(
            &self.directives,
            first,
            &own,
            given,
            &others.collect::<Vec<_>>(),
        )
    }

    /// The table's text, and the kernel that writes the addresses of all functions into its first half, as they are in the image. The
    /// second half has those of functions that came later. By way of [`roots`](Self::roots) the image's own kernel reaches all these
    /// functions, and one that needs as many `registers` as functions may need that come later. `None` if a signature is not ours.
    pub fn table(&self, registers: usize) -> Option<(String, String)> {
        let (table, kernel) = (&self.table, format!("{}_gives", self.table));
        let mut ptx = format!(
            "{}\n.visible .global .align 8 .b64 {table}[{}];\n",
            self.directives,
            2 * self.numbers.len()
        );
        for signature in self.signatures.values() {
            let _ = writeln!(ptx, ".extern {signature};");
        }
        let all = self.numbers.iter();
        let all = all.map(|(name, number)| (name.as_str(), vec![*number]));
        ptx.push_str(&gives(&kernel, all, ""));
        let mut functions = self.signatures.iter();
        let name = format!("{}_registers", self.roots());
        ptx.push_str(&takes_registers(&name, table, registers));
        let mut groups = vec![(name, ".func f()")];
        loop {
            let group: Vec<_> = functions.by_ref().take(REACHED_TOGETHER).collect();
            if group.is_empty() {
                break;
            }
            let group = group.into_iter().map(|(n, s)| (n.as_str(), s.as_str()));
            let name = format!("{}_{}", self.roots(), groups.len());
            let _ = write!(ptx, ".func {name}()\n{{\n{}  ret;\n}}\n", reach(group)?);
            groups.push((name, ".func f()"));
        }
        let groups = groups
            .iter()
            .map(|(name, signature)| (name.as_str(), *signature));
        let _ = write!(
            ptx,
            ".visible .func {}()\n{{\n{}  ret;\n}}\n",
            self.roots(),
            reach(groups)?
        );
        Some((ptx, kernel))
    }

    /// The name of a function of the [`table`](Self::table)'s text that calls all functions. The image has to have a call of it that is
    /// never made.
    pub fn roots(&self) -> String {
        format!("{}_roots", self.table)
    }

    /// A file of functions that stand for those of the library, changed so that they pass calls on to functions that have come: those
    /// that the second half of the table has. `None` if the file cannot be divided, or has other functions.
    pub fn passing_on(&self, stand_ins: &str) -> Option<String> {
        let file = parse(stand_ins)?;
        let mut out = file.directives.join("\n");
        let _ = writeln!(out, "\n.extern .global .align 8 .b64 {}[];", self.table);
        for signature in file.others.values() {
            let _ = writeln!(out, ".extern {signature};");
        }
        for function in &file.functions {
            let signature = function.signature;
            let element = self.numbers.len() + *self.numbers.get(function.name)?;
            let passed = pass_on(signature, &self.table, element)?;
            let rest = function.body.strip_prefix("{\n")?;
            let weak = Linkage::Weak.directive();
            let _ = write!(out, "{weak}{signature}\n{{\n{passed}{rest}");
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::tests::{HEAD, chain};
    use crate::split::{Place, divide_by, split};

    /// A chain of functions, the file without three of them and with what stands for those, and the library that has the three.
    fn library() -> (String, String, Library) {
        let text = chain(6, 3);
        let begin = text.find(".func (.param .b32 ret) f2(.param .b32 a0)\n{");
        let begin = begin.expect("f2 is there");
        let end = text.find(".func (.param .b32 ret) f5(.param .b32 a0)\n{");
        let end = end.expect("f5 is there");
        let stand_ins: String = (2..5)
            .map(|n| format!(".func (.param .b32 ret) f{n}(.param .b32 a0)\n{{\n  ret;\n}}\n"))
            .collect();
        let file = [&text[..begin], &stand_ins, &text[end..]].concat();
        let library = Library::new(&file, text[begin..end].to_owned(), "table".to_owned());
        let library = library.expect("it is our text");
        (text, file, library)
    }

    /// The names that a file of the library has, and its text.
    #[test]
    fn a_library_writes_files_that_other_files_can_call() {
        let (text, file, library) = library();
        let functions: Vec<_> = library.functions().map(|(name, _)| name).collect();
        assert_eq!(functions, ["f2", "f3", "f4"]);
        assert!(library.functions().all(|(_, bytes)| bytes > 100));
        let both = library.file(&[1, 2]);
        let expected = format!(
            "{HEAD}.visible .func (.param .b32 ret) f4(.param .b32 a0);\n.extern .func (.param .b32 ret) f5(.param .b32 a0);\n\
             .visible .func (.param .b32 ret) f3(.param .b32 a0)\n{{\n"
        );
        assert!(both.starts_with(&expected), "{both}");
        assert!(both.ends_with("f5, (c0);\n  }\n  ret;\n}\n"), "{both}");
        // It is text of ours, and what divides a whole file writes the same.
        let place = |name: &str| match name {
            "f3" | "f4" => Place::File(1),
            _ => Place::File(0),
        };
        let divided = divide_by(&text, 2, place).expect("it is our text");
        assert_eq!(both, divided[1]);
        assert_eq!(library.file(&[]), "");
        // Functions of files that the file only declares.
        let last = text.rfind(".visible .entry").expect("it has a kernel");
        let last = text[last..].replace(".visible .entry run", ".func g");
        let last = Library::new(&file, last, String::new());
        let last = last.expect("it is our text").file(&[0]);
        assert!(
            last.contains("\n.extern .func (.param .b32 ret) f0("),
            "{last}"
        );
        assert!(Library::new(&file, HEAD.to_owned(), String::new()).is_none());
        assert!(Library::new("nonsense", String::new(), String::new()).is_none());
    }

    #[test]
    fn a_file_of_its_own_has_bridges_to_all_that_it_calls() {
        let (_, _, library) = library();
        let bridges = library.bridges(&[1, 2]).expect("the signatures are ours");
        let Bridges { ptx, gives, takes } = &bridges;
        assert_eq!((&**gives, &**takes), ("f3_gives", "f3_takes"));
        // `f4` calls `f5`; the elements of a table are f0 to f5, and then `other`.
        for line in [
            ".global .align 8 .b64 f3_callees[1];\n",
            ".extern .func (.param .b32 ret) f3(.param .b32 a0);\n",
            ".weak .func (.param .b32 ret) f5(.param .b32 a0)\n{\n",
            "  ld.global.b64 %xa, [f3_callees+0];\n",
            ".visible .entry f3_gives(.param .b64 table)\n{\n",
            "  @%p bra $Go;\n  {\n  .param .b32 x0;\n  st.param.b32 [x0+0], 0;\n  .param .b32 xr;\n  call (xr), f3, (x0);\n",
            "  mov.b64 %a, f4;\n  st.global.b64 [%t+32], %a;\n  st.global.b64 [%t+88], %a;\n",
            "  ld.global.b64 %a, [%t+40];\n  st.global.b64 [f3_callees+0], %a;\n",
        ] {
            assert!(ptx.contains(line), "{line}: {ptx}");
        }
        assert!(!ptx.contains("f2") && !ptx.contains("f5;"));
        assert!(library.bridges(&[]).is_none());
        // Variables are not divided among pieces.
        assert_eq!(split(ptx).texts, [ptx.as_str()]);
    }

    #[test]
    fn the_table_has_all_functions_and_what_stands_for_one_looks_there() {
        let (_, file, library) = library();
        let (ptx, kernel) = library.table(40).expect("the signatures are ours");
        assert_eq!(kernel, "table_gives");
        assert!(ptx.contains("  ld.volatile.global.b32 %v23, [%a+92];\n"));
        assert!(ptx.contains(".func table_roots_1()\n{\n  {\n  .param .b32 x0;\n  st.param.b32 [x0+0], 0;\n  .param .b32 xr;\n  call (xr), f0, (x0);\n"));
        assert!(
            ptx.contains(
                ".visible .func table_roots()\n{\n  {\n  call table_roots_registers, ();\n"
            )
        );
        assert_eq!(library.roots(), "table_roots");
        assert!(ptx.contains("\n.visible .global .align 8 .b64 table[14];\n"));
        assert!(ptx.contains("  mov.b64 %a, other;\n  st.global.b64 [%t+48], %a;\n"));
        assert!(!ptx.contains("run"), "a kernel cannot be called");
        let place = |name: &str| match name {
            "f2" | "f3" | "f4" => Place::StandIn(1),
            _ => Place::File(0),
        };
        let texts = divide_by(&file, 2, place).expect("it is our text");
        let passing = library.passing_on(&texts[1]).expect("they are ours");
        assert!(passing.contains("\n.extern .global .align 8 .b64 table[];\n"));
        assert!(passing.contains("  ld.global.b64 %xa, [table+72];\n"));
        // Its pieces know the table.
        let large =
            passing.clone() + &passing[passing.find(".weak").expect("there is one")..].repeat(200);
        let pieces = split(&large).texts;
        assert!(pieces.len() > 1);
        assert!(
            pieces
                .iter()
                .all(|piece| piece.contains(".extern .global .align 8 .b64 table[];"))
        );
        assert!(
            library.passing_on(&texts[0]).is_none(),
            "a kernel stands for nothing"
        );
    }
}
