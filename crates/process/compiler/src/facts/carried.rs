//! What functions pass on to each other in registers, beside what they take and give.
//!
//! **A global**: compilers keep the end of the guest's stack in linear memory in one, and nearly every function that
//! calls others lowers and raises it. In the instance's block that is a load and two stores for each such call, in a
//! sector that no other lane has a use for. So the first global that is the module's own and a mutable number of
//! 32 bits travels as fuel does: a function takes it behind the depth and gives it back behind its results. The block
//! has it whenever somebody else could look: when the outermost function has returned, in front of a call of what is
//! not this module's, at a trap and when the instance is suspended. Who is called from outside finds it there, and so
//! does a function that goes on: what it is given then is not looked at.
//!
//! **Where memory begins**, which every function would have to load that accesses it.
//!
//! A recursive parser took 0.9 of its time with the global on an H200, and 0.95 of that with both: its frames and
//! those loads do not fit in the first cache.
//!
//! Not in modules with tail calls, whose trampolines would have to keep both.

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
