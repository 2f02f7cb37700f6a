//! Members of objects as they are read: names, and what becomes of names that come twice.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Object, Value};

/// A name; those of a transaction's fields take no memory of their own.
pub(crate) type Key = Cow<'static, str>;

/// A name and its value.
pub(crate) type Member = (Key, Value);

/// The key of a text.
pub(super) fn key_of(text: Cow<'_, str>) -> Key {
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
pub(super) fn object_of(mut members: Vec<Member>) -> Object {
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
