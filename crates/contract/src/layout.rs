//! How a shared layout is declared: one macro invocation generates both sides.
//!
//! Why not bindgen or a shared C header? They make one side the source and the other side a copy that a
//! build step must refresh. Here both sides are built from the declaration itself. Devices read two languages, and
//! [`DeviceText`] says which of them a declaration is written in.

use core::fmt;
use core::marker::PhantomData;

/// A language of device sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// CUDA C++.
    Cuda,
    /// WGSL.
    Wgsl,
}

/// The text of a device source: declarations are written to it in its language.
pub trait DeviceText: fmt::Write {
    /// The language of the text.
    fn language(&self) -> Language;
}

/// A string is CUDA C++; [`Wgsl`] wraps one that is WGSL.
impl DeviceText for alloc::string::String {
    fn language(&self) -> Language {
        Language::Cuda
    }
}

/// A text in WGSL.
#[derive(Debug, Default)]
pub struct Wgsl(pub alloc::string::String);

impl fmt::Write for Wgsl {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(text)
    }
}
impl DeviceText for Wgsl {
    fn language(&self) -> Language {
        Language::Wgsl
    }
}

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
    /// Writes the CUDA C++ declaration of one field called `name`, for example `u32 name[4]`.
    fn declare(out: &mut dyn fmt::Write, name: &str) -> fmt::Result;
    /// Writes the WGSL type. WGSL has no 64-bit numbers: they are two words, the lower one first.
    ///
    /// # Errors
    /// WGSL has no numbers of 8 and 16 bits, so a struct with such a field cannot be written.
    fn write_wgsl_type(out: &mut dyn fmt::Write) -> fmt::Result;
}

/// A number of a type by which host and device see that they mean the same one: a hash (32-bit FNV-1a) of its CUDA C++
/// spelling. `actor/value.cuh` has those of plain numbers.
pub fn type_number<T: DevType>() -> u32 {
    let mut name = alloc::string::String::new();
    T::declare(&mut name, "").expect("a string takes it");
    let bytes = name.trim_end().bytes();
    bytes.fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

macro_rules! primitive {
    ($($rust:ty => $c:literal, $wgsl:literal, $zero:literal;)*) => {$(
        impl DevType for $rust {
            const ZERO: Self = $zero;
            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().expect(concat!("the bytes of one ", stringify!($rust))))
            }
            fn declare(out: &mut dyn fmt::Write, name: &str) -> fmt::Result {
                write!(out, concat!($c, " {}"), name)
            }
            fn write_wgsl_type(out: &mut dyn fmt::Write) -> fmt::Result {
                match $wgsl {
                    "" => Err(fmt::Error),
                    name => out.write_str(name),
                }
            }
        }
    )*};
}
primitive! {
    u8 => "u8", "", 0;
    u16 => "u16", "", 0;
    u32 => "u32", "u32", 0;
    u64 => "u64", "vec2<u32>", 0;
    i32 => "i32", "i32", 0;
    i64 => "i64", "vec2<u32>", 0;
    f32 => "float", "f32", 0.0;
    f64 => "double", "vec2<u32>", 0.0;
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
    fn write_wgsl_type(out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("array<")?;
        T::write_wgsl_type(out)?;
        write!(out, ", {N}>")
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
    fn write_wgsl_type(out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("vec2<u32>")
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
    /// Writes the WGSL type.
    pub write_wgsl_type: fn(&mut dyn fmt::Write) -> fmt::Result,
}

/// A struct declared with [`dev_struct!`](crate::dev_struct).
pub trait Layout: DevType {
    /// The struct's name, the same in Rust and in CUDA C++.
    const NAME: &'static str;
    /// Its fields in order.
    const FIELDS: &'static [Field];

    /// Writes the struct in the text's language.
    ///
    /// In CUDA C++ it comes with the assertions that hold it to Rust's size and offsets. WGSL has no assertions on
    /// layouts, so a test asks a compiler of WGSL instead; there, constants such as `DevTask_group` follow the struct, with
    /// the offsets of its fields in words of 4 bytes, for structs in memory that is an array of words.
    fn write_struct(out: &mut dyn DeviceText) -> fmt::Result {
        match out.language() {
            Language::Cuda => Self::write_cuda(out),
            Language::Wgsl => Self::write_wgsl(out),
        }
    }
    /// The struct in WGSL; see [`write_struct`](Self::write_struct).
    fn write_wgsl(out: &mut dyn fmt::Write) -> fmt::Result {
        let (name, align, size) = (Self::NAME, align_of::<Self>(), size_of::<Self>());
        writeln!(out, "struct {name} {{")?;
        for (i, field) in Self::FIELDS.iter().enumerate() {
            match i {
                0 => write!(out, "  @align({align}) {}: ", field.name)?,
                _ => write!(out, "  {}: ", field.name)?,
            }
            (field.write_wgsl_type)(out)?;
            writeln!(out, ",")?;
        }
        writeln!(out, "}}\nconst words_of_{name} = {}u;", size / 4)?;
        for field in Self::FIELDS {
            let (field, at) = (field.name, field.offset / 4);
            writeln!(out, "const {name}_{field} = {at}u;")?;
        }
        Ok(())
    }
    /// The struct in CUDA C++; see [`write_struct`](Self::write_struct).
    fn write_cuda(out: &mut dyn fmt::Write) -> fmt::Result {
        let (name, align, size) = (Self::NAME, align_of::<Self>(), size_of::<Self>());
        writeln!(out, "struct alignas({align}) {name} {{")?;
        for field in Self::FIELDS {
            write!(out, "  ")?;
            (field.declare)(out, field.name)?;
            writeln!(out, ";")?;
        }
        let number = type_number::<Self>();
        writeln!(out, "  static constexpr u32 type_number = {number:#x}u;")?;
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
            fn write_wgsl_type(out: &mut dyn ::core::fmt::Write) -> ::core::fmt::Result {
                out.write_str(stringify!($name))
            }
        }
        impl $crate::layout::Layout for $name {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [$crate::layout::Field] = &[$($crate::layout::Field {
                name: stringify!($field),
                offset: ::core::mem::offset_of!($name, $field),
                declare: <$type as $crate::layout::DevType>::declare,
                write_wgsl_type: <$type as $crate::layout::DevType>::write_wgsl_type,
            }),*];
        }
    };
}

/// Declares `u32` constants that host and device share, and a function that writes them in a device's language.
#[macro_export]
macro_rules! dev_consts {
    ($(#[$wmeta:meta])* $wvis:vis fn $writer:ident; $($(#[$meta:meta])* $vis:vis const $name:ident = $value:expr;)*) => {
        $($(#[$meta])* $vis const $name: u32 = $value;)*
        $(#[$wmeta])*
        $wvis fn $writer(out: &mut dyn $crate::layout::DeviceText) -> ::core::fmt::Result {
            match out.language() {
                $crate::layout::Language::Cuda => {
                    $(writeln!(out, "[[maybe_unused]] constexpr u32 {} = {:#x}u;", stringify!($name), $name)?;)*
                }
                $crate::layout::Language::Wgsl => {
                    $(writeln!(out, "const {} = {:#x}u;", stringify!($name), $name)?;)*
                }
            }
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
