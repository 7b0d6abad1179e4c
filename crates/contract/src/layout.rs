//! How a shared layout is declared: one macro invocation generates both sides.
//!
//! Why not bindgen or a shared C header? Those make one side the source and the other a copy that a
//! build step must refresh; here neither side can be built from anything but the declaration itself.

use core::fmt;
use core::marker::PhantomData;

/// A type that may stand in memory which device code reads: it knows its CUDA C++ spelling.
pub trait DevType: Copy {
    /// Writes the declaration of one field called `name`, for example `u32 name[4]`.
    fn declare(out: &mut dyn fmt::Write, name: &str) -> fmt::Result;
}

macro_rules! primitive {
    ($($rust:ty => $c:literal),* $(,)?) => {$(
        impl DevType for $rust {
            fn declare(out: &mut dyn fmt::Write, name: &str) -> fmt::Result {
                write!(out, concat!($c, " {}"), name)
            }
        }
    )*};
}
primitive!(u8 => "u8", u16 => "u16", u32 => "u32", u64 => "u64", i32 => "i32", i64 => "i64", f32 => "float", f64 => "double");

impl<T: DevType, const N: usize> DevType for [T; N] {
    fn declare(out: &mut dyn fmt::Write, name: &str) -> fmt::Result {
        T::declare(out, name)?;
        write!(out, "[{N}]")
    }
}

/// An address in the engine's memory, typed by what it points to. On the CPU engine it is a host
/// address; on a GPU it means nothing to the host, which is why it cannot be dereferenced here.
#[repr(transparent)]
pub struct DevPtr<T>(pub u64, PhantomData<*const T>);

impl<T> DevPtr<T> {
    /// The address that points nowhere.
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
// SAFETY: a `DevPtr` is a number; it gives no access to what it points to.
unsafe impl<T> Send for DevPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for DevPtr<T> {}

impl<T: DevType> DevType for DevPtr<T> {
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

    /// The struct's bytes, for copying it to a device.
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
/// Every field must be a [`DevType`]. The stated size and alignment are checked at compile time, and
/// so is that there is no padding: a hole must be spelled out as a field.
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
