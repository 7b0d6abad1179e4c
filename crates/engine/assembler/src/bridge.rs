//! Calls between code that is linked apart: they go through a table of addresses.
//!
//! Code that a kernel was linked with knows the addresses of its own functions alone. Where it calls a function that is loaded later,
//! and where that function calls back, a *bridge* stands for the callee: it has the callee's name and signature, loads an address,
//! calls it with its own parameters, and returns its results. A function that is linked in makes a bridge of its name give way, so
//! code that is linked together calls without one.

use std::fmt::Write;

/// A parameter or result of a function, as its signature declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parameter<'t> {
    name: &'t str,
    kind: Kind<'t>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind<'t> {
    /// The type, without its dot.
    Scalar(&'t str),
    /// This many bytes, aligned to 8: a multiple of 4.
    Bytes(usize),
}

impl<'t> Parameter<'t> {
    /// Reads `.param .b32 a0`, or `.param .align 8 .b8 ret[16]`.
    fn read(text: &'t str) -> Option<Self> {
        let text = text.trim().strip_prefix(".param")?.trim_start();
        let (ty, name) = match text.strip_prefix(".align 8 ") {
            Some(rest) => rest.trim_start().split_once(' ')?,
            None => text.split_once(' ')?,
        };
        let (ty, name) = (ty.strip_prefix('.')?, name.trim());
        match name.strip_suffix(']') {
            Some(array) => {
                let (name, bytes) = array.split_once('[')?;
                let bytes = bytes.parse().ok()?;
                let whole = ty == "b8" && bytes % 4 == 0;
                whole.then_some(Self {
                    name,
                    kind: Kind::Bytes(bytes),
                })
            }
            None => Some(Self {
                name,
                kind: Kind::Scalar(ty),
            }),
        }
    }

    fn list(text: &'t str) -> Option<Vec<Self>> {
        match text.trim() {
            "" => Some(Vec::new()),
            text => text.split(',').map(Self::read).collect(),
        }
    }

    /// The same with another name.
    fn declared(&self, name: &str) -> String {
        match self.kind {
            Kind::Scalar(ty) => format!(".param .{ty} {name}"),
            Kind::Bytes(bytes) => format!(".param .align 8 .b8 {name}[{bytes}]"),
        }
    }

    /// The values that it consists of: the type and the offset of each.
    fn values(&self) -> Vec<(&'t str, usize)> {
        match self.kind {
            Kind::Scalar(ty) => vec![(ty, 0)],
            Kind::Bytes(bytes) => (0..bytes)
                .step_by(8)
                .map(|at| {
                    if at + 8 <= bytes {
                        ("b64", at)
                    } else {
                        ("b32", at)
                    }
                })
                .collect(),
        }
    }

    /// Text that copies it to another one, through registers whose names begin with this.
    fn copy(&self, out: &mut String, to: &str, register: &str) {
        for (n, (ty, at)) in self.values().into_iter().enumerate() {
            let from = self.name;
            let _ = write!(
                out,
                "  .reg .{ty} %{register}_{n};\n  ld.param.{ty} %{register}_{n}, [{from}+{at}];\n  \
                 st.param.{ty} [{to}+{at}], %{register}_{n};\n"
            );
        }
    }
}

/// What a function is given and returns.
#[derive(Debug, PartialEq, Eq)]
struct Signature<'t> {
    result: Option<Parameter<'t>>,
    parameters: Vec<Parameter<'t>>,
}

impl<'t> Signature<'t> {
    /// Reads `.func (RESULT) NAME(PARAMETERS)`.
    fn read(text: &'t str) -> Option<Self> {
        let rest = text.strip_prefix(".func")?.trim_start();
        let (result, rest) = match rest.strip_prefix('(') {
            Some(rest) => {
                let (result, rest) = rest.split_once(')')?;
                (Some(Parameter::read(result)?), rest)
            }
            None => (None, rest),
        };
        let parameters = match rest.split_once('(') {
            Some((_, list)) => Parameter::list(list.trim_end().strip_suffix(')')?)?,
            None => Vec::new(),
        };
        Some(Self { result, parameters })
    }

    fn prototype(&self) -> String {
        let result = self
            .result
            .map(|result| format!("({}) ", result.declared("_")));
        let parameters = self.parameters.iter().map(|p| p.declared("_"));
        let parameters: Vec<_> = parameters.collect();
        format!(
            ".callprototype {}_ ({})",
            result.unwrap_or_default(),
            parameters.join(", ")
        )
    }
}

