//! The headers that let a web page of another origin read an answer.

use std::borrow::Cow;

use bytes::Bytes;
use wire::http::ResponseHead;

/// The node's own, for one origin: what its handler adds to each answer (`rs/cors`, `handleActualRequest`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrossOrigin {
    /// `Access-Control-Allow-Origin` and its relatives, spelt as the node does.
    access: Vec<(Cow<'static, str>, Bytes)>,
    /// Whether answers depend on the origin.
    varies: bool,
}

impl CrossOrigin {
    /// What an answer of the node says, also one to a preflight request.
    pub fn of(answer: &[(Cow<'static, str>, Bytes)]) -> Self {
        let named = |name: &'static str| {
            let mut found = answer.iter();
            found
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .cloned()
        };
        let varies = answer.iter().any(|(name, value)| {
            let mut values = value.split(|byte| *byte == b',');
            name.eq_ignore_ascii_case("Vary")
                && values.any(|value| value.trim_ascii().eq_ignore_ascii_case(b"Origin"))
        });
        // In the order of names, as Go writes headers.
        let access = ACCESS.into_iter().filter_map(named).collect();
        Self { access, varies }
    }

    /// Writes what stands before `Content-Type`.
    pub(super) fn write<'o>(&self, mut head: ResponseHead<'o>) -> ResponseHead<'o> {
        for (name, value) in &self.access {
            head = head.field(name, value);
        }
        head
    }

    /// Writes what stands behind it.
    pub(super) fn write_vary<'o>(&self, head: ResponseHead<'o>) -> ResponseHead<'o> {
        match self.varies {
            true => head.field("Vary", b"Origin"),
            false => head,
        }
    }
}

/// Headers of answers; those of preflight requests alone stay there.
const ACCESS: [&str; 3] = [
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Origin",
    "Access-Control-Expose-Headers",
];
