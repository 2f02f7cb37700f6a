//! Writes JSON as CometBFT does: 64-bit integers are strings, hashes upper-case hex, byte strings
//! base64, and text is escaped as Go's `encoding/json` escapes it.

use super::quote;

/// Appends `text` as it is.
pub fn raw(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends a 64-bit integer as a JSON string, as `libs/json` of CometBFT 0.38 does.
pub fn int_text(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.push(b'"');
    int(out, value);
    out.push(b'"');
}

/// Appends a plain JSON number.
pub fn int(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends quoted upper-case hex.
pub fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    crate::encoding::push_hex(out, bytes);
    out.push(b'"');
}

/// Appends quoted base64.
pub fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    base64_simd::STANDARD.encode_append(bytes, out);
    out.push(b'"');
}

/// Appends quoted base64, or `null` for nothing: Go's nil slice.
pub fn base64_or_null(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => base64(out, bytes),
        None => raw(out, "null"),
    }
}

/// Appends a quoted string, escaped as Go's `json.Marshal` does.
pub fn string(out: &mut Vec<u8>, text: &str) {
    quote(out, text);
}

/// What stands for a `?` in the template of [`fill`].
pub trait Value {
    /// Appends the value.
    fn write(&self, out: &mut Vec<u8>);
}

macro_rules! values {
    ($($doc:literal $name:ident($type:ty) $write:ident;)*) => {$(
        #[doc = $doc]
        #[derive(Debug, Clone, Copy)]
        pub struct $name<'a>(pub &'a $type);

        impl Value for $name<'_> {
            fn write(&self, out: &mut Vec<u8>) {
                $write(out, self.0);
            }
        }
    )*};
}

values! {
    "Bytes as upper-case hex, as [`hex`] writes them." Hex([u8]) hex;
    "Bytes as base64, as [`base64`] writes them." Base64([u8]) base64;
    "A string, as [`string`] writes it." Text(str) string;
    "JSON as it is." Raw(str) raw;
}

/// A plain number, as [`int`] writes it.
#[derive(Debug, Clone, Copy)]
pub struct Int<I>(pub I);

/// A 64-bit integer as a string, as [`int_text`] writes it.
#[derive(Debug, Clone, Copy)]
pub struct IntText<I>(pub I);

/// What a function writes of a thing.
#[derive(Debug, Clone, Copy)]
pub struct With<'a, T: ?Sized>(pub fn(&mut Vec<u8>, &T), pub &'a T);

/// Appends `template` with its `?` replaced by `values` in order; it has as many of them, and none
/// inside a string.
pub fn fill(out: &mut Vec<u8>, template: &str, values: &[&dyn Value]) {
    debug_assert_eq!(template.matches('?').count(), values.len(), "{template}");
    let mut texts = template.split('?');
    raw(out, texts.next().unwrap_or_default());
    for (value, text) in values.iter().zip(texts) {
        value.write(out);
        raw(out, text);
    }
}

/// What [`fill`] makes of a template.
pub fn filled(template: &str, values: &[&dyn Value]) -> Vec<u8> {
    let mut out = Vec::with_capacity(template.len() + values.len() * VALUE_BYTES);
    fill(&mut out, template, values);
    out
}

/// Room for a value: the hex of a hash.
const VALUE_BYTES: usize = 66;

impl<I: itoa::Integer + Copy> Value for Int<I> {
    fn write(&self, out: &mut Vec<u8>) {
        int(out, self.0);
    }
}

impl<I: itoa::Integer + Copy> Value for IntText<I> {
    fn write(&self, out: &mut Vec<u8>) {
        int_text(out, self.0);
    }
}

impl<T: ?Sized> Value for With<'_, T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.0(out, self.1);
    }
}

impl<F: Fn(&mut Vec<u8>)> Value for F {
    fn write(&self, out: &mut Vec<u8>) {
        self(out);
    }
}

/// The member of an answer that has an error with this text, as a method of CometBFT gives it
/// (`RPCInternalError` in `rpc/jsonrpc/types`).
pub fn internal_error(text: &str) -> Vec<u8> {
    let template = r#""error":{"code":-32603,"message":"Internal error","data":?}"#;
    filled(template, &[&Text(text)])
}

/// Appends `items`, separated by commas, in brackets.
pub fn array<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_and_bytes_have_their_forms() {
        assert_eq!(written(|out| int_text(out, -5_i64)), "\"-5\"");
        assert_eq!(written(|out| hex(out, &[0xab, 1])), "\"AB01\"");
        assert_eq!(written(|out| base64(out, b"a=1")), "\"YT0x\"");
        assert_eq!(written(|out| array(out, [1, 2], int)), "[1,2]");
        let parts: [&dyn Value; 3] = [&Int(1), &Text("?"), &With(raw, "{}")];
        assert_eq!(filled(r#"[?,{"a":?},?]"#, &parts), br#"[1,{"a":"?"},{}]"#);
    }
}
