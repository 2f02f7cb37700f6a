//! How the workspace defines its values: enumerations with names ([`named!`]), structs with defaults ([`settings!`]) and
//! of counters ([`counters!`]), values that files spell as their flags do ([`text`]), random numbers that are the same
//! on every machine ([`Random`]), and what is said of an output that could not be written ([`unwritten()`]).
//!
//! What it is not: it knows nothing of loads, nodes or proxies, and depends on nothing of the workspace.
//!
//! Read first: [`named!`], [`settings!`], [`text`].

mod macros;
mod random;
pub mod text;
mod unwritten;

pub use self::random::{Random, mix};
pub use self::unwritten::unwritten;
