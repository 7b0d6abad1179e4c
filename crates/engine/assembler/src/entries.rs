//! Modules that are loaded next to an image: how the image enters them, and how they call its functions.
//!
//! The image has a table. Its first elements have the addresses of the entries of modules that have come, by their numbers; the others
//! those of the functions of the image that modules may call. A module that comes is linked with bridges to these functions.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::bridge::{Bridges, call_at, gives, reach, takes_registers};
use crate::split::parse;

/// The table of an image, and the functions that modules may call.
#[derive(Clone, Debug)]
pub struct Entries {
    /// The lines that begin a file.
    head: String,
    /// The name of the table.
    table: String,
    /// How many modules there may be.
    modules: usize,
    /// The functions that modules may call, with their signatures: the order of their names is that of their elements.
    called: BTreeMap<String, String>,
    /// The parameters of each module's entry, the number of the module not among them.
    parameters: String,
}

impl Entries {
    /// The table `table` of an image with up to this many modules. `head` are the lines that begin a file, `called` the names and
    /// signatures of the functions that modules may call, and `parameters` those of a module's entry: `.param .b64 a0, …`.
    pub fn new(
        head: &str,
        table: &str,
        modules: usize,
        called: BTreeMap<String, String>,
        parameters: &str,
    ) -> Self {
        Self {
            head: head.to_owned(),
            table: table.to_owned(),
            modules,
            called,
            parameters: parameters.to_owned(),
        }
    }

    /// The function that enters a module that has come. Its first parameter is the module's number, the others are those of the entry. It
    /// does nothing if there is no such module.
    pub fn enter(&self) -> String {
        format!("{}_enter", self.table)
    }

    /// The signature of [`enter`](Self::enter).
    pub fn enter_signature(&self) -> String {
        let parameters = &self.parameters;
        format!(".func {}(.param .b32 module, {parameters})", self.enter())
    }

    /// A function without parameters. The image has to have a call of it, which is never made: by way of it the engine's kernel reaches
    /// all that modules may call, and has all registers that they may need.
    pub fn roots(&self) -> String {
        format!("{}_roots", self.table)
    }

    /// The kernel that writes the addresses of the image's functions into the table.
    pub fn gives(&self) -> String {
        format!("{}_gives", self.table)
    }

    /// The text of the table and of these functions. `None` if a signature is not ours.
    pub fn text(&self, registers: usize) -> Option<String> {
        let Self { table, modules, .. } = self;
        let mut ptx = self.head.clone();
        let elements = modules + self.called.len();
        let _ = writeln!(ptx, ".visible .global .align 8 .b64 {table}[{elements}];");
        for signature in self.called.values() {
            let _ = writeln!(ptx, ".extern {signature};");
        }
        let elements = self.called.keys().map(String::as_str).zip(*modules..);
        let elements = elements.map(|(name, element)| (name, vec![element]));
        ptx.push_str(&gives(&self.gives(), elements, ""));
        let all = format!("{}_registers", self.roots());
        ptx.push_str(&takes_registers(&all, table, registers));
        let called = self.called.iter().map(|(n, s)| (n.as_str(), s.as_str()));
        let roots = called.chain([(all.as_str(), ".func f()")]);
        let _ = write!(
            ptx,
            ".visible .func {}()\n{{\n{}  ret;\n}}\n",
            self.roots(),
            reach(roots)?
        );
        let entry = format!(".func entry({})", self.parameters);
        let _ = write!(
            ptx,
            ".visible {}\n{{\n  .reg .b64 %xa, %xt;\n  .reg .b32 %xm;\n  .reg .pred %xp;\n  ld.param.b32 %xm, [module];\n  \
             setp.ge.u32 %xp, %xm, {modules};\n  @%xp bra $Xn;\n  mov.b64 %xt, {table};\n  mad.wide.u32 %xt, %xm, 8, %xt;\n  \
             ld.global.b64 %xa, [%xt];\n  setp.eq.s64 %xp, %xa, 0;\n  @%xp bra $Xn;\n{}$Xn:\n  ret;\n}}\n",
            self.enter_signature(),
            call_at(&entry)?
        );
        Some(ptx)
    }

