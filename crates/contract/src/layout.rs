//! How a shared layout is declared: one macro invocation generates both sides.
//!
//! Why not bindgen or a shared C header? They make one side the source and the other side a copy that a
//! build step must refresh. Here both sides are built from the declaration itself.

use core::fmt;
use core::marker::PhantomData;

/// A plain value that host and device share: it has no padding, every bit pattern is a value, and it knows its
/// CUDA C++ spelling.
pub trait DevType: Copy {
    /// The value whose bytes are all zero.
    const ZERO: Self;
    /// Decodes a value from its bytes, as a device stores them.
    ///
    /// # Panics
    /// `bytes` is not exactly as long as the value.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Writes the declaration of one field called `name`, for example `u32 name[4]`.
    fn declare(out: &mut dyn fmt::Write, name: &str) -> fmt::Result;
}

macro_rules! primitive {
    ($($rust:ty => $c:literal, $zero:literal;)*) => {$(
        impl DevType for $rust {
            const ZERO: Self = $zero;
            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().expect(concat!("the bytes of one ", stringify!($rust))))
            }
            fn declare(out: &mut dyn fmt::Write, name: &str) -> fmt::Result {
                write!(out, concat!($c, " {}"), name)
            }
        }
    )*};
}
primitive! {
    u8 => "u8", 0;
    u16 => "u16", 0;
    u32 => "u32", 0;
    u64 => "u64", 0;
    i32 => "i32", 0;
    i64 => "i64", 0;
    f32 => "float", 0.0;
    f64 => "double", 0.0;
}

impl<T: DevType, const N: usize> DevType for [T; N] {
    const ZERO: Self = [T::ZERO; N];
    fn from_bytes(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), size_of::<Self>(), "the bytes of one array");
        core::array::from_fn(|i| T::from_bytes(&bytes[i * size_of::<T>()..][..size_of::<T>()]))
    }
    fn declare(out: &mut dyn fmt::Write, name: &str) -> fmt::Result {
        T::declare(out, name)?;
        write!(out, "[{N}]")
    }
}

/// An address in the engine's memory, with the type of the value at that address. On the CPU engine it is a
/// host address; on a GPU it means nothing to the host, so the host cannot dereference it.
#[repr(transparent)]
pub struct DevPtr<T>(pub u64, PhantomData<*const T>);

impl<T> DevPtr<T> {
    /// The null address.
    pub const NULL: Self = Self::new(0);
    /// Wraps a raw address.
    pub const fn new(address: u64) -> Self {
        Self(address, PhantomData)
    }
    /// The raw address.
    pub const fn address(self) -> u64 {
        self.0
    }
}
impl<T> Clone for DevPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for DevPtr<T> {}
impl<T> fmt::Debug for DevPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevPtr({:#x})", self.0)
    }
}
// SAFETY: a `DevPtr` is a number; it gives no access to the value at that address.
unsafe impl<T> Send for DevPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for DevPtr<T> {}

impl<T: DevType> DevType for DevPtr<T> {
    const ZERO: Self = Self::NULL;
    fn from_bytes(bytes: &[u8]) -> Self {
        Self::new(u64::from_bytes(bytes))
    }
    fn declare(out: &mut dyn fmt::Write, name: &str) -> fmt::Result {
        T::declare(out, "")?;
        write!(out, "* {name}")
    }
}

/// One field of a shared struct.
#[derive(Clone, Copy)]
pub struct Field {
    /// The field's name, the same in Rust and in CUDA C++.
    pub name: &'static str,
    /// Its offset in bytes, as Rust lays it out.
    pub offset: usize,
    /// Writes the CUDA C++ declaration.
    pub declare: fn(&mut dyn fmt::Write, &str) -> fmt::Result,
}

/// A struct declared with [`dev_struct!`](crate::dev_struct).
pub trait Layout: DevType {
    /// The struct's name, the same in Rust and in CUDA C++.
    const NAME: &'static str;
    /// Its fields in order.
    const FIELDS: &'static [Field];

    /// Writes the CUDA C++ struct and the assertions that hold it to Rust's size and offsets.
    fn write_struct(out: &mut dyn fmt::Write) -> fmt::Result {
        let (name, align, size) = (Self::NAME, align_of::<Self>(), size_of::<Self>());
        writeln!(out, "struct alignas({align}) {name} {{")?;
        for field in Self::FIELDS {
            write!(out, "  ")?;
            (field.declare)(out, field.name)?;
            writeln!(out, ";")?;
        }
        writeln!(out, "}};")?;
        writeln!(
            out,
            "static_assert(sizeof({name}) == {size}, \"{name}: size\");"
        )?;
        for field in Self::FIELDS {
            let (field, offset) = (field.name, field.offset);
            writeln!(
                out,
                "static_assert(__INTADDR__(&((({name}*)0)->{field})) == {offset}, \"{name}.{field}: offset\");"
            )?;
        }
        Ok(())
    }

