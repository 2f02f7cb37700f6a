//! What is hashed: the body with some fields set to null.

use sha3::{Digest, Sha3_256};

use super::{Id, Link};
use crate::json::{Object, Style, Value, sorted_members, write_string, write_value};

/// Which fields are null in the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Masked {
    /// The id: this text's hash is the id.
    Id,
    /// The id and every fulfillment: this text is signed.
    IdAndFulfillments,
}

/// The canonical text of a body with fields masked.
pub(super) fn masked_text(body: &Object, masked: Masked) -> String {
    let mut out = String::with_capacity(1024);
    write_sorted(body, &mut out, |name, value, out| match (name, masked) {
        ("id", _) => out.push_str("null"),
        ("inputs", Masked::IdAndFulfillments) => write_unsigned(value, out),
        _ => write_value(value, Style::Canonical, out),
    });
    out
}

fn write_unsigned(inputs: &Value, out: &mut String) {
    out.push('[');
    for (index, input) in inputs.as_array().unwrap_or_default().iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if let Some(input) = input.as_object() {
            write_sorted(input, out, |name, value, out| match name {
                "fulfillment" => out.push_str("null"),
                _ => write_value(value, Style::Canonical, out),
            });
        }
    }
    out.push(']');
}

fn write_sorted(object: &Object, out: &mut String, write: impl Fn(&str, &Value, &mut String)) {
    out.push('{');
    for (index, (name, value)) in sorted_members(object).into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(name, Style::Canonical, out);
        out.push(':');
        write(name, value, out);
    }
    out.push('}');
}

/// The id of a body.
pub(super) fn id_of(body: &Object) -> Id {
    Id(sha3(masked_text(body, Masked::Id).as_bytes()))
}

/// The digests that the inputs of a body sign, one for each link given.
pub(super) fn digests<'a>(
    body: &Object,
    links: impl Iterator<Item = Option<&'a Link>>,
) -> impl Iterator<Item = [u8; 32]> {
    let message = masked_text(body, Masked::IdAndFulfillments);
    let hasher = Sha3_256::new_with_prefix(message.as_bytes());
    links.map(move |link| {
        let hasher = hasher.clone();
        match link {
            None => hasher.finalize().into(),
            Some(link) => hasher
                .chain_update(&link.transaction_id)
                .chain_update(link.output_index.to_string())
                .finalize()
                .into(),
        }
    })
}

pub(crate) fn sha3(bytes: &[u8]) -> [u8; 32] {
    Sha3_256::digest(bytes).into()
}
