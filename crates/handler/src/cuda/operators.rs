//! Operators on numbers: a table from each to an expression of CUDA C++ whose operands are bits.

use wasmparser::Operator;

use super::facts::Width;

/// An operator that takes one or two numbers and gives one.
pub(super) struct Plain {
    pub(super) takes: &'static [Width],
    pub(super) gives: Width,
    /// `$a` and `$b` are the operands.
    pub(super) code: &'static str,
    /// Whether it may set the reason of a failure.
    pub(super) traps: bool,
}

/// What wasmtime counts for an operator. The CPU engine runs it with this cost.
pub(super) const fn fuel(operator: &Operator<'_>) -> i64 {
    match operator {
        Operator::Nop
        | Operator::Drop
        | Operator::Block { .. }
        | Operator::Loop { .. }
        | Operator::Unreachable
        | Operator::Return
        | Operator::Else
        | Operator::End => 0,
        _ => 1,
    }
}

macro_rules! table {
    ($operator:ident; $($name:ident $takes:ident $gives:ident $($trap:ident)? : $code:literal)*) => {
        match $operator {
            $(Operator::$name => Plain {
                takes: $takes,
                gives: Width::$gives,
                code: $code,
                traps: table!(@trap $($trap)?),
            },)*
            _ => return None,
        }
    };
    (@trap traps) => { true };
    (@trap) => { false };
}

const A: &[Width] = &[Width::W32];
const B: &[Width] = &[Width::W64];
const AA: &[Width] = &[Width::W32, Width::W32];
const BB: &[Width] = &[Width::W64, Width::W64];