/// Text of a function with this signature that calls the address in `%xa`, as the function was called, and returns.
pub(crate) fn call_at(signature: &str) -> Option<String> {
    let signature = Signature::read(signature)?;
    let mut out = String::from("  {\n");
    let mut list = Vec::new();
    for (n, parameter) in signature.parameters.iter().enumerate() {
        let name = format!("x{n}");
        let _ = writeln!(out, "  {};", parameter.declared(&name));
        parameter.copy(&mut out, &name, &name);
        list.push(name);
    }
    let result = signature.result;
    let to = match result {
        Some(result) => {
            let _ = writeln!(out, "  {};", result.declared("xr"));
            "(xr), "
        }
        None => "",
    };
    let _ = write!(
        out,
        "$Xp: {};\n  call {to}%xa, ({}), $Xp;\n",
        signature.prototype(),
        list.join(", ")
    );
    if let Some(result) = result {
        let returned = Parameter {
            name: "xr",
            ..result
        };
        returned.copy(&mut out, result.name, "xr");
    }
    out.push_str("  }\n  ret;\n");
    Some(out)
}

/// A bridge that calls the address in an element of this variable. `None` for a signature that is not ours.
pub(crate) fn bridge(signature: &str, variable: &str, element: usize) -> Option<String> {
    let call = call_at(signature)?;
    Some(format!(
        ".weak {signature}\n{{\n  .reg .b64 %xa;\n  ld.global.b64 %xa, [{variable}+{}];\n{call}}}\n",
        8 * element
    ))
}

/// What a file is linked with that is loaded next to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridges {
    /// The text.
    pub ptx: String,
    /// The kernel that writes the addresses of the file's functions into the image's table, whose address is its only parameter.
    pub gives: String,
    /// The kernel that takes the addresses of all functions which the file calls from there.
    pub takes: String,
}

impl Bridges {
    /// Those of a file with the functions `own`, names and signatures. The addresses of the `given` functions go to these elements of the
    /// table, and those of the `others`, whose signatures these are, come from there. `head` are the lines that begin a file, and `stem`
    /// is what the names of the variable and the kernels begin with. `None` if a signature is not ours.
    pub(crate) fn of<'n>(
        head: &str,
        stem: &str,
        own: &[(&str, &str)],
        given: impl Iterator<Item = (&'n str, Vec<usize>)>,
        others: &[(&str, usize)],
    ) -> Option<Self> {
        let name = |end: &str| format!("{stem}_{end}");
        let (variable, gives_name, takes_name) = (name("callees"), name("gives"), name("takes"));
        let mut ptx = format!(
            "{head}\n.global .align 8 .b64 {variable}[{}];\n",
            others.len().max(1)
        );
        for (_, signature) in own {
            let _ = writeln!(ptx, ".extern {signature};");
        }
        for (element, (signature, _)) in others.iter().enumerate() {
            ptx.push_str(&bridge(signature, &variable, element)?);
        }
        let reached = reach(own.iter().copied())?;
        ptx.push_str(&gives(&gives_name, given, &reached));
        let taken = others.iter().map(|(_, element)| *element).zip(0..);
        ptx.push_str(&takes(&takes_name, &variable, taken));
        Some(Self {
            ptx,
            gives: gives_name,
            takes: takes_name,
        })
    }
}

/// Text at the beginning of a function, which passes calls on to the address in an element of this variable, unless that is 0.
///
/// A comparison with the function's own address would make it one that any other such call might call, as far as the assembler
/// knows: it takes time with the square of their number.
pub(crate) fn pass_on(signature: &str, variable: &str, element: usize) -> Option<String> {
    let call = call_at(signature)?;
    Some(format!(
        "  .reg .b64 %xa;\n  .reg .pred %xp;\n  ld.global.b64 %xa, [{variable}+{}];\n  \
         setp.eq.s64 %xp, %xa, 0;\n  @%xp bra $Xk;\n{call}$Xk:\n",
        8 * element
    ))
}

/// Calls of functions with these names and signatures, with zeros: no path leads there. A linker drops what no kernel
/// reaches by calls, and gives a kernel the constants of those functions only that it reaches. That a function's address is taken is not
/// enough for what that function calls, nor for its constants.
pub(crate) fn reach<'n>(functions: impl Iterator<Item = (&'n str, &'n str)>) -> Option<String> {
    let call = |(name, signature): (&str, &str)| {
        let signature = Signature::read(signature)?;
        let mut out = String::from("  {\n");
        let parameters = (0..signature.parameters.len()).map(|n| format!("x{n}"));
        let parameters: Vec<_> = parameters.collect();
        for (parameter, name) in signature.parameters.iter().zip(&parameters) {
            let _ = writeln!(out, "  {};", parameter.declared(name));
            // ptxas 13.0 crashes where a parameter on the stack is not stored.
            for (ty, at) in parameter.values() {
                let bits = if ty.ends_with("64") { "b64" } else { "b32" };
                let _ = writeln!(out, "  st.param.{bits} [{name}+{at}], 0;");
            }
        }
        let to = match signature.result {
            Some(result) => {
                let _ = writeln!(out, "  {};", result.declared("xr"));
                "(xr), "
            }
            None => "",
        };
        let list = parameters.join(", ");
        let _ = write!(out, "  call {to}{name}, ({list});\n  }}\n");
        Some(out)
    };
    functions.map(call).collect()
}