    /// The struct's bytes, for copying it to a device; [`DevType::from_bytes`] is the way back.
    fn bytes(&self) -> &[u8] {
        // SAFETY: `dev_struct!` asserts that the fields fill the struct without padding, so every
        // byte is initialised; the lifetime is that of `self`.
        unsafe { core::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }
}

/// Declares a struct that host and device share.
///
/// `dev_struct! { /// doc \n pub struct DevName: align 16, size 16 { pub field: u32, … } }`
///
/// Every field must be a [`DevType`](crate::layout::DevType), and so is the struct:
/// [`ZERO`](crate::layout::DevType::ZERO) and [`from_bytes`](crate::layout::DevType::from_bytes) are generated from its
/// fields. The stated size and alignment are checked at compile time, and also that there is no padding: a hole must be
/// spelled out as a field.
///
/// ```
/// use everwarp_contract::{DevType, Layout, dev_struct};
/// dev_struct! {
///     /// A point.
///     pub struct DevPoint: align 8, size 8 {
///         /// Its column.
///         pub x: u32,
///         /// Its row.
///         pub y: u32,
///     }
/// }
/// let point = DevPoint { x: 3, ..DevPoint::ZERO };
/// assert_eq!(DevPoint::from_bytes(point.bytes()).x, 3);
/// ```
///
/// A struct with padding does not compile:
///
/// ```compile_fail
/// everwarp_contract::dev_struct! {
///     /// A byte, a hole and a word.
///     pub struct DevHole: align 4, size 8 {
///         /// The byte.
///         pub byte: u8,
///         /// The word.
///         pub word: u32,
///     }
/// }
/// ```
#[macro_export]
macro_rules! dev_struct {
    ($(#[$meta:meta])* $vis:vis struct $name:ident : align $align:literal, size $size:literal {
        $($(#[$fmeta:meta])* $fvis:vis $field:ident : $type:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C, align($align))]
        $vis struct $name { $($(#[$fmeta])* $fvis $field: $type),* }

        const _: () = {
            assert!(size_of::<$name>() == $size, "the declared size is not the size of the fields");
            assert!(align_of::<$name>() == $align);
            assert!(0 $(+ size_of::<$type>())* == $size, "there is padding: name it as a field");
        };
        impl $crate::layout::DevType for $name {
            const ZERO: Self = Self { $($field: <$type as $crate::layout::DevType>::ZERO),* };
            fn from_bytes(bytes: &[u8]) -> Self {
                assert_eq!(bytes.len(), $size, concat!("the bytes of one ", stringify!($name)));
                Self {
                    $($field: <$type as $crate::layout::DevType>::from_bytes(
                        &bytes[::core::mem::offset_of!($name, $field)..][..size_of::<$type>()],
                    )),*
                }
            }
            fn declare(out: &mut dyn ::core::fmt::Write, name: &str) -> ::core::fmt::Result {
                write!(out, "{} {}", stringify!($name), name)
            }
        }
        impl $crate::layout::Layout for $name {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [$crate::layout::Field] = &[$($crate::layout::Field {
                name: stringify!($field),
                offset: ::core::mem::offset_of!($name, $field),
                declare: <$type as $crate::layout::DevType>::declare,
            }),*];
        }
    };
}

/// Declares `u32` constants that host and device share, and a function that writes them as CUDA C++.
#[macro_export]
macro_rules! dev_consts {
    ($(#[$wmeta:meta])* $wvis:vis fn $writer:ident; $($(#[$meta:meta])* $vis:vis const $name:ident = $value:expr;)*) => {
        $($(#[$meta])* $vis const $name: u32 = $value;)*
        $(#[$wmeta])*
        $wvis fn $writer(out: &mut dyn ::core::fmt::Write) -> ::core::fmt::Result {
            $(writeln!(out, "[[maybe_unused]] constexpr u32 {} = {:#x}u;", stringify!($name), $name)?;)*
            Ok(())
        }
    };
}

#[cfg(test)]
mod tests {
    use super::{DevPtr, DevType, Layout};

    crate::dev_struct! {
        /// A struct inside another one.
        struct DevInner: align 8, size 16 {
            signed: i32,
            real: f32,
            next: DevPtr<u32>,
        }
    }
    crate::dev_struct! {
        /// One field of each kind.
        struct DevOuter: align 16, size 64 {
            byte: u8,
            bytes: [u8; 3],
            half: [u16; 2],
            wide: i64,
            inner: [DevInner; 2],
            real: f64,
            hole: u64,
        }
    }

    const FULL: DevOuter = DevOuter {
        byte: 1,
        bytes: [2, 3, 4],
        half: [0x0605, 0x0807],
        wide: -2,
        inner: [
            DevInner {
                signed: -1,
                real: 1.5,
                next: DevPtr::new(0xdead_beef),
            },
            DevInner::ZERO,
        ],
        real: -0.25,
        hole: u64::MAX,
    };

    #[test]
    fn zero_has_only_zero_bytes() {
        assert!(DevOuter::ZERO.bytes().iter().all(|&b| b == 0));
        assert!(DevOuter::ZERO.inner[1].next.address() == DevPtr::<u32>::NULL.address());
    }

    #[test]
    fn from_bytes_returns_the_struct_that_was_written() {
        let back = DevOuter::from_bytes(FULL.bytes());
        assert_eq!(back.bytes(), FULL.bytes());
        assert_eq!((back.wide, back.real, back.inner[0].real), (-2, -0.25, 1.5));
        assert_eq!(back.inner[0].next.address(), 0xdead_beef);
        // The bytes need no alignment.
        let mut shifted = [0; 65];
        shifted[1..].copy_from_slice(FULL.bytes());
        assert_eq!(DevOuter::from_bytes(&shifted[1..]).bytes(), FULL.bytes());
    }

    #[test]
    fn every_bit_pattern_is_a_value() {
        let bytes: [u8; 64] = core::array::from_fn(|i| 255 - i as u8);
        assert_eq!(DevOuter::from_bytes(&bytes).bytes(), bytes);
    }

    #[test]
    #[should_panic(expected = "the bytes of one DevInner")]
    fn from_bytes_refuses_another_length() {
        let _ = DevInner::from_bytes(&FULL.bytes()[..15]);
    }
}
