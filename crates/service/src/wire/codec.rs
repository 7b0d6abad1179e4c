//! Values as bytes: little-endian numbers, lengths of 4 bytes, one byte for a choice.
//!
//! The bytes come from another program, so each read checks what is left, and nothing is allocated for a length that has
//! not been checked.

use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::Bytes;
use everwarp_process::Pid;

/// Why bytes are not the value that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end before the value does.
    #[error("a message ends too early")]
    Short,
    /// Bytes follow the value.
    #[error("a message is longer than its content")]
    Long,
    /// No choice has this number.
    #[error("a message holds the unknown choice {0}")]
    Choice(u32),
    /// A text is not UTF-8.
    #[error("a message holds text that is not UTF-8")]
    Text,
    /// A number is outside its range.
    #[error("a message holds a number that is out of range")]
    Range,
}

/// Reads values from bytes.
#[derive(Debug)]
pub(crate) struct Decoder<'b>(&'b [u8]);

impl<'b> Decoder<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'b [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A length and as many bytes.
    pub(crate) fn bytes(&mut self) -> Result<&'b [u8], WireError> {
        let count = u32::get(self)? as usize;
        self.take(count)
    }

    /// A length and as much text.
    pub(crate) fn text(&mut self) -> Result<&'b str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::Text)
    }

    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) -> Result<(), WireError> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(WireError::Long),
        }
    }
}

/// A value that can be sent.
pub(crate) trait Wire: Sized {
    /// Appends the value.
    fn put(&self, to: &mut Vec<u8>);
    /// Reads a value.
    fn get(from: &mut Decoder<'_>) -> Result<Self, WireError>;
}

macro_rules! numbers {
    ($($ty:ty),*) => { $(impl Wire for $ty {
        fn put(&self, to: &mut Vec<u8>) {
            to.extend_from_slice(&self.to_le_bytes());
        }
        fn get(from: &mut Decoder<'_>) -> Result<Self, WireError> {
            let bytes = from.take(size_of::<$ty>())?;
            Ok(<$ty>::from_le_bytes(bytes.try_into().expect("as many bytes were taken")))
        }
    })* };
}

numbers!(u8, u16, u32, u64, i32);

impl Wire for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push((*self).into());
    }
    fn get(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        match u8::get(from)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(WireError::Choice(other.into())),
        }
    }
}

impl Wire for String {
    fn put(&self, to: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), to);
    }
    fn get(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(from.text()?.to_owned())
    }
}

impl Wire for Bytes {
    fn put(&self, to: &mut Vec<u8>) {
        put_bytes(self, to);
    }
    fn get(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(Self::copy_from_slice(from.bytes()?))
    }
}

/// A length and the bytes.
pub(crate) fn put_bytes(bytes: &[u8], to: &mut Vec<u8>) {
    let count = u32::try_from(bytes.len()).expect("a message is shorter than 4 GiB");
    count.put(to);
    to.extend_from_slice(bytes);
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }
    fn get(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        match bool::get(from)? {
            true => T::get(from).map(Some),
            false => Ok(None),
        }
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_ok().put(to);
        match self {
            Ok(value) => value.put(to),
            Err(error) => error.put(to),
        }
    }
    fn get(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(match bool::get(from)? {
            true => Ok(T::get(from)?),
            false => Err(E::get(from)?),
        })
    }
}

impl Wire for () {
    fn put(&self, _: &mut Vec<u8>) {}
    fn get(_: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(())
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        let count = u32::try_from(self.len()).expect("a message is shorter than 4 GiB");
        count.put(to);
        self.iter().for_each(|value| value.put(to));
    }
    fn get(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        let count = u32::get(from)?;
        // Every value takes a byte at least, so a count that is too large ends at the last byte.
        let mut values = Self::new();
        for _ in 0..count {
            if from.left() == 0 {
                return Err(WireError::Short);
            }
            values.push(T::get(from)?);
        }
        Ok(values)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }
    fn get(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok((A::get(from)?, B::get(from)?))
    }
}

impl Wire for Pid {
    fn put(&self, to: &mut Vec<u8>) {
        self.number().put(to);
    }
    fn get(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(Self::of_number(u64::get(from)?))
    }
}

