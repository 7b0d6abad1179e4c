//! How a program is declared: one table that numbers its functions and joins device source and CPU twins.

use std::borrow::Cow;

use everwarp_contract::{DevType, dev_struct};

use crate::{Function, Order, Shape, Twin, TwinFn};

dev_struct! {
    /// The parameters of a program that has none.
    pub struct DevNone: align 16, size 16 {
        /// Spelled-out hole.
        pub nothing: [u64; 2],
    }
}

impl DevNone {
    /// No parameters.
    pub const NEW: Self = Self::ZERO;
}

/// The rows of a [`program!`](crate::program) table: a shape, then what differs from a function that neither spawns
/// nor forks.
impl Function {
    /// One thread for each task; depth first, spawns nothing.
    pub const fn lane(name: &'static str, twin: TwinFn) -> Self {
        Self::shaped(Shape::Lane, Cow::Borrowed(name), Twin::Function(twin))
    }
    /// As [`lane`](Self::lane), with a warp for each task.
    pub const fn warp(name: &'static str, twin: TwinFn) -> Self {
        Self::shaped(Shape::Warp, Cow::Borrowed(name), Twin::Function(twin))
    }
    /// As [`lane`](Self::lane), with a block for each task.
    pub const fn block(name: &'static str, twin: TwinFn) -> Self {
        Self::shaped(Shape::Block, Cow::Borrowed(name), Twin::Function(twin))
    }
    /// A function of any shape whose name and twin may be known only at run time; depth first, spawns nothing.
    pub const fn shaped(shape: Shape, name: Cow<'static, str>, twin: Twin) -> Self {
        Self {
            name,
            shape,
            order: Order::DepthFirst,
            max_spawn: 0,
            least_room: 0,
            forks: false,
            spawns: false,
            outlined: false,
            shared: None,
            twin,
        }
    }
    /// A call may spawn tasks into its own group, and has room for `most` tasks in all. A function that also forks
    /// counts the children of the fork among them.
    pub const fn spawns(mut self, most: u16) -> Self {
        self.spawns = true;
        self.room(most)
    }
    /// A call may fork, and has room for `most` tasks in all. With [`spawns`](Self::spawns), the larger number holds.
    pub const fn forks(mut self, most: u16) -> Self {
        self.forks = true;
        self.room(most)
    }
    /// A call spawns no more than there is room for, and starts with room for this many tasks.
    pub const fn starts_with(mut self, least: u16) -> Self {
        self.least_room = least;
        self
    }
    /// A worker takes the tasks of this function oldest first.
    pub const fn breadth_first(mut self) -> Self {
        self.order = Order::BreadthFirst;
        self
    }
    /// A GPU engine calls the function instead of making it part of the scheduler's loop.
    pub const fn outlined(mut self) -> Self {
        self.outlined = true;
        self
    }
    /// It runs the function of the device source with this name, as others of its program do.
    #[must_use]
    pub fn shares(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.shared = Some(name.into());
        self
    }
    const fn room(mut self, most: u16) -> Self {
        if most > self.max_spawn {
            self.max_spawn = most;
        }
        self
    }
}

