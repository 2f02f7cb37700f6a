//! How the workspace defines its values: enumerations with names ([`named!`]), structs with defaults ([`settings!`]) and
//! of counters ([`counters!`]), values that files spell as their flags do ([`text`]), and random numbers that are the same
//! on every machine ([`Random`]).
//!
//! What it is not: it knows nothing of loads, nodes or proxies, and depends on nothing of the workspace.
//!
//! Read first: [`named!`], [`settings!`], [`text`].

mod macros;
mod random;
pub mod text;

pub use self::random::{Random, mix};
