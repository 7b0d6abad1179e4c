//! The versions of CUDA that the driver and NVRTC are made for. A driver does not load the code of a later one.

use cudarc::driver::sys;
use everwarp_engine::EngineError;

use crate::driver::call;
use crate::nvrtc::Nvrtc;

/// A version of CUDA, major and minor.
type Version = (u32, u32);

/// The version of CUDA that the driver is made for, major and minor: it loads machine code of compilers with this major version
/// or an earlier one. None without a driver.
pub fn driver_version() -> Option<Version> {
    // SAFETY: only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        return None;
    }
    let mut version = 0;
    // SAFETY: the library is there; a valid out-pointer.
    unsafe { call!(cuDriverGetVersion(&raw mut version)) }.ok()?;
    let version = u32::try_from(version).ok()?;
    Some((version / 1000, version % 1000 / 10))
}

/// Whether a driver loads what a compiler of this version makes: one of the same major version or a later one does.
pub fn driver_loads(driver: Version, compiler: Version) -> bool {
    driver.0 >= compiler.0
}

/// Why the driver does not load an image.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum NotLoaded {
    #[error(
        "the driver is made for CUDA {}.{} and does not load the code of NVRTC {}.{}: update the driver, or set EVERWARP_NVRTC to a \
         libnvrtc of CUDA {} or earlier and run `everwarp cache --clear`",
        driver.0, driver.1, nvrtc.0, nvrtc.1, driver.0
    )]
    TooNew { driver: Version, nvrtc: Version },
    #[error(
        "the driver does not load it ({name}): if the driver or NVRTC was changed, run `everwarp cache --clear`, so that it is \
         compiled again"
    )]
    Refused { name: String },
}

/// The error for an image that the driver did not load, with what to do if its versions do not fit.
pub(crate) fn not_loaded(error: EngineError) -> EngineError {
    let nvrtc = Nvrtc::open().ok().and_then(|nvrtc| nvrtc.version().ok());
    explained(error, driver_version(), nvrtc)
}

fn explained(error: EngineError, driver: Option<Version>, nvrtc: Option<Version>) -> EngineError {
    use sys::CUresult as R;
    const OF_THE_IMAGE: [R; 4] = [
        R::CUDA_ERROR_INVALID_IMAGE,
        R::CUDA_ERROR_NO_BINARY_FOR_GPU,
        R::CUDA_ERROR_INVALID_PTX,
        R::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
    ];
    let EngineError::Driver { code, name, .. } = &error else {
        return error;
    };
    if !OF_THE_IMAGE.iter().any(|known| *known as i32 == *code) {
        return error;
    }
    EngineError::Compile(Box::new(match (driver, nvrtc) {
        (Some(driver), Some(nvrtc)) if !driver_loads(driver, nvrtc) => {
            NotLoaded::TooNew { driver, nvrtc }
        }
        _ => NotLoaded::Refused { name: name.clone() },
    }))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn failed(code: sys::CUresult) -> EngineError {
        EngineError::Driver {
            call: "cuModuleLoadData",
            code: code as i32,
            name: format!("{code:?}"),
        }
    }

    #[test]
    fn older_driver_than_nvrtc_is_named_with_both_versions() {
        let error = failed(sys::CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
        let text = explained(error, Some((12, 4)), Some((13, 0))).to_string();
        for part in [
            "CUDA 12.4",
            "NVRTC 13.0",
            "update the driver",
            "EVERWARP_NVRTC",
            "CUDA 12 or earlier",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn refused_image_of_a_fitting_version_may_be_an_old_one_in_the_cache() {
        let versions = [
            (Some((13, 0)), Some((13, 2))),
            (Some((13, 0)), Some((12, 9))),
            (None, Some((13, 0))),
            (Some((13, 0)), None),
        ];
        for (driver, nvrtc) in versions {
            let error = failed(sys::CUresult::CUDA_ERROR_INVALID_IMAGE);
            let text = explained(error, driver, nvrtc).to_string();
            assert!(
                text.contains("CUDA_ERROR_INVALID_IMAGE")
                    && text.contains("everwarp cache --clear"),
                "{text}"
            );
        }
    }

    #[test]
    fn other_failures_stay_as_they_are() {
        let error = failed(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let before = error.to_string();
        let after = explained(error, Some((12, 4)), Some((13, 0)));
        assert_eq!(after.to_string(), before);
    }
}