/// Declares a [`Program`](crate::Program): its parameters, its device source, and a table of its functions.
///
/// Each row of the table is a function: a constant for its number, its shape ([`lane`](crate::Function::lane),
/// [`warp`](crate::Function::warp) or [`block`](crate::Function::block)) with its name, and what it may do. The name
/// is that of the CPU twin, a function in scope; the device source defines `program_name`. Where the twin is another
/// function, write `lane(name = path::to::twin)`.
///
/// ```
/// use everwarp_engine::{Shape, TaskCx, program};
///
/// program! {
///     /// Fibonacci numbers; there are no parameters.
///     pub static PROGRAM: fib() {
///         /// Argument n; reports fib(n).
///         CALL: lane(call).forks(2),
///         /// Adds what two calls report.
///         SUM: lane(sum),
///     }
/// }
///
/// fn call(t: &mut dyn TaskCx) {
///     let (n, slot) = (t.lo(), t.tag());
///     if n < 2 {
///         return t.report_slot(slot.into(), n);
///     }
///     t.fork_collect(SUM, slot);
///     t.spawn_child(CALL, 0, (n - 1).into());
///     t.spawn_child(CALL, 1, (n - 2).into());
/// }
///
/// fn sum(t: &mut dyn TaskCx) {
///     let (slot, value) = (t.tag(), t.lo() + t.hi());
///     t.report_slot(slot.into(), value);
/// }
///
/// assert_eq!((CALL, SUM), (0, 1));
/// assert_eq!((&*PROGRAM.name, &*PROGRAM.functions[0].name), ("fib", "call"));
/// assert_eq!((PROGRAM.functions[0].max_spawn, PROGRAM.functions[1].shape), (2, Shape::Lane));
/// ```
///
/// The full head is `pub static NAME: program(DevParams; writers), "one.cu", "two.cu"; wgsl "one.wgsl"`:
/// - `DevParams` is a [`dev_struct!`](everwarp_contract::dev_struct) with the parameters; without one the program has
///   none ([`DevNone`]).
/// - The writers, each a path such as `DevShared::write_struct`, declare what else the device source uses, before the
///   parameters.
/// - The files hold the device source, CUDA C++, and are found relative to the file of the declaration. Without one,
///   the CUDA engine does not run the program.
/// - The files after `wgsl` hold the same functions in WGSL. Without one, the wgpu engine does not run the program.
#[macro_export]
macro_rules! program {
    (
        $(#[$meta:meta])*
        $vis:vis static $PROGRAM:ident: $program:ident($($params:ty $(; $($writer:path),+)?)?)
            $(, $source:literal)* $(; wgsl $($wgsl:literal),+)? {
            $(
                $(#[$doc:meta])*
                $NUMBER:ident: $shape:ident($name:ident $(= $twin:path)?) $(.$what:ident($($argument:expr)?))*
            ),+ $(,)?
        }
    ) => {
        $crate::program!(@numbers [$($NUMBER)+] ($vis) $($(#[$doc])* $NUMBER)+);
        $(#[$meta])*
        $vis static $PROGRAM: $crate::Program = {
            static FUNCTIONS: &[$crate::Function] = &[$(
                $crate::Function::$shape(
                    ::core::stringify!($name),
                    $crate::program!(@twin $name $($twin)?),
                )$(.$what($($argument)?))*
            ),+];
            $crate::Program {
                name: ::std::borrow::Cow::Borrowed(::core::stringify!($program)),
                functions: ::std::borrow::Cow::Borrowed(FUNCTIONS),
                device_source: ::std::borrow::Cow::Borrowed(
                    ::core::concat!($(::core::include_str!($source)),*),
                ),
                wgsl_source: ::std::borrow::Cow::Borrowed(
                    ::core::concat!($($(::core::include_str!($wgsl)),+)?),
                ),
                params: $crate::Params::written(
                    <$crate::program!(@params $($params)?) as $crate::Layout>::NAME,
                    |out| {
                        $($($($writer(out)?;)+)?)?
                        <$crate::program!(@params $($params)?) as $crate::Layout>::write_struct(out)
                    },
                ),
            }
        };
    };
    // A function's number is its place in the table.
    (@numbers $all:tt ($vis:vis) $($(#[$doc:meta])* $NUMBER:ident)+) => {$(
        $(#[$doc])*
        $vis const $NUMBER: u32 = $crate::program!(@number $all $NUMBER);
    )+};
    (@number [$($all:ident)+] $NUMBER:ident) => {{
        #[allow(dead_code, non_camel_case_types, clippy::upper_case_acronyms, reason = "it only counts")]
        enum Number { $($all),+ }
        Number::$NUMBER as u32
    }};
    (@twin $name:ident) => { $name };
    (@twin $name:ident $twin:path) => { $twin };
    (@params) => { $crate::DevNone };
    (@params $params:ty) => { $params };
}

#[cfg(test)]
mod tests {
    use crate::{MAX_SPAWN, Order, Shape, TaskCx};
    use everwarp_contract::{Layout, dev_struct};

    dev_struct! {
        /// What tasks share.
        struct DevShared: align 8, size 8 {
            /// A number.
            total: u64,
        }
    }
    dev_struct! {
        /// Parameters.
        struct DevMany: align 8, size 8 {
            /// A number.
            first: u64,
        }
    }

    mod twin {
        pub(super) fn other(_: &mut dyn crate::TaskCx) {}
    }
    fn plain(_: &mut dyn TaskCx) {}

    crate::program! {
        /// Every form of a row.
        static MANY: many(DevMany; DevShared::write_struct), "context.rs", "image.rs"; wgsl "image.rs" {
            PLAIN: lane(plain),
            OTHER: warp(other = twin::other).spawns(3).outlined(),
            BOTH: block(both = plain).spawns(2).forks(MAX_SPAWN).breadth_first()
        }
    }
    crate::program! {
        /// A second program in the same module, without parameters and without device source.
        static FEW: few() {
            ONLY: lane(plain).forks(1).spawns(0),
        }
    }

    #[test]
    fn functions_are_numbered_by_their_place() {
        assert_eq!((PLAIN, OTHER, BOTH, ONLY), (0, 1, 2, 0));
        let names: Vec<_> = MANY.functions.iter().map(|f| &*f.name).collect();
        assert_eq!(names, ["plain", "other", "both"]);
    }

    #[test]
    fn a_row_changes_what_it_names_and_nothing_else() {
        let told = |place: usize| {
            let f = &MANY.functions[place];
            (f.shape, f.order, f.max_spawn, f.spawns, f.forks, f.outlined)
        };
        let plain = (Shape::Lane, Order::DepthFirst, 0, false, false, false);
        assert_eq!(told(0), plain);
        let other = (Shape::Warp, Order::DepthFirst, 3, true, false, true);
        assert_eq!(told(1), other);
        let both = (
            Shape::Block,
            Order::BreadthFirst,
            MAX_SPAWN,
            true,
            true,
            false,
        );
        assert_eq!(told(2), both);
        let only = &FEW.functions[0];
        assert_eq!((only.max_spawn, only.spawns, only.forks), (1, true, true));
    }

    #[test]
    fn a_program_carries_its_source_and_its_declarations() {
        let sources = [include_str!("context.rs"), include_str!("image.rs")];
        assert_eq!(MANY.device_source, sources.concat());
        assert_eq!((&*MANY.wgsl_source, &*FEW.wgsl_source), (sources[1], ""));
        let mut declared = String::new();
        MANY.params.write(&mut declared).expect("a string takes it");
        let (shared, many) = (
            declared.find("struct alignas(8) DevShared"),
            declared.find("struct alignas(8) DevMany"),
        );
        assert!(shared.is_some() && shared < many, "{declared}");
        assert_eq!(
            (&*MANY.params.name, &*FEW.params.name),
            ("DevMany", "DevNone")
        );
        assert_eq!((&*FEW.name, &*FEW.device_source), ("few", ""));
    }
}
