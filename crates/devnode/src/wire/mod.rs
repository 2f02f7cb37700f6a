//! Encodings of the wire: Go's flavour of JSON, hex, protobuf.

pub(crate) mod bytes;
pub(crate) mod gojson;
pub(crate) mod json;
pub(crate) mod proto;
pub(crate) mod time;
