//! The arguments in a URI, read with the original's rules and words.

use bigchain::{Id, Operation, PublicKey};
use wire::jsonrpc::BroadcastMethod;
use wire::query::pairs;

use super::answer;
use crate::app::bigchaindb::OutputFilter;
use crate::http::{Request, Response};

const MISSING: &str =
    "Missing required parameter in the JSON body or the post body or the query string";

/// The arguments of a request.
#[derive(Debug)]
pub(super) struct Arguments {
    pairs: Vec<(String, String)>,
}

impl Arguments {
    pub(super) fn of(request: &Request) -> Self {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        Self {
            pairs: pairs(request.query().as_bytes())
                .map(|(name, value)| (text(&name), text(&value)))
                .collect(),
        }
    }

    /// An argument that may be left out.
    ///
    /// # Errors
    /// The answer, if it is there and wrong.
    pub(super) fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Result<Option<T>, Response> {
        let value = self.pairs.iter().find(|(known, _)| known == name);
        value
            .map(|(_, value)| read(value).map_err(|why| answer::bad_argument(name, why)))
            .transpose()
    }

    /// An argument that must be there.
    ///
    /// # Errors
    /// The answer, if it is missing or wrong.
    pub(super) fn required<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Result<T, Response> {
        self.optional(name, read)?
            .ok_or_else(|| answer::bad_argument(name, MISSING))
    }

    /// Refuses arguments with other names than these.
    ///
    /// # Errors
    /// The answer that names them.
    pub(super) fn only(&self, names: &[&str]) -> Result<(), Response> {
        let unknown: Vec<&str> = self
            .pairs
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| !names.contains(name))
            .collect();
        if unknown.is_empty() {
            Ok(())
        } else {
            Err(answer::unknown_arguments(&unknown.join(", ")))
        }
    }
}

/// How the original hands a transaction to Tendermint.
pub(super) fn mode(text: &str) -> Result<BroadcastMethod, &'static str> {
    match text.to_lowercase().as_str() {
        "async" => Ok(BroadcastMethod::Async),
        "sync" => Ok(BroadcastMethod::Sync),
        "commit" => Ok(BroadcastMethod::Commit),
        _ => Err("Mode must be \"async\", \"sync\" or \"commit\""),
    }
}

/// An id in either case.
pub(super) fn id(text: &str) -> Result<Id, &'static str> {
    let lower = text.to_ascii_lowercase();
    lower.parse().map_err(|_| "Invalid hash")
}

pub(super) fn operation(text: &str) -> Result<Operation, &'static str> {
    match text.to_uppercase().as_str() {
        "CREATE" => Ok(Operation::Create),
        "TRANSFER" => Ok(Operation::Transfer),
        _ => Err("Operation must be \"CREATE\" or \"TRANSFER\""),
    }
}

pub(super) fn truth(text: &str) -> Result<bool, &'static str> {
    match text.to_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("Boolean value must be \"true\" or \"false\" (lowercase)"),
    }
}

pub(super) fn spent(text: &str) -> Result<OutputFilter, &'static str> {
    truth(text).map(|spent| match spent {
        true => OutputFilter::Spent,
        false => OutputFilter::Unspent,
    })
}

/// A key; none if it has the form of one but is not, so that no output can be its.
///
/// The original's pattern means to leave out `0`, `I`, `O` and `l`, but by a slip of its author
/// leaves out `0` only.
pub(super) fn public_key(text: &str) -> Result<Option<PublicKey>, &'static str> {
    let fits = |byte: u8| byte == b'^' || (byte.is_ascii_alphanumeric() && byte != b'0');
    if !matches!(text.len(), 43 | 44) || !text.bytes().all(fits) {
        return Err("Invalid base58 ed25519 key");
    }
    Ok(text.parse().ok())
}

pub(super) fn text(text: &str) -> Result<String, &'static str> {
    Ok(text.to_owned())
}