    /// What the files of a module are linked with that is loaded next to the image: bridges to the functions of the image that the
    /// files declare, a kernel that enters the module's entry `entry` into the table as the one with this number, and one that takes
    /// the addresses of the functions. `roots` is a function of the files that reaches what the entry does not. `None` if a file is
    /// not ours, or calls what the image does not have.
    pub fn bridges(
        &self,
        files: &[&str],
        entry: &str,
        number: usize,
        roots: Option<&str>,
    ) -> Option<Bridges> {
        let parsed: Vec<_> = files
            .iter()
            .map(|file| parse(file))
            .collect::<Option<_>>()?;
        let own = parsed.iter().flat_map(|file| &file.functions);
        let own: BTreeMap<_, _> = own.map(|f| (f.name, f.signature)).collect();
        let declared = parsed.iter().flat_map(|file| &file.others);
        let mut called = BTreeMap::new();
        for (name, signature) in declared {
            if !own.contains_key(name) {
                // What the image declares and what the module declares is the same function.
                let at = self.called.keys().position(|known| known == name)?;
                called.insert(*name, (*signature, self.modules + at));
            }
        }
        let roots = roots.map(|roots| (roots, format!(".func {roots}()")));
        let mut reached = vec![(entry, *own.get(entry)?)];
        reached.extend(roots.iter().map(|(name, signature)| (*name, &**signature)));
        let given = std::iter::once((entry, vec![number]));
        let called: Vec<_> = called.into_values().collect();
        Bridges::of(&self.head, entry, &reached, given, &called)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: &str =
        ".func (.param .align 8 .b8 ret[16]) write (.param .b64 inst, .param .b32 a0)";
    const READ: &str = ".func (.param .align 8 .b8 ret[16]) read (.param .b64 inst)";

    fn entries() -> Entries {
        let called = [("write", WRITE), ("read", READ)];
        let called = called.map(|(name, signature)| (name.to_owned(), signature.to_owned()));
        let parameters = ".param .b64 a0, .param .b32 a1";
        Entries::new(".version 7.5\n", "table", 5, called.into(), parameters)
    }

    #[test]
    fn an_image_enters_modules_by_way_of_its_table() {
        let text = entries().text(40).expect("the signatures are ours");
        for line in [
            // Five modules, `read` and `write`.
            ".visible .global .align 8 .b64 table[7];\n",
            "  mov.b64 %a, read;\n  st.global.b64 [%t+40], %a;\n",
            "  mov.b64 %a, write;\n  st.global.b64 [%t+48], %a;\n",
            ".visible .func table_enter(.param .b32 module, .param .b64 a0, .param .b32 a1)\n{\n",
            "  setp.ge.u32 %xp, %xm, 5;\n  @%xp bra $Xn;\n",
            "  call %xa, (x0, x1), $Xp;\n",
            ".visible .func table_roots()\n{\n",
            "  call (xr), read, (x0);\n",
            "  call table_roots_registers, ();\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn a_module_has_bridges_to_what_it_declares_and_does_not_have() {
        let first = format!(
            ".version 7.5\n.extern {WRITE};\n.extern .func m_f1();\n.visible .func m_enter(.param .b64 a0, .param .b32 a1)\n{{\n  ret;\n}}\n"
        );
        let second = ".version 7.5\n.visible .func m_f1()\n{\n  ret;\n}\n";
        let bridges = |files: &[&str], roots| entries().bridges(files, "m_enter", 3, roots);
        let Bridges { ptx, gives, takes } =
            bridges(&[&first, second], Some("m_roots")).expect("it is ours");
        assert_eq!((&*gives, &*takes), ("m_enter_gives", "m_enter_takes"));
        for line in [
            ".global .align 8 .b64 m_enter_callees[1];\n",
            &format!(".weak {WRITE}\n{{\n"),
            "  mov.b64 %a, m_enter;\n  st.global.b64 [%t+24], %a;\n",
            "  call m_roots, ();\n",
            "  ld.global.b64 %a, [%t+48];\n  st.global.b64 [m_enter_callees+0], %a;\n",
        ] {
            assert!(ptx.contains(line), "{line}: {ptx}");
        }
        assert!(!ptx.contains("m_f1") && !ptx.contains("read"));
        // A function that nothing has, no entry, and text that is not ours.
        assert!(bridges(&[&first], None).is_none());
        assert!(bridges(&[second], None).is_none());
        assert!(bridges(&[&first, "nonsense"], None).is_none());
    }
}
