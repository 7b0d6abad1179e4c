//! Publishers: small kernels of linked code that write addresses, which only the code itself knows, where other code finds them.

use std::ffi::{CString, c_void};

use cudarc::driver::sys;
use everwarp_engine::{EngineError, Publisher};

use crate::driver::{Stream, call};

/// A publisher, and the table's address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    kernel: sys::CUfunction,
    table: sys::CUdeviceptr,
}

impl Ready {
    fn of(
        publisher: &Publisher,
        module: sys::CUmodule,
        tables: &[sys::CUmodule],
    ) -> Result<Self, EngineError> {
        let name = |name: &str| CString::new(name).expect("names in PTX hold no NUL");
        let mut kernel = std::ptr::null_mut();
        let (kernel_name, table_name) = (name(&publisher.kernel), name(&publisher.table));
        // SAFETY: the module is loaded; the name ends with NUL and the out-pointer is valid.
        unsafe {
            call!(cuModuleGetFunction(
                &raw mut kernel,
                module,
                kernel_name.as_ptr()
            ))?;
        }
        let table = |module: &sys::CUmodule| {
            let (mut table, mut bytes) = (0, 0);
            // SAFETY: as above.
            let found = unsafe {
                call!(cuModuleGetGlobal_v2(
                    &raw mut table,
                    &raw mut bytes,
                    *module,
                    table_name.as_ptr()
                ))
            };
            found.map(|()| table)
        };
        let (image, others) = tables.split_last().expect("there is an image");
        let found = others.iter().find_map(|module| table(module).ok());
        let table = found.map_or_else(|| table(image), Ok)?;
        Ok(Self { kernel, table })
    }

    /// Those of a module. The table of each is in the first of these modules that has it; the last one is the image.
    pub(crate) fn all(
        publishers: &[Publisher],
        module: sys::CUmodule,
        tables: &[sys::CUmodule],
    ) -> Result<Vec<Self>, EngineError> {
        let publishers = publishers.iter();
        publishers.map(|p| Self::of(p, module, tables)).collect()
    }

    /// Queues it. What is queued later sees what it has written.
    pub(crate) fn queue(mut self, stream: &Stream) -> Result<(), EngineError> {
        let mut params: [*mut c_void; 1] = [(&raw mut self.table).cast()];
        // SAFETY: a publisher has one parameter, an address, which the driver copies before it returns.
        unsafe {
            call!(cuLaunchKernel(
                self.kernel,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                stream.0,
                params.as_mut_ptr(),
                std::ptr::null_mut()
            ))
        }
    }
}

/// Lets an image's own publishers write, before anything else that is queued later runs.
pub(crate) fn publish(
    publishers: &[Publisher],
    image: sys::CUmodule,
    stream: &Stream,
) -> Result<(), EngineError> {
    let ready = Ready::all(publishers, image, &[image])?;
    ready.into_iter().try_for_each(|p| p.queue(stream))
}
