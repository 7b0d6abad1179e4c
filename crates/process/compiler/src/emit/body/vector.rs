//! Vectors: four registers of 32 bits, the lowest lanes in the first.
//!
//! An instruction on lanes of 32 or 64 bits is the scalar one for each lane, so that both agree to the last NaN.
//! Lanes of 8 and 16 bits are widened to 32, computed and packed again, where there is no shorter way to do all
//! lanes of a register at once. PTX has instructions for four bytes or two halves; on all GPUs of today they are
//! emulated, so what is written out here costs no more.

use super::kinds::{AddKind, Equality, Half, Signedness};
use crate::emit::body::{Body, Place};
use crate::facts::types::ValueType;
use crate::facts::types::ValueType::{F32, F64, I32, I64, V128};
use crate::text::{Operand, Reg, line};

/// How a vector is divided. Lanes of 8 and 16 bits are widened with their sign or without.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    I8(Signedness),
    I16(Signedness),
    I32,
    I64,
    F32,
    F64,
}

impl Shape {
    pub(super) const U8: Self = Self::I8(Signedness::Unsigned);
    pub(super) const S8: Self = Self::I8(Signedness::Signed);
    pub(super) const U16: Self = Self::I16(Signedness::Unsigned);
    pub(super) const S16: Self = Self::I16(Signedness::Signed);

    pub(super) const fn lanes(self) -> usize {
        16 / self.bytes()
    }

    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::I8(_) => 1,
            Self::I16(_) => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// The type of a lane on the operand stack.
    pub(super) const fn ty(self) -> ValueType {
        match self {
            Self::I8(_) | Self::I16(_) | Self::I32 => I32,
            Self::I64 => I64,
            Self::F32 => F32,
            Self::F64 => F64,
        }
    }
}

impl Half {
    /// The first lane of this half, counted in lanes of twice the size.
    const fn first_lane(self, wide: Shape) -> usize {
        match self {
            Self::Low => 0,
            Self::High => wide.lanes(),
        }
    }
}

/// A vector's registers.
pub(super) type Words = [Reg; 4];

