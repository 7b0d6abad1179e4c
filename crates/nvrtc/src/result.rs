//! The middle floor: codes become errors and keep their number, handles free themselves.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;

use crate::raw::{Handle, Raw};

/// NVRTC's error code (`nvrtcResult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The number in `nvrtc.h`.
    pub number: i32,
    /// The name that this NVRTC gives it.
    pub name: &'static str,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, code {}", self.name, self.number)
    }
}

/// One of NVRTC's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the function of its name")]
#[non_exhaustive]
pub enum Call {
    Version,
    GetNumSupportedArchs,
    GetSupportedArchs,
    CreateProgram,
    CompileProgram,
    GetProgramLogSize,
    GetProgramLog,
    GetCUBINSize,
    GetCUBIN,
}

/// A call to NVRTC that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nvrtc{call:?} failed: {code}")]
pub struct CallError {
    /// The function.
    pub call: Call,
    /// What it returned.
    pub code: Code,
}

/// NVRTC has a name for each code.
fn check(raw: &Raw, call: Call, number: c_int) -> Result<(), CallError> {
    if number == 0 {
        return Ok(());
    }
    // SAFETY: any number is allowed; the answer is a terminated string of the library, which stays loaded.
    let name = unsafe { CStr::from_ptr((raw.error_string)(number)) };
    Err(CallError {
        call,
        code: Code {
            number,
            name: name.to_str().unwrap_or("unnamed"),
        },
    })
}

/// Major, minor.
pub(crate) fn version(raw: &Raw) -> Result<(u32, u32), CallError> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both are writable.
    check(raw, Call::Version, unsafe {
        (raw.version)(&raw mut major, &raw mut minor)
    })?;
    Ok((major.unsigned_abs(), minor.unsigned_abs()))
}

/// The architectures, 90 for `sm_90`.
pub(crate) fn supported_archs(raw: &Raw) -> Result<Vec<u32>, CallError> {
    let mut count = 0;
    // SAFETY: `count` is writable.
    check(raw, Call::GetNumSupportedArchs, unsafe {
        (raw.num_archs)(&raw mut count)
    })?;
    let mut archs: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: NVRTC writes as many as it has just said.
    check(raw, Call::GetSupportedArchs, unsafe {
        (raw.archs)(archs.as_mut_ptr())
    })?;
    Ok(archs.into_iter().map(c_int::unsigned_abs).collect())
}

/// A program, destroyed when dropped.
pub(crate) struct Program<'a> {
    raw: &'a Raw,
    handle: Handle,
}

impl<'a> Program<'a> {
    /// `headers` are (include name, text); there are at most `c_int::MAX`.
    pub(crate) fn create(
        raw: &'a Raw,
        name: &CStr,
        source: &CStr,
        headers: &[(CString, CString)],
    ) -> Result<Self, CallError> {
        let names: Vec<_> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
        let texts: Vec<_> = headers.iter().map(|(_, text)| text.as_ptr()).collect();
        let count = c_int::try_from(headers.len()).unwrap_or(c_int::MAX);
        let mut handle = std::ptr::null_mut();
        // SAFETY: both arrays have at least `count` terminated strings that outlive the call, which copies them.
        let number = unsafe {
            (raw.create)(
                &raw mut handle,
                source.as_ptr(),
                name.as_ptr(),
                count,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        check(raw, Call::CreateProgram, number)?;
        Ok(Self { raw, handle })
    }

    /// There are at most `c_int::MAX` options. The log exists whether or not this succeeds.
    pub(crate) fn compile(&self, options: &[CString]) -> Result<(), CallError> {
        let options: Vec<_> = options.iter().map(|o| o.as_ptr()).collect();
        let count = c_int::try_from(options.len()).unwrap_or(c_int::MAX);
        // SAFETY: the handle is live; `options` has at least `count` terminated strings that outlive the call.
        check(self.raw, Call::CompileProgram, unsafe {
            (self.raw.compile)(self.handle, count, options.as_ptr())
        })
    }

    /// What compiler and assembler said.
    pub(crate) fn log(&self) -> Result<String, CallError> {
        let (size, fill) = (self.raw.log_size, self.raw.log);
        let bytes = self.sized(Call::GetProgramLogSize, size, Call::GetProgramLog, fill)?;
        Ok(String::from_utf8_lossy(&bytes)
            .trim_end_matches('\0')
            .trim_end()
            .to_owned())
    }

    /// The machine code; only after a successful [`Self::compile`].
    pub(crate) fn cubin(&self) -> Result<Vec<u8>, CallError> {
        self.sized(
            Call::GetCUBINSize,
            self.raw.cubin_size,
            Call::GetCUBIN,
            self.raw.cubin,
        )
    }

    /// A result that is fetched in two steps: its size, then its bytes. `size` and `fill` are such a pair.
    fn sized(
        &self,
        size_call: Call,
        size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
        fill_call: Call,
        fill: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, CallError> {
        let mut count = 0;
        // SAFETY: the handle is live and `count` writable.
        check(self.raw, size_call, unsafe {
            size(self.handle, &raw mut count)
        })?;
        let mut bytes = vec![0u8; count];
        // SAFETY: the handle is live, and `fill` writes as many bytes as its partner has just said.
        check(self.raw, fill_call, unsafe {
            fill(self.handle, bytes.as_mut_ptr().cast())
        })?;
        Ok(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from `create` and is destroyed here only. A failure could only leak it.
        unsafe { (self.raw.destroy)(&raw mut self.handle) };
    }
}
