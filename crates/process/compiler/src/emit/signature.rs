//! The head of a PTX function, and what every call passes in front of a function's own parameters.

use crate::facts::types::{Convention, FunctionType, parts};
use crate::text::line;

impl FunctionType {
    /// The head of a PTX function of this type.
    pub(crate) fn signature(&self, name: &str, convention: Convention) -> String {
        use core::fmt::Write;
        let mut out = format!(
            "(.param .align 8 .b8 ret[{}]) {name} (.param .b64 inst, .param .b64 fuel, .param .b32 depth",
            self.return_bytes(convention)
        );
        if convention.global.is_some() {
            out.push_str(", .param .b32 carry");
        }
        if convention.memory {
            out.push_str(", .param .b64 mem");
        }
        for (i, param) in parts(&self.params).iter().enumerate() {
            let _ = write!(out, ", .param .{} a{i}", param.ptx());
        }
        out.push(')');
        out
    }
}

/// Within a call: what every function gets in front of its own parameters. Gives the names of these arguments.
pub(crate) fn write_head_arguments(
    out: &mut String,
    instance: &str,
    convention: Convention,
) -> &'static str {
    line!(out, "  .param .b64 ci;");
    line!(out, "  .param .b64 cf;");
    line!(out, "  .param .b32 cd;");
    line!(out, "  st.param.b64 [ci], {instance};");
    line!(out, "  st.param.b64 [cf], %fuel;");
    line!(out, "  st.param.b32 [cd], %depth;");
    if convention.global.is_some() {
        line!(out, "  .param .b32 cg;");
        line!(out, "  st.param.b32 [cg], %carry;");
    }
    if convention.memory {
        line!(out, "  .param .b64 cm;");
        line!(out, "  st.param.b64 [cm], %mem;");
    }
    match (convention.global.is_some(), convention.memory) {
        (false, false) => "ci, cf, cd",
        (true, false) => "ci, cf, cd, cg",
        (false, true) => "ci, cf, cd, cm",
        (true, true) => "ci, cf, cd, cg, cm",
    }
}
