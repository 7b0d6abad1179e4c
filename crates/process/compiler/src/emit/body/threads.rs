//! One arm for each operator of the threads proposal.

use wasmparser::Operator;

use crate::emit::body::Body;
use crate::facts::types::ValueType;
use crate::facts::types::ValueType::{I32, I64};

use super::atomic::{Rmw, Width};

const fn width(ty: ValueType, bytes: u64) -> Width {
    Width { ty, bytes }
}

impl Body<'_> {
    /// Translates an operator if it is one of the threads proposal's.
    pub(super) fn thread_operator(&mut self, operator: &Operator<'_>) -> bool {
        use Rmw::{Add, And, Exchange, Or, Sub, Xor};
        match operator {
            Operator::AtomicFence => self.atomic_fence(),
            Operator::MemoryAtomicNotify { memarg } => self.atomic_notify(memarg),
            Operator::MemoryAtomicWait32 { memarg } => self.atomic_wait(4, memarg),
            Operator::MemoryAtomicWait64 { memarg } => self.atomic_wait(8, memarg),
            Operator::I32AtomicLoad { memarg } => self.atomic_load(width(I32, 4), memarg),
            Operator::I32AtomicLoad8U { memarg } => self.atomic_load(width(I32, 1), memarg),
            Operator::I32AtomicLoad16U { memarg } => self.atomic_load(width(I32, 2), memarg),
            Operator::I64AtomicLoad { memarg } => self.atomic_load(width(I64, 8), memarg),
            Operator::I64AtomicLoad8U { memarg } => self.atomic_load(width(I64, 1), memarg),
            Operator::I64AtomicLoad16U { memarg } => self.atomic_load(width(I64, 2), memarg),
            Operator::I64AtomicLoad32U { memarg } => self.atomic_load(width(I64, 4), memarg),
            Operator::I32AtomicStore { memarg } => self.atomic_store(width(I32, 4), memarg),
            Operator::I32AtomicStore8 { memarg } => self.atomic_store(width(I32, 1), memarg),
            Operator::I32AtomicStore16 { memarg } => self.atomic_store(width(I32, 2), memarg),
            Operator::I64AtomicStore { memarg } => self.atomic_store(width(I64, 8), memarg),
            Operator::I64AtomicStore8 { memarg } => self.atomic_store(width(I64, 1), memarg),
            Operator::I64AtomicStore16 { memarg } => self.atomic_store(width(I64, 2), memarg),
            Operator::I64AtomicStore32 { memarg } => self.atomic_store(width(I64, 4), memarg),
            Operator::I32AtomicRmwAdd { memarg } => self.atomic_rmw(Add, width(I32, 4), memarg),
            Operator::I32AtomicRmw8AddU { memarg } => self.atomic_rmw(Add, width(I32, 1), memarg),
            Operator::I32AtomicRmw16AddU { memarg } => self.atomic_rmw(Add, width(I32, 2), memarg),
            Operator::I64AtomicRmwAdd { memarg } => self.atomic_rmw(Add, width(I64, 8), memarg),
            Operator::I64AtomicRmw8AddU { memarg } => self.atomic_rmw(Add, width(I64, 1), memarg),
            Operator::I64AtomicRmw16AddU { memarg } => self.atomic_rmw(Add, width(I64, 2), memarg),
            Operator::I64AtomicRmw32AddU { memarg } => self.atomic_rmw(Add, width(I64, 4), memarg),
            Operator::I32AtomicRmwSub { memarg } => self.atomic_rmw(Sub, width(I32, 4), memarg),
            Operator::I32AtomicRmw8SubU { memarg } => self.atomic_rmw(Sub, width(I32, 1), memarg),
            Operator::I32AtomicRmw16SubU { memarg } => self.atomic_rmw(Sub, width(I32, 2), memarg),
            Operator::I64AtomicRmwSub { memarg } => self.atomic_rmw(Sub, width(I64, 8), memarg),
            Operator::I64AtomicRmw8SubU { memarg } => self.atomic_rmw(Sub, width(I64, 1), memarg),
            Operator::I64AtomicRmw16SubU { memarg } => self.atomic_rmw(Sub, width(I64, 2), memarg),
            Operator::I64AtomicRmw32SubU { memarg } => self.atomic_rmw(Sub, width(I64, 4), memarg),
            Operator::I32AtomicRmwAnd { memarg } => self.atomic_rmw(And, width(I32, 4), memarg),
            Operator::I32AtomicRmw8AndU { memarg } => self.atomic_rmw(And, width(I32, 1), memarg),
            Operator::I32AtomicRmw16AndU { memarg } => self.atomic_rmw(And, width(I32, 2), memarg),
            Operator::I64AtomicRmwAnd { memarg } => self.atomic_rmw(And, width(I64, 8), memarg),
            Operator::I64AtomicRmw8AndU { memarg } => self.atomic_rmw(And, width(I64, 1), memarg),
            Operator::I64AtomicRmw16AndU { memarg } => self.atomic_rmw(And, width(I64, 2), memarg),
            Operator::I64AtomicRmw32AndU { memarg } => self.atomic_rmw(And, width(I64, 4), memarg),
            Operator::I32AtomicRmwOr { memarg } => self.atomic_rmw(Or, width(I32, 4), memarg),
            Operator::I32AtomicRmw8OrU { memarg } => self.atomic_rmw(Or, width(I32, 1), memarg),
            Operator::I32AtomicRmw16OrU { memarg } => self.atomic_rmw(Or, width(I32, 2), memarg),
            Operator::I64AtomicRmwOr { memarg } => self.atomic_rmw(Or, width(I64, 8), memarg),
            Operator::I64AtomicRmw8OrU { memarg } => self.atomic_rmw(Or, width(I64, 1), memarg),
            Operator::I64AtomicRmw16OrU { memarg } => self.atomic_rmw(Or, width(I64, 2), memarg),
            Operator::I64AtomicRmw32OrU { memarg } => self.atomic_rmw(Or, width(I64, 4), memarg),
            Operator::I32AtomicRmwXor { memarg } => self.atomic_rmw(Xor, width(I32, 4), memarg),
            Operator::I32AtomicRmw8XorU { memarg } => self.atomic_rmw(Xor, width(I32, 1), memarg),
            Operator::I32AtomicRmw16XorU { memarg } => self.atomic_rmw(Xor, width(I32, 2), memarg),
            Operator::I64AtomicRmwXor { memarg } => self.atomic_rmw(Xor, width(I64, 8), memarg),
            Operator::I64AtomicRmw8XorU { memarg } => self.atomic_rmw(Xor, width(I64, 1), memarg),
            Operator::I64AtomicRmw16XorU { memarg } => self.atomic_rmw(Xor, width(I64, 2), memarg),
            Operator::I64AtomicRmw32XorU { memarg } => self.atomic_rmw(Xor, width(I64, 4), memarg),
            Operator::I32AtomicRmwXchg { memarg } => {
                self.atomic_rmw(Exchange, width(I32, 4), memarg)
            }
            Operator::I32AtomicRmw8XchgU { memarg } => {
                self.atomic_rmw(Exchange, width(I32, 1), memarg)
            }
            Operator::I32AtomicRmw16XchgU { memarg } => {
                self.atomic_rmw(Exchange, width(I32, 2), memarg)
            }
            Operator::I64AtomicRmwXchg { memarg } => {
                self.atomic_rmw(Exchange, width(I64, 8), memarg)
            }
            Operator::I64AtomicRmw8XchgU { memarg } => {
                self.atomic_rmw(Exchange, width(I64, 1), memarg)
            }
            Operator::I64AtomicRmw16XchgU { memarg } => {
                self.atomic_rmw(Exchange, width(I64, 2), memarg)
            }
            Operator::I64AtomicRmw32XchgU { memarg } => {
                self.atomic_rmw(Exchange, width(I64, 4), memarg)
            }
            Operator::I32AtomicRmwCmpxchg { memarg } => self.atomic_cmpxchg(width(I32, 4), memarg),
            Operator::I32AtomicRmw8CmpxchgU { memarg } => {
                self.atomic_cmpxchg(width(I32, 1), memarg)
            }
            Operator::I32AtomicRmw16CmpxchgU { memarg } => {
                self.atomic_cmpxchg(width(I32, 2), memarg)
            }
            Operator::I64AtomicRmwCmpxchg { memarg } => self.atomic_cmpxchg(width(I64, 8), memarg),
            Operator::I64AtomicRmw8CmpxchgU { memarg } => {
                self.atomic_cmpxchg(width(I64, 1), memarg)
            }
            Operator::I64AtomicRmw16CmpxchgU { memarg } => {
                self.atomic_cmpxchg(width(I64, 2), memarg)
            }
            Operator::I64AtomicRmw32CmpxchgU { memarg } => {
                self.atomic_cmpxchg(width(I64, 4), memarg)
            }
            _ => return false,
        }
        true
    }
}
