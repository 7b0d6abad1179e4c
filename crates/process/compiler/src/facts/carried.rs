//! What functions pass on to each other in registers, in addition to their arguments and results.
//!
//! **A global.** Compilers keep the end of the guest's stack in linear memory in a global, and nearly every function that
//! calls others lowers and raises it. In the instance's block that costs a load and two stores for each such call, in a
//! sector that no other lane uses. So the first global that is the module's own, mutable and 32 bits wide travels as
//! fuel does: a function takes it after the depth and returns it after its results. The block is up to date whenever
//! other code could look at it: after the outermost function has returned, before a call that leaves the module, at a
//! trap, and while the instance is suspended. A function that is called from outside loads the global from there. So does
//! a function that is resumed: it ignores the value that it was given.
//!
//! **The address of memory**, which otherwise every function that accesses memory would have to load.
//!
//! On an H200 a recursive parser took 0.9 of its time with the global, and with both 0.95 of that: its frames and those
//! loads do not fit in the first cache.
//!
//! Modules with tail calls pass on neither, because their trampolines would have to keep both.

use crate::facts::module::Module;
use crate::facts::types::{Convention, ValueType};

/// What the functions of a module without tail calls pass on.
pub(crate) fn convention(module: &Module) -> Convention {
    let mut globals = (0..).zip(&module.globals);
    let found = globals.find(|(_, g)| g.init.is_some() && g.mutable && g.ty == ValueType::I32);
    Convention {
        global: found.map(|(global, _)| global),
        memory: module.memory.is_some(),
    }
}
