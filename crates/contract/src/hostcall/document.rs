//! The table of host calls as CUDA C++ and as a reference for readers.

use core::fmt::{self, Write};

use super::declare::{Answer, CallDescription, Payload, Waits};
use super::table::CALLS;

/// Writes the structs with which device code names a call's arguments.
///
/// Each is initialized by the names of its fields: `hostcall::FdTell{.fd = fd}`.
pub fn write_calls(out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "namespace hostcall {{")?;
    CALLS.iter().try_for_each(|call| write_struct(out, call))?;
    writeln!(out, "}}")
}

fn write_struct(out: &mut dyn Write, call: &CallDescription) -> fmt::Result {
    for line in call.about {
        writeln!(out, "//{line}")?;
    }
    writeln!(out, "struct {} {{", call.variant)?;
    writeln!(out, "  static constexpr u32 NUMBER = {};", call.number)?;
    for argument in call.arguments {
        writeln!(out, "  {} {};", argument.device_type, argument.name)?;
    }
    write!(
        out,
        "  __device__ __forceinline__ void words([[maybe_unused]] u64 (&words)[6]) const {{"
    )?;
    for (at, argument) in call.arguments.iter().enumerate() {
        // `this` keeps a field apart from the parameter, whatever the field is called.
        write!(out, " words[{at}] = (u64)this->{};", argument.name)?;
    }
    writeln!(out, " }}\n}};")
}

/// Writes the reference of host calls as Markdown.
pub fn write_reference(out: &mut dyn Write) -> fmt::Result {
    out.write_str(INTRODUCTION)?;
    writeln!(
        out,
        "| call | number | arguments | payload | values | reply | waits |\n|---|---|---|---|---|---|---|"
    )?;
    for call in CALLS {
        write!(out, "| [`{}`](#", call.name)?;
        for letter in call.name.chars() {
            out.write_char(letter.to_ascii_lowercase())?;
        }
        write!(out, ") | {} | ", call.number)?;
        for (at, argument) in call.arguments.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(out, "{comma}`{}: {}`", argument.name, argument.type_name)?;
        }
        write!(out, " | {} | ", payload(call.payload))?;
        let [values, reply] = answer(call.answer);
        writeln!(out, "{values} | {reply} | {} |", waits(call.waits))?;
    }
    for call in CALLS {
        writeln!(out, "\n### {}\n", call.name)?;
        for line in call.about {
            writeln!(out, "{}", line.trim_start())?;
        }
    }
    Ok(())
}

const INTRODUCTION: &str = "\
# Host calls

<!-- Generated from crates/contract/src/hostcall/table.rs; do not edit. To write it anew:
     EVERWARP_WRITE=1 cargo test -p everwarp-contract --test reference -->

A process on a GPU asks the CPU for files, streams and waiting through a ring in host memory. Each request is one of the
calls below. `crates/contract/src/hostcall/mod.rs` has the ring's layout and rules.

Arguments travel as words of 64 bits: an `fd` and a `u32` are zero-extended, and a value that does not fit its type gets
`ERRNO_INVAL`. Values and reply mean something only if the call succeeds. A request for more bytes than its slot or area
holds gets as many as fit, which is a short read or write.

An address is 24 bytes, or three words: the family (4 or 6) and the port with 16 bits each, 16 bytes of address (an IPv4
address has the first four), and the number of an IPv6 zone with 32 bits. All numbers are little-endian.

";

const fn payload(payload: Payload) -> &'static str {
    match payload {
        Payload::Nothing => "",
        Payload::Bytes => "bytes",
        Payload::Path => "a path",
        Payload::TwoPaths => "two paths",
        Payload::Subscriptions => "`subscription`s, 48 bytes each",
    }
}

/// What the values and the reply are.
const fn answer(answer: Answer) -> [&'static str; 2] {
    match answer {
        Answer::Nothing => ["", ""],
        Answer::Values(what) => [what, ""],
        Answer::Bytes(what) => ["number of bytes", what],
        Answer::Record(what) => ["", what],
        Answer::Events => ["number of events", "`event`s, 32 bytes each"],
        Answer::Datagram => ["the sender's address", "the bytes received"],
        Answer::Addresses => ["number of addresses", "addresses, 24 bytes each"],
        Answer::Echo => ["the arguments", "the payload"],
    }
}

const fn waits(waits: Waits) -> &'static str {
    match waits {
        Waits::Never => "",
        Waits::ForInput => "for standard input or a peer",
        Waits::ForPeer => "for a peer",
        Waits::ForEvents => "for time, standard input or a socket",
        Waits::ForRoom => "for other processes to close files",
        Waits::ForName => "for a server of names",
        Waits::ForFunction => "for the compiler",
    }
}
