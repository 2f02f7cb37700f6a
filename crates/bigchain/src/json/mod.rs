//! JSON as BigchainDB's Python reads and writes it: integers of any size kept apart from floats, members in the order
//! they came, and two ways to write.
//!
//! [`canonical`] is what is hashed. [`default_text`] is what the original hands to Tendermint.

mod parse;
mod write;

use std::borrow::Cow;
use std::collections::HashMap;

pub use parse::{MAX_BYTES, MAX_DEPTH, parse};
pub(crate) use write::{Style, write_items, write_members, write_object, write_value, written};
pub use write::{canonical, default_text};

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number written without fraction and exponent.
    Integer(Integer),
    /// A number written with fraction or exponent; also `NaN` and the infinities, which the
    /// original reads and writes.
    Float(f64),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Self>),
    /// An object.
    Object(Object),
}

/// An integer of any size.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Integer {
    /// One that fits 64 bits with sign.
    Small(i64),
    /// The decimal text of a larger one, without leading zeros.
    Big(Box<str>),
}

/// An object: members in the order they came, each key once, the last value of a key wins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    members: Vec<Member>,
}

impl Value {
    /// The member of an object, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object().and_then(|object| object.get(key))
    }

    /// The object, if it is one.
    pub const fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The items, if it is an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is `null`.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The number, if it is an integer that fits 64 bits with sign.
    pub const fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Integer(Integer::Small(number)) => Some(*number),
            _ => None,
        }
    }

    /// The number, if it is an integer that fits 64 bits without sign.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Integer(Integer::Small(number)) => u64::try_from(*number).ok(),
            Self::Integer(Integer::Big(digits)) => digits.parse().ok(),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(Integer::Small(number))
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl From<Option<Object>> for Value {
    fn from(object: Option<Object>) -> Self {
        object.map_or(Self::Null, Self::Object)
    }
}

impl Object {
    /// An object without members.
    pub const fn new() -> Self {
        Self {
            members: Vec::new(),
        }
    }

    /// The value of a key. The search is linear: meant for the few fields of a transaction.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.members
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// Sets a key; a key that is there keeps its place. The search is linear.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key_of(Cow::Owned(key.into())), value.into());
        match self.members.iter_mut().find(|(name, _)| *name == key) {
            Some(member) => member.1 = value,
            None => self.members.push((key, value)),
        }
    }

    /// The same object with one more member.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.insert(key, value);
        self
    }

    /// The members in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.members
            .iter()
            .map(|(key, value)| (key.as_ref(), value))
    }

    /// How many members there are.
    pub const fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no member.
    pub const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.members
            .iter_mut()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }
}

impl FromIterator<(String, Value)> for Object {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(members: I) -> Self {
        let members = members.into_iter();
        object_of(
            members
                .map(|(key, value)| (key_of(Cow::Owned(key)), value))
                .collect(),
        )
    }
}

/// A name; those of a transaction's fields take no memory of their own.
pub(crate) type Key = Cow<'static, str>;

/// A name and its value.
pub(crate) type Member = (Key, Value);

/// The key of a text.
fn key_of(text: Cow<'_, str>) -> Key {
    match field(&text) {
        Some(field) => Cow::Borrowed(field),
        None => Cow::Owned(text.into_owned()),
    }
}

/// The text itself, if it is one of these names.
macro_rules! one_of {
    ($text:expr, $($name:literal)*) => {
        match $text {
            $($name => Some($name),)*
            _ => None,
        }
    };
}

/// The fields of a transaction: most of the keys that ever come.
fn field(text: &str) -> Option<&'static str> {
    one_of!(text,
        "_" "amount" "asset" "condition" "data" "details" "fulfillment" "fulfills" "id" "inputs"
        "metadata" "operation" "output_index" "outputs" "owners_before" "public_key" "public_keys"
        "subconditions" "threshold" "transaction_id" "type" "uri" "version")
}

/// Past this many members, looking for repeated keys goes through a table: a body of a hundred
/// thousand keys must not cost the square of it.
const FEW_MEMBERS: usize = 16;

/// An object of members as read: the last value of a key wins and stands where the key first was.
fn object_of(mut members: Vec<Member>) -> Object {
    if members.len() <= FEW_MEMBERS {
        let mut next = 1;
        while next < members.len() {
            let first = members[..next]
                .iter()
                .position(|(key, _)| *key == members[next].0);
            match first {
                Some(first) => members[first].1 = members.remove(next).1,
                None => next += 1,
            }
        }
        return Object { members };
    }
    let mut places: HashMap<Key, usize> = HashMap::with_capacity(members.len());
    let mut kept: Vec<Member> = Vec::with_capacity(members.len());
    for (key, value) in members {
        if let Some(&place) = places.get(&key) {
            kept[place].1 = value;
        } else {
            places.insert(key.clone(), kept.len());
            kept.push((key, value));
        }
    }
    Object { members: kept }
}