impl Body<'_> {
    /// Pops a vector.
    pub(super) fn pop_vector(&mut self) -> Words {
        let mut words = [0; 4].map(|_| self.pop());
        words.reverse();
        words
    }

    pub(super) fn push_vector(&mut self, words: Words) {
        for word in words {
            self.push_place(V128, Place::Reg(word));
        }
    }

    pub(super) fn vector_constant(&mut self, bits: u128) {
        for word in 0..4 {
            let bits = (bits >> (32 * word)) as u32;
            self.push_place(V128, Place::Constant(bits.into()));
        }
    }

    /// An instruction of 32-bit registers.
    pub(super) fn word(&mut self, instruction: &str, args: &[Operand]) -> Reg {
        let reg = self.fresh(false);
        let args: Vec<_> = args.iter().map(Operand::to_string).collect();
        line!(self.text, "  {instruction} {reg}, {};", args.join(", "));
        reg
    }

    /// The same of two registers.
    pub(super) fn word2(&mut self, instruction: &str, a: Reg, b: Reg) -> Reg {
        self.word(instruction, &[Operand::Reg(a), Operand::Reg(b)])
    }

    /// The same of a register and a number.
    pub(super) fn word_number(&mut self, instruction: &str, a: Reg, number: u32) -> Reg {
        let number = Operand::Number(i64::from(number as i32));
        self.word(instruction, &[Operand::Reg(a), number])
    }

    /// Bytes of two registers in the order of the selector's digits: 0 to 3 of `a`, 4 to 7 of `b`.
    pub(super) fn permute(&mut self, a: Reg, b: Reg, selector: u32) -> Reg {
        let selector = Operand::Number(selector.into());
        self.word("prmt.b32", &[Operand::Reg(a), Operand::Reg(b), selector])
    }

    /// All bits of each byte as its highest.
    pub(super) fn spread_signs(&mut self, a: Reg) -> Reg {
        self.permute(a, a, 0xba98)
    }

    /// The 64 bits of two registers.
    pub(super) fn join_words(&mut self, low: Reg, high: Reg) -> Reg {
        let reg = self.fresh(true);
        line!(self.text, "  mov.b64 {reg}, {{{low}, {high}}};");
        reg
    }

    /// The two halves of 64 bits.
    pub(super) fn split_words(&mut self, wide: Reg) -> [Reg; 2] {
        let (low, high) = (self.fresh(false), self.fresh(false));
        line!(self.text, "  mov.b64 {{{low}, {high}}}, {wide};");
        [low, high]
    }

    /// A lane in a register of its own, widened.
    pub(super) fn lane(&mut self, shape: Shape, words: &Words, lane: usize) -> Reg {
        let at = lane * shape.bytes();
        let word = words[at / 4];
        match shape {
            Shape::I8(signedness) | Shape::I16(signedness) => {
                let name = format!("bfe.{}32", signedness.letter());
                let (from, bits) = (8 * (at % 4) as i64, 8 * shape.bytes() as i64);
                let args = [
                    Operand::Reg(word),
                    Operand::Number(from),
                    Operand::Number(bits),
                ];
                self.word(&name, &args)
            }
            Shape::I32 | Shape::F32 => word,
            Shape::I64 | Shape::F64 => self.join_words(word, words[at / 4 + 1]),
        }
    }

    /// Pushes a lane.
    pub(super) fn push_lane(&mut self, shape: Shape, words: &Words, lane: usize) {
        let reg = self.lane(shape, words, lane);
        self.push_place(shape.ty(), Place::Reg(reg));
    }

    /// Makes registers of lanes that belong there, which may be wider than they are in the vector.
    pub(super) fn pack(&mut self, shape: Shape, lanes: &[Reg]) -> Vec<Reg> {
        match shape.bytes() {
            1 => {
                let fours = lanes.as_chunks::<4>().0.iter();
                let packed = fours.map(|&[a, b, c, d]| {
                    let (low, high) = (self.permute(a, b, 0x0040), self.permute(c, d, 0x0040));
                    self.permute(low, high, 0x5410)
                });
                packed.collect()
            }
            2 => {
                let pairs = lanes.as_chunks::<2>().0.iter();
                let packed = pairs.map(|&[a, b]| self.permute(a, b, 0x5410));
                packed.collect()
            }
            4 => lanes.to_vec(),
            _ => {
                let halves = lanes.iter().map(|&lane| self.split_words(lane));
                halves.flatten().collect()
            }
        }
    }

    /// Pushes a vector of lanes.
    pub(super) fn push_packed(&mut self, shape: Shape, lanes: &[Reg]) {
        let words = self.pack(shape, lanes);
        for word in words {
            self.push_place(V128, Place::Reg(word));
        }
    }

    /// Does the same for each lane of the top vectors: `operation` takes a lane of each from the stack, and leaves
    /// one of the second shape there.
    pub(super) fn lanewise(
        &mut self,
        from: Shape,
        vectors: usize,
        to: Shape,
        mut operation: impl FnMut(&mut Self),
    ) {
        let mut operands: Vec<Words> = (0..vectors).map(|_| self.pop_vector()).collect();
        operands.reverse();
        let mut lanes = Vec::new();
        for lane in 0..from.lanes() {
            for words in &operands {
                self.push_lane(from, words, lane);
            }
            operation(self);
            lanes.push(self.pop());
        }
        self.push_packed(to, &lanes);
    }

    /// Two operands, one instruction for each lane.
    pub(super) fn lanes2(&mut self, shape: Shape, instruction: &str) {
        let ty = shape.ty();
        self.lanewise(shape, 2, shape, |body| body.binary(instruction, ty));
    }

    /// One instruction for each of the four registers of two operands.
    pub(super) fn words2(&mut self, instruction: &str) {
        let (b, a) = (self.pop_vector(), self.pop_vector());
        let words = [0, 1, 2, 3].map(|i| self.word2(instruction, a[i], b[i]));
        self.push_vector(words);
    }

    /// Lanes that are all ones where the comparison holds, else zero.
    pub(super) fn compare_lanes(&mut self, shape: Shape, comparison: &str) {
        let (b, a) = (self.pop_vector(), self.pop_vector());
        let mut lanes = Vec::new();
        for lane in 0..shape.lanes() {
            self.push_lane(shape, &a, lane);
            self.push_lane(shape, &b, lane);
            self.compare(comparison);
            let pred = self.pop_test();
            let reg = self.fresh(false);
            line!(self.text, "  selp.b32 {reg}, -1, 0, {pred};");
            lanes.push(reg);
            if shape.bytes() == 8 {
                lanes.push(reg);
            }
        }
        let halves = if shape.bytes() == 8 {
            Shape::I32
        } else {
            shape
        };
        self.push_packed(halves, &lanes);
    }

    /// Bytes or halves that are equal: without widening them.
    pub(super) fn equal_lanes(&mut self, shape: Shape, equality: Equality) {
        let (b, a) = (self.pop_vector(), self.pop_vector());
        let (rest, signs) = match shape.bytes() {
            1 => (0x7f7f_7f7f, 0xba98),
            _ => (0x7fff_7fff, 0xbb99),
        };
        let words = [0, 1, 2, 3].map(|i| {
            // The highest bit of a lane gets set if any bit of it is.
            let differ = self.word2("xor.b32", a[i], b[i]);
            let low = self.word_number("and.b32", differ, rest);
            let carried = self.word_number("add.s32", low, rest);
            let mut any = self.word2("or.b32", carried, differ);
            if equality == Equality::Equal {
                any = self.word_number("xor.b32", any, u32::MAX);
            }
            self.permute(any, any, signs)
        });
        self.push_vector(words);
    }

    /// Sums or differences of bytes or halves, without a carry from one to the next.
    pub(super) fn add_lanes(&mut self, shape: Shape, kind: AddKind) {
        let (b, a) = (self.pop_vector(), self.pop_vector());
        let (rest, signs) = match shape.bytes() {
            1 => (0x7f7f_7f7f, 0x8080_8080),
            _ => (0x7fff_7fff, 0x8000_8000),
        };
        let words = [0, 1, 2, 3].map(|i| {
            let differ = self.word2("xor.b32", a[i], b[i]);
            let mut top = self.word_number("and.b32", differ, signs);
            let low = self.word_number("and.b32", b[i], rest);
            let sum = if kind == AddKind::Subtract {
                top = self.word_number("xor.b32", top, signs);
                let high = self.word_number("or.b32", a[i], signs);
                self.word2("sub.s32", high, low)
            } else {
                let other = self.word_number("and.b32", a[i], rest);
                self.word2("add.s32", other, low)
            };
            self.word2("xor.b32", sum, top)
        });
        self.push_vector(words);
    }

    /// Shifts all lanes; the count wraps at their size.
    pub(super) fn shift_lanes(&mut self, shape: Shape, instruction: &str) {
        let count = self.pop();
        let bits = 8 * shape.bytes() as u32;
        let count = self.word_number("and.b32", count, bits - 1);
        let ty = shape.ty();
        self.lanewise(shape, 1, shape, |body| {
            body.push_place(I32, Place::Reg(count));
            body.binary(instruction, ty);
        });
    }

    pub(super) fn negate_lanes(&mut self, shape: Shape) {
        self.lanewise(shape, 1, shape, Self::negate);
    }

    fn negate(&mut self) {
        let a = self.pop();
        let reg = self.push(if a.wide { I64 } else { I32 });
        let ty = if a.wide { "s64" } else { "s32" };
        line!(self.text, "  sub.{ty} {reg}, 0, {a};");
    }

    /// By the sign, spread over all bits. As the larger of a number and its negative it would be as short, but in a
    /// maximum of three numbers, one of them the negative of another, ptxas (of driver 580, for sm_90) drops the negative.
    pub(super) fn absolute_lanes(&mut self, shape: Shape) {
        let ty = shape.ty();
        let (bits, last) = if ty == I64 { (64, 63) } else { (32, 31) };
        self.lanewise(shape, 1, shape, |body| {
            let a = body.pop();
            let (sign, other) = (body.fresh(a.wide), body.fresh(a.wide));
            let reg = body.push(ty);
            line!(body.text, "  shr.s{bits} {sign}, {a}, {last};");
            line!(body.text, "  xor.b{bits} {other}, {a}, {sign};");
            line!(body.text, "  sub.s{bits} {reg}, {other}, {sign};");
        });
    }

    /// Arithmetic on widened lanes, whose result stays between two numbers.
    pub(super) fn saturating(&mut self, shape: Shape, instruction: &str) {
        let (least, most) = range(shape);
        self.lanewise(shape, 2, shape, |body| {
            body.binary(instruction, I32);
            body.clamp(least, most);
        });
    }

    fn clamp(&mut self, least: i32, most: i32) {
        self.constant(I32, u64::from(least as u32));
        self.binary("max.s32", I32);
        self.constant(I32, u64::from(most as u32));
        self.binary("min.s32", I32);
    }

    /// The mean, rounded up.
    pub(super) fn average(&mut self, shape: Shape) {
        self.lanewise(shape, 2, shape, |body| {
            body.binary("add.s32", I32);
            body.constant(I32, 1);
            body.binary("add.s32", I32);
            body.constant(I32, 1);
            body.binary("shr.u32", I32);
        });
    }

    /// `i16x8.q15mulr_sat_s`: the rounded product of fractions.
    pub(super) fn multiply_fractions(&mut self) {
        let shape = Shape::S16;
        self.lanewise(shape, 2, shape, |body| {
            body.binary("mul.lo.s32", I32);
            body.constant(I32, 0x4000);
            body.binary("add.s32", I32);
            body.constant(I32, 15);
            body.binary("shr.s32", I32);
            // Of two times -1 alone the product is too large.
            body.constant(I32, 0x7fff);
            body.binary("min.s32", I32);
        });
    }

    /// Lanes of two vectors, half as wide: clamped to what fits.
    pub(super) fn narrow(&mut self, from: Shape, to: Shape) {
        let (b, a) = (self.pop_vector(), self.pop_vector());
        let (least, most) = range(to);
        let mut lanes = Vec::new();
        for words in [a, b] {
            for lane in 0..from.lanes() {
                self.push_lane(from, &words, lane);
                self.clamp(least, most);
                lanes.push(self.pop());
            }
        }
        self.push_packed(to, &lanes);
    }

    /// The lanes of one half, twice as wide.
    fn widened(&mut self, from: Shape, signedness: Signedness, words: &Words, lane: usize) {
        self.push_lane(from, words, lane);
        if from.bytes() == 4 {
            let letter = signedness.letter();
            self.unary(&format!("cvt.{letter}64.{letter}32"), I64);
        }
    }

    /// Lanes of the lower or upper half, as lanes of twice the size.
    pub(super) fn extend(&mut self, from: Shape, to: Shape, signedness: Signedness, half: Half) {
        let words = self.pop_vector();
        let first = half.first_lane(to);
        let mut lanes = Vec::new();
        for lane in first..first + to.lanes() {
            self.widened(from, signedness, &words, lane);
            lanes.push(self.pop());
        }
        self.push_packed(to, &lanes);
    }

    /// Products of the lanes of both lower or upper halves, as lanes of twice the size.
    pub(super) fn extended_product(
        &mut self,
        from: Shape,
        to: Shape,
        signedness: Signedness,
        half: Half,
    ) {
        let (b, a) = (self.pop_vector(), self.pop_vector());
        let first = half.first_lane(to);
        let instruction = match (from.bytes(), signedness) {
            (4, Signedness::Signed) => "mul.wide.s32",
            (4, Signedness::Unsigned) => "mul.wide.u32",
            _ => "mul.lo.s32",
        };
        let mut lanes = Vec::new();
        for lane in first..first + to.lanes() {
            self.push_lane(from, &a, lane);
            self.push_lane(from, &b, lane);
            self.binary(instruction, to.ty());
            lanes.push(self.pop());
        }
        self.push_packed(to, &lanes);
    }

    /// Sums of neighbours, as lanes of twice the size.
    pub(super) fn pairwise_sum(&mut self, from: Shape, to: Shape) {
        let a = self.pop_vector();
        let mut lanes = Vec::new();
        for lane in 0..to.lanes() {
            self.push_lane(from, &a, 2 * lane);
            self.push_lane(from, &a, 2 * lane + 1);
            self.binary("add.s32", I32);
            lanes.push(self.pop());
        }
        self.push_packed(to, &lanes);
    }

    /// `i32x4.dot_i16x8_s`.
    pub(super) fn dot(&mut self) {
        let (b, a) = (self.pop_vector(), self.pop_vector());
        let mut lanes = Vec::new();
        for lane in 0..4 {
            for neighbour in [2 * lane, 2 * lane + 1] {
                self.push_lane(Shape::S16, &a, neighbour);
                self.push_lane(Shape::S16, &b, neighbour);
                self.binary("mul.lo.s32", I32);
            }
            self.binary("add.s32", I32);
            lanes.push(self.pop());
        }
        self.push_packed(Shape::I32, &lanes);
    }

    /// 1 if no lane is zero.
    pub(super) fn all_true(&mut self, shape: Shape) {
        let words = self.pop_vector();
        let ty = if shape.bytes() == 8 { "s64" } else { "s32" };
        let mut all = None;
        for lane in 0..shape.lanes() {
            let reg = self.lane(shape, &words, lane);
            let pred = self.fresh_pred();
            match all {
                None => line!(self.text, "  setp.ne.{ty} {pred}, {reg}, 0;"),
                Some(all) => line!(self.text, "  setp.ne.and.{ty} {pred}, {reg}, 0, {all};"),
            }
            all = Some(pred);
        }
        self.push_test(all.expect("there are lanes"));
    }

    pub(super) fn any_true(&mut self) {
        let [a, b, c, d] = self.pop_vector();
        let (low, high) = (self.word2("or.b32", a, b), self.word2("or.b32", c, d));
        let all = self.word2("or.b32", low, high);
        let pred = self.fresh_pred();
        line!(self.text, "  setp.ne.s32 {pred}, {all}, 0;");
        self.push_test(pred);
    }

    /// The highest bits of all lanes.
    pub(super) fn bitmask(&mut self, shape: Shape) {
        let words = self.pop_vector();
        let mut parts = Vec::new();
        match shape.bytes() {
            1 => {
                for word in words {
                    // Four bits that are eight apart, multiplied so that they become neighbours.
                    let bits = self.word_number("shr.u32", word, 7);
                    let bits = self.word_number("and.b32", bits, 0x0101_0101);
                    let bits = self.word_number("mul.lo.s32", bits, 0x0102_0408);
                    parts.push((self.word_number("shr.u32", bits, 24), 4));
                }
            }
            2 => {
                for word in words {
                    let bits = self.word_number("shr.u32", word, 15);
                    let bits = self.word_number("and.b32", bits, 0x0001_0001);
                    let high = self.word_number("shr.u32", bits, 15);
                    let both = self.word2("or.b32", bits, high);
                    parts.push((self.word_number("and.b32", both, 3), 2));
                }
            }
            4 => {
                for word in words {
                    parts.push((self.word_number("shr.u32", word, 31), 1));
                }
            }
            _ => {
                for word in [words[1], words[3]] {
                    parts.push((self.word_number("shr.u32", word, 31), 1));
                }
            }
        }
        let mut mask = parts[0].0;
        let mut at = parts[0].1;
        for &(bits, count) in &parts[1..] {
            let shifted = self.word_number("shl.b32", bits, at);
            mask = self.word2("or.b32", mask, shifted);
            at += count;
        }
        self.push_place(I32, Place::Reg(mask));
    }

    /// The smaller or larger of two numbers by one comparison: the first, unless it holds for the second.
    pub(super) fn pseudo_extreme(&mut self, shape: Shape, comparison: &str) {
        let f = if shape == Shape::F64 { "f64" } else { "f32" };
        self.lanewise(shape, 2, shape, |body| {
            let (b, a) = (body.pop(), body.pop());
            let pred = body.fresh_pred();
            let reg = body.push(shape.ty());
            line!(body.text, "  setp.{comparison}.{f} {pred}, {b}, {a};");
            let bits = reg.bits();
            line!(body.text, "  selp.{bits} {reg}, {b}, {a}, {pred};");
        });
    }

    /// Converts the lower two lanes, and fills up with zeros where the lanes have become half as long.
    pub(super) fn convert_low(&mut self, from: Shape, to: Shape, operation: impl Fn(&mut Self)) {
        let words = self.pop_vector();
        let mut lanes = Vec::new();
        for lane in 0..2 {
            self.push_lane(from, &words, lane);
            operation(self);
            lanes.push(self.pop());
        }
        self.push_packed(to, &lanes);
        if to.bytes() == 4 {
            self.push_place(V128, Place::Constant(0));
            self.push_place(V128, Place::Constant(0));
        }
    }

    /// All lanes alike.
    pub(super) fn splat(&mut self, shape: Shape) {
        let entry = self.pop_entry();
        let reg = match self.operand(entry) {
            Operand::Reg(reg) => reg,
            Operand::Number(number) => {
                let bits = number as u64;
                let constant = match shape.bytes() {
                    1 => u128::from(bits as u8) * 0x0101_0101_0101_0101_0101_0101_0101_0101,
                    2 => u128::from(bits as u16) * 0x0001_0001_0001_0001_0001_0001_0001_0001,
                    4 => u128::from(bits as u32) * 0x0000_0001_0000_0001_0000_0001_0000_0001,
                    _ => u128::from(bits) * 0x0000_0000_0000_0001_0000_0000_0000_0001,
                };
                self.vector_constant(constant);
                return;
            }
        };
        let words = match shape.bytes() {
            1 => [self.permute(reg, reg, 0x0000); 4],
            2 => [self.permute(reg, reg, 0x1010); 4],
            4 => [reg; 4],
            _ => {
                let [low, high] = self.split_words(reg);
                [low, high, low, high]
            }
        };
        self.push_vector(words);
    }

    pub(super) fn extract_lane(&mut self, shape: Shape, lane: u8) {
        let words = self.pop_vector();
        self.push_lane(shape, &words, lane.into());
    }

    pub(super) fn replace_lane(&mut self, shape: Shape, lane: u8) {
        let value = self.pop();
        let words = self.pop_vector();
        self.push_replaced(shape, words, value, lane);
    }

    /// Pushes a vector with another lane.
    pub(super) fn push_replaced(&mut self, shape: Shape, mut words: Words, value: Reg, lane: u8) {
        let at = usize::from(lane) * shape.bytes();
        let word = &mut words[at / 4];
        match shape.bytes() {
            1 => {
                let selector = [0x3214, 0x3240, 0x3410, 0x4210][at % 4];
                *word = self.permute(*word, value, selector);
            }
            2 => {
                let selector = [0x3254, 0x5410][at % 4 / 2];
                *word = self.permute(*word, value, selector);
            }
            4 => *word = value,
            _ => {
                let halves = self.split_words(value);
                words[at / 4..at / 4 + 2].copy_from_slice(&halves);
            }
        }
        self.push_vector(words);
    }

    /// Of `b` the bits that are clear in the mask, of `a` the others.
    pub(super) fn bitselect(&mut self) {
        let (mask, b, a) = (self.pop_vector(), self.pop_vector(), self.pop_vector());
        let words = [0, 1, 2, 3].map(|i| self.select_bits(mask[i], a[i], b[i]));
        self.push_vector(words);
    }

    pub(super) fn select_bits(&mut self, mask: Reg, a: Reg, b: Reg) -> Reg {
        let differ = self.word2("xor.b32", a, b);
        let taken = self.word2("and.b32", differ, mask);
        self.word2("xor.b32", b, taken)
    }

    pub(super) fn vector_not(&mut self) {
        let words = self.pop_vector();
        let words = words.map(|word| self.word_number("xor.b32", word, u32::MAX));
        self.push_vector(words);
    }

    pub(super) fn and_not(&mut self) {
        self.vector_not();
        self.words2("and.b32");
    }

    /// Bytes of two vectors, by their numbers.
    pub(super) fn shuffle(&mut self, lanes: &[u8; 16]) {
        let (b, a) = (self.pop_vector(), self.pop_vector());
        let all = [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]];
        let mut words = Vec::new();
        for lanes in lanes.as_chunks::<4>().0 {
            words.push(self.shuffled(&all, *lanes));
        }
        for word in words {
            self.push_place(V128, Place::Reg(word));
        }
    }

    fn shuffled(&mut self, all: &[Reg; 8], lanes: [u8; 4]) -> Reg {
        let word = |lane: u8| usize::from(lane / 4);
        let first = word(lanes[0]);
        if lanes == [0, 1, 2, 3].map(|byte| 4 * first as u8 + byte) {
            return all[first];
        }
        // The digits that select these bytes from two registers.
        let digits = |low: usize, lanes: &[u8]| {
            let digit = |lane: &u8| u32::from(lane % 4) + if word(*lane) == low { 0 } else { 4 };
            lanes
                .iter()
                .rev()
                .fold(0, |all, lane| all << 4 | digit(lane))
        };
        let other = lanes.iter().map(|&lane| word(lane)).find(|&w| w != first);
        let other = other.unwrap_or(first);
        if lanes
            .iter()
            .all(|&lane| [first, other].contains(&word(lane)))
        {
            return self.permute(all[first], all[other], digits(first, &lanes));
        }
        let halves = [&lanes[..2], &lanes[2..]].map(|pair| {
            let (low, high) = (word(pair[0]), word(pair[1]));
            self.permute(all[low], all[high], digits(low, pair))
        });
        self.permute(halves[0], halves[1], 0x5410)
    }

    /// Bytes of a vector by the numbers in another one; 0 for what is not there.
    pub(super) fn swizzle(&mut self) {
        let (numbers, a) = (self.pop_vector(), self.pop_vector());
        let words = numbers.map(|number| {
            // The lower three bits of each byte, side by side as digits.
            let low = self.word_number("and.b32", number, 0x0707_0707);
            let next = self.word_number("shr.u32", low, 4);
            let pairs = self.word2("or.b32", low, next);
            let digits = self.permute(pairs, pairs, 0x2020);
            let of = |body: &mut Self, low: Reg, high: Reg| {
                let args = [low, high, digits].map(Operand::Reg);
                body.word("prmt.b32", &args)
            };
            let (first, second) = (of(self, a[0], a[1]), of(self, a[2], a[3]));
            let fourth_bit = self.word_number("shl.b32", number, 4);
            let in_second = self.spread_signs(fourth_bit);
            let found = self.select_bits(in_second, second, first);
            let beyond = self.word_number("and.b32", number, 0xf0f0_f0f0);
            let beyond = self.word_number("shr.u32", beyond, 4);
            let beyond = self.word_number("add.s32", beyond, 0x7f7f_7f7f);
            let beyond = self.spread_signs(beyond);
            let within = self.word_number("xor.b32", beyond, u32::MAX);
            self.word2("and.b32", found, within)
        });
        self.push_vector(words);
    }
}

/// The smallest and the largest number of a lane.
fn range(shape: Shape) -> (i32, i32) {
    match shape {
        Shape::S8 => (-0x80, 0x7f),
        Shape::U8 => (0, 0xff),
        Shape::S16 => (-0x8000, 0x7fff),
        _ => (0, 0xffff),
    }
}