/// The text of a function that needs as many registers as this, to read words of a variable and to write them back.
pub(crate) fn takes_registers(name: &str, variable: &str, registers: usize) -> String {
    // Some are never free.
    let values = registers.saturating_sub(16);
    let mut out = format!(
        ".func {name}()\n{{\n  .reg .b64 %a;\n  .reg .b32 %v<{values}>;\n  mov.b64 %a, {variable};\n"
    );
    for n in 0..values {
        let _ = writeln!(out, "  ld.volatile.global.b32 %v{n}, [%a+{}];", 4 * n);
    }
    for n in 0..values {
        let _ = writeln!(out, "  st.volatile.global.b32 [%a+{}], %v{n};", 4 * n);
    }
    out.push_str("  ret;\n}\n");
    out
}

/// A kernel whose only parameter is the address of a table: it writes the addresses of functions into these elements. It reaches
/// functions by the calls in `reached`, which it never makes.
pub(crate) fn gives<'n>(
    kernel: &str,
    functions: impl Iterator<Item = (&'n str, Vec<usize>)>,
    reached: &str,
) -> String {
    let stores = functions.map(|(name, elements)| {
        let mut text = format!("  mov.b64 %a, {name};\n");
        for element in elements {
            let _ = writeln!(text, "  st.global.b64 [%t+{}], %a;", 8 * element);
        }
        text
    });
    let stores: String = stores.collect();
    let unreached = match reached {
        "" => String::new(),
        calls => {
            format!("  .reg .pred %p;\n  setp.ne.s64 %p, %t, 0;\n  @%p bra $Go;\n{calls}$Go:\n")
        }
    };
    with_table(kernel, &(unreached + &stores))
}

/// A kernel whose only parameter is the address of a table, from which it copies elements to those of this variable.
pub(crate) fn takes(
    kernel: &str,
    variable: &str,
    elements: impl Iterator<Item = (usize, usize)>,
) -> String {
    let copies = elements.map(|(from, to)| {
        format!(
            "  ld.global.b64 %a, [%t+{}];\n  st.global.b64 [{variable}+{}], %a;\n",
            8 * from,
            8 * to
        )
    });
    with_table(kernel, &copies.collect::<String>())
}

fn with_table(kernel: &str, body: &str) -> String {
    format!(
        ".visible .entry {kernel}(.param .b64 table)\n{{\n  .reg .b64 %t, %a;\n  ld.param.b64 %t, [table];\n{body}  ret;\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNATURE: &str = ".func (.param .align 8 .b8 ret[20]) m_f7(.param .b64 inst, .param .b64 fuel, .param .f32 a0)";

    #[test]
    fn a_signature_is_read() {
        let signature = Signature::read(SIGNATURE).expect("it is ours");
        assert_eq!(signature.parameters.len(), 3);
        assert_eq!(
            signature.result.map(|result| result.values()),
            Some(vec![("b64", 0), ("b64", 8), ("b32", 16)])
        );
        assert_eq!(
            signature.prototype(),
            ".callprototype (.param .align 8 .b8 _[20]) _ (.param .b64 _, .param .b64 _, .param .f32 _)"
        );
        let none = Signature {
            result: None,
            parameters: Vec::new(),
        };
        for text in [".func f()", ".func f", ".func f( )"] {
            assert_eq!(Signature::read(text).as_ref(), Some(&none), "{text}");
        }
        for text in [
            ".entry f()",
            ".func (.reg .b32 r) f()",
            ".func f(.param .b32 a",
            ".func (.param .align 8 .b8 r[6]) f()",
        ] {
            assert_eq!(Signature::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_bridge_passes_everything_on() {
        let text = bridge(SIGNATURE, "slots", 3).expect("it is ours");
        for line in [
            &format!(".weak {SIGNATURE}\n{{\n"),
            "  ld.global.b64 %xa, [slots+24];\n",
            "  ld.param.f32 %x2_0, [a0+0];\n  st.param.f32 [x2+0], %x2_0;\n",
            "  call (xr), %xa, (x0, x1, x2), $Xp;\n",
            "  ld.param.b32 %xr_2, [xr+16];\n  st.param.b32 [ret+16], %xr_2;\n  }\n  ret;\n}\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
