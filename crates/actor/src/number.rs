//! Numbers that a system gives to what it knows, and that actors can keep in words.

/// Declares a number's type. With `NONE` there is one that stands for nothing.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident $(, $(#[$none:meta])* NONE)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(crate) u64);

        impl $name {
            $(
                $(#[$none])*
                pub const NONE: Self = Self(0);
            )?
            /// The number, for code that keeps it in words.
            pub const fn bits(self) -> u64 {
                self.0
            }
            /// What has such a number.
            pub const fn from_bits(bits: u64) -> Self {
                Self(bits)
            }
        }
    };
}
pub(crate) use number;
