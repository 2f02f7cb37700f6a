//! How the workspace defines its values: here, values that files spell as their flags do ([`text`]).
//!
//! What it is not: it knows nothing of loads, nodes or proxies, and depends on nothing of the workspace.

pub mod text;
