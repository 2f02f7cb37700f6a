//! What is hashed: the body with some fields set to null.

use sha3::{Digest, Sha3_256};

use super::{Id, Link};
use crate::json::{Object, Style, Value, write_items, write_members, write_value};

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
    write_members(
        body,
        Style::Canonical,
        &mut out,
        |name, value, out| match (name, value, masked) {
            ("id", ..) => out.push_str("null"),
            ("inputs", Value::Array(inputs), Masked::IdAndFulfillments) => {
                write_items(inputs, Style::Canonical, out, write_unsigned);
            }
            _ => write_value(value, Style::Canonical, out),
        },
    );
    out
}

fn write_unsigned(input: &Value, out: &mut String) {
    let Some(input) = input.as_object() else {
        return;
    };
    write_members(
        input,
        Style::Canonical,
        out,
        |name, value, out| match name {
            "fulfillment" => out.push_str("null"),
            _ => write_value(value, Style::Canonical, out),
        },
    );
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
    links.map(move |spent| digest(hasher.clone(), spent))
}

/// The digest that an input signs: of the unsigned body, and of the output that it spends.
pub(super) fn digest(body: Sha3_256, spent: Option<&Link>) -> [u8; 32] {
    let hasher = match spent {
        None => body,
        Some(link) => body
            .chain_update(&link.transaction_id)
            .chain_update(link.output_index.to_string()),
    };
    hasher.finalize().into()
}

pub(crate) fn sha3(bytes: &[u8]) -> [u8; 32] {
    Sha3_256::digest(bytes).into()
}
