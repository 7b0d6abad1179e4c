//! Messages by name, with fields that have names and types: for kinds that become known only at run time.

use std::borrow::Cow;
use std::fmt;

use crate::error::ActorError;
use crate::id::ActorId;
use crate::message::{MAX_ASK_WORDS, MAX_WORDS};

/// The type of a field. Every field takes one word of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A number of 32 bits with a sign.
    I32,
    /// A number of 32 bits without a sign.
    U32,
    /// A number of 64 bits with a sign.
    I64,
    /// A number of 64 bits without a sign.
    U64,
    /// A binary fraction of 32 bits.
    F32,
    /// A binary fraction of 64 bits.
    F64,
    /// 0 or 1.
    Bool,
    /// The id of an actor.
    Actor,
}

impl FieldType {
    /// All types.
    pub const ALL: [Self; 8] = [
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F32,
        Self::F64,
        Self::Bool,
        Self::Actor,
    ];
    /// The name, as a module's description has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Bool => "bool",
            Self::Actor => "actor",
        }
    }
    /// The type with this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.name() == name)
    }
    /// The value that a word stands for.
    pub fn value(self, word: u64) -> Value {
        match self {
            Self::I32 => Value::I32(word as i32),
            Self::U32 => Value::U32(word as u32),
            Self::I64 => Value::I64(word as i64),
            Self::U64 => Value::U64(word),
            Self::F32 => Value::F32(f32::from_bits(word as u32)),
            Self::F64 => Value::F64(f64::from_bits(word)),
            Self::Bool => Value::Bool(word as u32 != 0),
            Self::Actor => Value::Actor(ActorId::from_bits(word)),
        }
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// See [`FieldType::I32`].
    I32(i32),
    /// See [`FieldType::U32`].
    U32(u32),
    /// See [`FieldType::I64`].
    I64(i64),
    /// See [`FieldType::U64`].
    U64(u64),
    /// See [`FieldType::F32`].
    F32(f32),
    /// See [`FieldType::F64`].
    F64(f64),
    /// See [`FieldType::Bool`].
    Bool(bool),
    /// See [`FieldType::Actor`].
    Actor(ActorId),
}

impl Value {
    /// Its type.
    pub const fn ty(self) -> FieldType {
        match self {
            Self::I32(_) => FieldType::I32,
            Self::U32(_) => FieldType::U32,
            Self::I64(_) => FieldType::I64,
            Self::U64(_) => FieldType::U64,
            Self::F32(_) => FieldType::F32,
            Self::F64(_) => FieldType::F64,
            Self::Bool(_) => FieldType::Bool,
            Self::Actor(_) => FieldType::Actor,
        }
    }
    /// The word that stands for it in a message. Narrow values have zeros in their upper half.
    pub const fn word(self) -> u64 {
        match self {
            Self::I32(n) => n as u32 as u64,
            Self::U32(n) => n as u64,
            Self::I64(n) => n as u64,
            Self::U64(n) => n,
            Self::F32(x) => x.to_bits() as u64,
            Self::F64(x) => x.to_bits(),
            Self::Bool(b) => b as u64,
            Self::Actor(id) => id.bits(),
        }
    }
}

/// A field of a message or of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its type.
    pub ty: FieldType,
}

/// A message that a kind handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageType {
    /// Its name. In one program it stands for the same tag, fields and reply in all kinds.
    pub name: Cow<'static, str>,
    /// Its tag.
    pub tag: u8,
    /// Its fields: up to [`MAX_WORDS`], and up to [`MAX_ASK_WORDS`] if it has a reply.
    pub fields: Cow<'static, [Field]>,
    /// The fields of its reply, up to [`MAX_ASK_WORDS`]; none for a message that has no reply.
    pub reply: Cow<'static, [Field]>,
}

/// Fields as a signature shows them.
struct Listed<'f>(&'f [Field]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, field) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {}", field.name, field.ty)?;
        }
        Ok(())
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name, Listed(&self.fields))?;
        match &*self.reply {
            [] => Ok(()),
            reply => write!(f, " -> ({})", Listed(reply)),
        }
    }
}

impl MessageType {
    /// Whether a message can have this number of fields, and its reply that number.
    pub const fn fits(fields: usize, reply: usize) -> bool {
        let most = if reply == 0 { MAX_WORDS } else { MAX_ASK_WORDS };
        fields <= most && reply <= MAX_ASK_WORDS
    }
    /// The words of a message with these values, which are in the order of the fields.
    ///
    /// # Errors
    /// [`ActorError::WrongFields`]: the values have other types than the fields, or there are more or fewer.
    pub fn words(&self, values: &[Value]) -> Result<Vec<u64>, ActorError> {
        let types = self.fields.iter().map(|field| field.ty);
        if !types.eq(values.iter().map(|value| value.ty())) {
            let given: Vec<_> = values.iter().map(|value| value.ty().name()).collect();
            return Err(ActorError::WrongFields {
                message: self.to_string(),
                given: given.join(", "),
            });
        }
        Ok(values.iter().map(|value| value.word()).collect())
    }
    /// The values of a reply.
    pub fn reply_values(&self, words: &[u64]) -> Vec<Value> {
        let word = |i: usize| words.get(i).copied().unwrap_or(0);
        let fields = self.reply.iter().enumerate();
        fields.map(|(i, field)| field.ty.value(word(i))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &'static str, ty: FieldType) -> Field {
        let name = name.into();
        Field { name, ty }
    }

    #[test]
    fn every_value_comes_back_from_its_word() {
        for value in [
            Value::I32(-3),
            Value::U32(u32::MAX),
            Value::I64(i64::MIN),
            Value::U64(u64::MAX),
            Value::F32(-1.5),
            Value::F64(1e300),
            Value::Bool(true),
            Value::Actor(ActorId::from_bits(77)),
        ] {
            assert_eq!(value.ty().value(value.word()), value);
            assert_eq!(FieldType::of(value.ty().name()), Some(value.ty()));
        }
        assert_eq!(Value::I32(-1).word(), 0xffff_ffff, "zeros above");
    }

    #[test]
    fn values_of_other_types_are_refused_with_the_signature() {
        let pay = MessageType {
            name: "pay".into(),
            tag: 1,
            fields: vec![
                field("to", FieldType::Actor),
                field("amount", FieldType::U64),
            ]
            .into(),
            reply: vec![field("left", FieldType::F64)].into(),
        };
        assert_eq!(
            pay.to_string(),
            "pay(to: actor, amount: u64) -> (left: f64)"
        );
        let good = [Value::Actor(ActorId::from_bits(5)), Value::U64(9)];
        assert_eq!(pay.words(&good).expect("right"), [5, 9]);
        for bad in [&good[..1], &[good[1], good[0]]] {
            let error = pay.words(bad).expect_err("wrong").to_string();
            assert!(error.contains("pay(to: actor, amount: u64)"), "{error}");
        }
        assert_eq!(pay.reply_values(&[2.5_f64.to_bits()]), [Value::F64(2.5)]);
    }
}
