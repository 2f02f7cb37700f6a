//! The schema of transactions, by routes that agree.
//!
//! [`accepts`] is the one that transactions are checked with: written by hand, one pass, a yes or no.
//! [`explain()`] says why not, in the words of the original. `JsonSchema`, behind the feature
//! `jsonschema`, hands the same rules to the `jsonschema` crate; tests and benches compare with it.
//! The rules are in `common.json`, `create.json` and `transfer.json` beside this file; the order
//! of their keywords is the original's, because it decides which error is reported.
//!
//! Two notes. A pattern that ends in `$` admits no newline at the end, as in the original's first
//! validator (its second one admits it, and the contradiction crashes it). And `NaN` and the
//! infinities are no JSON, so a body with one is refused.

mod explain;
mod patterns;
#[cfg(feature = "jsonschema")]
mod route;
mod typed;

pub use explain::explain;
#[cfg(feature = "jsonschema")]
pub use route::JsonSchema;
pub use typed::accepts;

const COMMON: &str = include_str!("common.json");
const CREATE: &str = include_str!("create.json");
const TRANSFER: &str = include_str!("transfer.json");