/// The operator, if it is such a one.
pub(super) fn plain(operator: &Operator<'_>) -> Option<Plain> {
    Some(table! { operator;
        I32Eqz A W32: "$a == 0"
        I32Eq AA W32: "$a == $b"
        I32Ne AA W32: "$a != $b"
        I32LtS AA W32: "(int)$a < (int)$b"
        I32LtU AA W32: "$a < $b"
        I32GtS AA W32: "(int)$a > (int)$b"
        I32GtU AA W32: "$a > $b"
        I32LeS AA W32: "(int)$a <= (int)$b"
        I32LeU AA W32: "$a <= $b"
        I32GeS AA W32: "(int)$a >= (int)$b"
        I32GeU AA W32: "$a >= $b"
        I64Eqz B W32: "$a == 0"
        I64Eq BB W32: "$a == $b"
        I64Ne BB W32: "$a != $b"
        I64LtS BB W32: "(long long)$a < (long long)$b"
        I64LtU BB W32: "$a < $b"
        I64GtS BB W32: "(long long)$a > (long long)$b"
        I64GtU BB W32: "$a > $b"
        I64LeS BB W32: "(long long)$a <= (long long)$b"
        I64LeU BB W32: "$a <= $b"
        I64GeS BB W32: "(long long)$a >= (long long)$b"
        I64GeU BB W32: "$a >= $b"
        F32Eq AA W32: "ew::wasm::f32($a) == ew::wasm::f32($b)"
        F32Ne AA W32: "ew::wasm::f32($a) != ew::wasm::f32($b)"
        F32Lt AA W32: "ew::wasm::f32($a) < ew::wasm::f32($b)"
        F32Gt AA W32: "ew::wasm::f32($a) > ew::wasm::f32($b)"
        F32Le AA W32: "ew::wasm::f32($a) <= ew::wasm::f32($b)"
        F32Ge AA W32: "ew::wasm::f32($a) >= ew::wasm::f32($b)"
        F64Eq BB W32: "ew::wasm::f64($a) == ew::wasm::f64($b)"
        F64Ne BB W32: "ew::wasm::f64($a) != ew::wasm::f64($b)"
        F64Lt BB W32: "ew::wasm::f64($a) < ew::wasm::f64($b)"
        F64Gt BB W32: "ew::wasm::f64($a) > ew::wasm::f64($b)"
        F64Le BB W32: "ew::wasm::f64($a) <= ew::wasm::f64($b)"
        F64Ge BB W32: "ew::wasm::f64($a) >= ew::wasm::f64($b)"
        I32Clz A W32: "ew::wasm::clz($a)"
        I32Ctz A W32: "ew::wasm::ctz($a)"
        I32Popcnt A W32: "ew::wasm::popcnt($a)"
        I32Add AA W32: "$a + $b"
        I32Sub AA W32: "$a - $b"
        I32Mul AA W32: "$a * $b"
        I32DivS AA W32 traps: "ew::wasm::div_s<u32, int>($a, $b, g.trap)"
        I32DivU AA W32 traps: "ew::wasm::div_u<u32>($a, $b, g.trap)"
        I32RemS AA W32 traps: "ew::wasm::rem_s<u32, int>($a, $b, g.trap)"
        I32RemU AA W32 traps: "ew::wasm::rem_u<u32>($a, $b, g.trap)"
        I32And AA W32: "$a & $b"
        I32Or AA W32: "$a | $b"
        I32Xor AA W32: "$a ^ $b"
        I32Shl AA W32: "$a << ($b & 31)"
        I32ShrS AA W32: "(u32)((int)$a >> ($b & 31))"
        I32ShrU AA W32: "$a >> ($b & 31)"
        I32Rotl AA W32: "$a << ($b & 31) | $a >> (32 - $b & 31)"
        I32Rotr AA W32: "$a >> ($b & 31) | $a << (32 - $b & 31)"
        I64Clz B W64: "ew::wasm::clz($a)"
        I64Ctz B W64: "ew::wasm::ctz($a)"
        I64Popcnt B W64: "ew::wasm::popcnt($a)"
        I64Add BB W64: "$a + $b"
        I64Sub BB W64: "$a - $b"
        I64Mul BB W64: "$a * $b"
        I64DivS BB W64 traps: "ew::wasm::div_s<u64, long long>($a, $b, g.trap)"
        I64DivU BB W64 traps: "ew::wasm::div_u<u64>($a, $b, g.trap)"
        I64RemS BB W64 traps: "ew::wasm::rem_s<u64, long long>($a, $b, g.trap)"
        I64RemU BB W64 traps: "ew::wasm::rem_u<u64>($a, $b, g.trap)"
        I64And BB W64: "$a & $b"
        I64Or BB W64: "$a | $b"
        I64Xor BB W64: "$a ^ $b"
        I64Shl BB W64: "$a << ($b & 63)"
        I64ShrS BB W64: "(u64)((long long)$a >> ($b & 63))"
        I64ShrU BB W64: "$a >> ($b & 63)"
        I64Rotl BB W64: "$a << ($b & 63) | $a >> (64 - $b & 63)"
        I64Rotr BB W64: "$a >> ($b & 63) | $a << (64 - $b & 63)"
        F32Abs A W32: "$a & 0x7fffffffu"
        F32Neg A W32: "$a ^ 0x80000000u"
        F32Ceil A W32: "ew::wasm::bits(ew::wasm::up(ew::wasm::f32($a)))"
        F32Floor A W32: "ew::wasm::bits(ew::wasm::down(ew::wasm::f32($a)))"
        F32Trunc A W32: "ew::wasm::bits(ew::wasm::chop(ew::wasm::f32($a)))"
        F32Nearest A W32: "ew::wasm::bits(ew::wasm::even(ew::wasm::f32($a)))"
        F32Sqrt A W32: "ew::wasm::bits(ew::wasm::root(ew::wasm::f32($a)))"
        F32Add AA W32: "ew::wasm::bits(ew::wasm::add(ew::wasm::f32($a), ew::wasm::f32($b)))"
        F32Sub AA W32: "ew::wasm::bits(ew::wasm::sub(ew::wasm::f32($a), ew::wasm::f32($b)))"
        F32Mul AA W32: "ew::wasm::bits(ew::wasm::mul(ew::wasm::f32($a), ew::wasm::f32($b)))"
        F32Div AA W32: "ew::wasm::bits(ew::wasm::div(ew::wasm::f32($a), ew::wasm::f32($b)))"
        F32Min AA W32: "ew::wasm::least(ew::wasm::f32($a), ew::wasm::f32($b))"
        F32Max AA W32: "ew::wasm::greatest(ew::wasm::f32($a), ew::wasm::f32($b))"
        F32Copysign AA W32: "($a & 0x7fffffffu) | ($b & 0x80000000u)"
        F64Abs B W64: "$a & 0x7fffffffffffffffull"
        F64Neg B W64: "$a ^ 0x8000000000000000ull"
        F64Ceil B W64: "ew::wasm::bits(ew::wasm::up(ew::wasm::f64($a)))"
        F64Floor B W64: "ew::wasm::bits(ew::wasm::down(ew::wasm::f64($a)))"
        F64Trunc B W64: "ew::wasm::bits(ew::wasm::chop(ew::wasm::f64($a)))"
        F64Nearest B W64: "ew::wasm::bits(ew::wasm::even(ew::wasm::f64($a)))"
        F64Sqrt B W64: "ew::wasm::bits(ew::wasm::root(ew::wasm::f64($a)))"
        F64Add BB W64: "ew::wasm::bits(ew::wasm::add(ew::wasm::f64($a), ew::wasm::f64($b)))"
        F64Sub BB W64: "ew::wasm::bits(ew::wasm::sub(ew::wasm::f64($a), ew::wasm::f64($b)))"
        F64Mul BB W64: "ew::wasm::bits(ew::wasm::mul(ew::wasm::f64($a), ew::wasm::f64($b)))"
        F64Div BB W64: "ew::wasm::bits(ew::wasm::div(ew::wasm::f64($a), ew::wasm::f64($b)))"
        F64Min BB W64: "ew::wasm::least(ew::wasm::f64($a), ew::wasm::f64($b))"
        F64Max BB W64: "ew::wasm::greatest(ew::wasm::f64($a), ew::wasm::f64($b))"
        F64Copysign BB W64: "($a & 0x7fffffffffffffffull) | ($b & 0x8000000000000000ull)"
        I32WrapI64 B W32: "(u32)$a"
        I32TruncF32S A W32 traps: "ew::wasm::i32_of_f32($a, g.trap)"
        I32TruncF32U A W32 traps: "ew::wasm::u32_of_f32($a, g.trap)"
        I32TruncF64S B W32 traps: "ew::wasm::i32_of_f64($a, g.trap)"
        I32TruncF64U B W32 traps: "ew::wasm::u32_of_f64($a, g.trap)"
        I64ExtendI32S A W64: "(u64)(long long)(int)$a"
        I64ExtendI32U A W64: "(u64)$a"
        I64TruncF32S A W64 traps: "ew::wasm::i64_of_f32($a, g.trap)"
        I64TruncF32U A W64 traps: "ew::wasm::u64_of_f32($a, g.trap)"
        I64TruncF64S B W64 traps: "ew::wasm::i64_of_f64($a, g.trap)"
        I64TruncF64U B W64 traps: "ew::wasm::u64_of_f64($a, g.trap)"
        F32ConvertI32S A W32: "ew::wasm::f32_of_i32($a)"
        F32ConvertI32U A W32: "ew::wasm::f32_of_u32($a)"
        F32ConvertI64S B W32: "ew::wasm::f32_of_i64($a)"
        F32ConvertI64U B W32: "ew::wasm::f32_of_u64($a)"
        F32DemoteF64 B W32: "ew::wasm::demote($a)"
        F64ConvertI32S A W64: "ew::wasm::f64_of_i32($a)"
        F64ConvertI32U A W64: "ew::wasm::f64_of_u32($a)"
        F64ConvertI64S B W64: "ew::wasm::f64_of_i64($a)"
        F64ConvertI64U B W64: "ew::wasm::f64_of_u64($a)"
        F64PromoteF32 A W64: "ew::wasm::promote($a)"
        I32ReinterpretF32 A W32: "$a"
        I64ReinterpretF64 B W64: "$a"
        F32ReinterpretI32 A W32: "$a"
        F64ReinterpretI64 B W64: "$a"
        I32Extend8S A W32: "(u32)(int)(signed char)$a"
        I32Extend16S A W32: "(u32)(int)(short)$a"
        I64Extend8S B W64: "(u64)(long long)(signed char)$a"
        I64Extend16S B W64: "(u64)(long long)(short)$a"
        I64Extend32S B W64: "(u64)(long long)(int)$a"
        I32TruncSatF32S A W32: "ew::wasm::i32_sat_f32($a)"
        I32TruncSatF32U A W32: "ew::wasm::u32_sat_f32($a)"
        I32TruncSatF64S B W32: "ew::wasm::i32_sat_f64($a)"
        I32TruncSatF64U B W32: "ew::wasm::u32_sat_f64($a)"
        I64TruncSatF32S A W64: "ew::wasm::i64_sat_f32($a)"
        I64TruncSatF32U A W64: "ew::wasm::u64_sat_f32($a)"
        I64TruncSatF64S B W64: "ew::wasm::i64_sat_f64($a)"
        I64TruncSatF64U B W64: "ew::wasm::u64_sat_f64($a)"
    })
}