impl Wire for Duration {
    fn put(&self, to: &mut Vec<u8>) {
        let nanos = u64::try_from(self.as_nanos()).unwrap_or(u64::MAX);
        nanos.put(to);
    }
    fn get(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(Self::from_nanos(u64::get(from)?))
    }
}

impl Wire for usize {
    fn put(&self, to: &mut Vec<u8>) {
        (*self as u64).put(to);
    }
    fn get(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Self::try_from(u64::get(from)?).map_err(|_| WireError::Range)
    }
}

impl Wire for NonZeroUsize {
    fn put(&self, to: &mut Vec<u8>) {
        self.get().put(to);
    }
    fn get(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Self::new(usize::get(from)?).ok_or(WireError::Range)
    }
}

/// Declares messages once: structs, and enums whose variants have numbers that are never used again.
macro_rules! wire {
    () => {};
    ($(#[$meta:meta])* struct $name:ident { $($(#[$field_meta:meta])* $field:ident: $ty:ty,)* } $($rest:tt)*) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $name { $($(#[$field_meta])* pub(crate) $field: $ty,)* }
        impl $crate::wire::codec::Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                $($crate::wire::codec::Wire::put(&self.$field, to);)*
                let _ = to;
            }
            fn get(from: &mut $crate::wire::codec::Decoder<'_>) -> Result<Self, $crate::wire::codec::WireError> {
                Ok(Self { $($field: $crate::wire::codec::Wire::get(from)?,)* })
            }
        }
        wire! { $($rest)* }
    };
    ($(#[$meta:meta])* enum $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $number:literal $({ $($field:ident: $ty:ty,)* })?,)*
    } $($rest:tt)*) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) enum $name { $($(#[$variant_meta])* $variant $({ $($field: $ty,)* })?,)* }
        impl $crate::wire::codec::Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $({ $($field,)* })? => {
                        to.push($number);
                        $($($crate::wire::codec::Wire::put($field, to);)*)?
                    })*
                }
            }
            fn get(from: &mut $crate::wire::codec::Decoder<'_>) -> Result<Self, $crate::wire::codec::WireError> {
                Ok(match <u8 as $crate::wire::codec::Wire>::get(from)? {
                    $($number => Self::$variant $({ $($field: $crate::wire::codec::Wire::get(from)?,)* })?,)*
                    other => return Err($crate::wire::codec::WireError::Choice(other.into())),
                })
            }
        }
        wire! { $($rest)* }
    };
}

pub(crate) use wire;

/// A value as the body of a frame.
pub(crate) fn encoded(value: &impl Wire) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.put(&mut bytes);
    bytes
}

/// The value that is the whole body of a frame.
pub(crate) fn decoded<T: Wire>(bytes: &[u8]) -> Result<T, WireError> {
    let mut from = Decoder::new(bytes);
    let value = T::get(&mut from)?;
    from.end()?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    wire! {
        struct Point { x: u32, name: Option<String>, }
        enum Shape { Nothing = 0, Points = 3 { all: Vec<Point>, closed: bool, }, }
    }

    #[test]
    fn values_come_back_and_each_cut_is_an_error() {
        let name = Some("name".to_owned());
        let points = vec![Point { x: 7, name }, Point { x: 8, name: None }];
        let shape = Shape::Points {
            all: points,
            closed: true,
        };
        let bytes = encoded(&shape);
        assert_eq!(decoded::<Shape>(&bytes), Ok(shape));
        for end in 0..bytes.len() {
            assert!(decoded::<Shape>(&bytes[..end]).is_err(), "{end}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(decoded::<Shape>(&longer), Err(WireError::Long));
        assert_eq!(decoded::<Shape>(&[1]), Err(WireError::Choice(1)));
        assert_eq!(decoded::<Shape>(&[0]), Ok(Shape::Nothing));
    }

    #[test]
    fn lengths_of_other_programs_allocate_nothing() {
        let bytes = u32::MAX.to_le_bytes();
        assert_eq!(decoded::<Vec<u64>>(&bytes), Err(WireError::Short));
        assert_eq!(decoded::<String>(&bytes), Err(WireError::Short));
        assert_eq!(decoded::<Vec<()>>(&bytes), Err(WireError::Short));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(shape) = decoded::<Shape>(&bytes) {
                prop_assert_eq!(encoded(&shape), bytes);
            }
        }
    }
}
