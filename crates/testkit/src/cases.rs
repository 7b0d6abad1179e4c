//! Lists of named cases.

/// A list of pairs `(name, function)`, in which each case is written once: its name is the function's.
///
/// A function of another module is written as `function in module`.
///
/// ```
/// use everwarp_testkit::cases;
///
/// mod more {
///     pub fn three() -> u32 { 3 }
/// }
/// fn one() -> u32 { 1 }
///
/// const ALL: &[(&str, fn() -> u32)] = cases![one, three in more];
/// assert_eq!((ALL[0].0, ALL[0].1()), ("one", 1));
/// assert_eq!((ALL[1].0, ALL[1].1()), ("three", 3));
/// ```
#[macro_export]
macro_rules! cases {
    ($($case:ident $(in $module:ident)?),* $(,)?) => {
        &[$((stringify!($case), $($module::)? $case)),*]
    };
}
