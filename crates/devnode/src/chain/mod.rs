//! The chain: blocks with their hashes, and those of them that are kept.

pub(crate) mod block;
pub(crate) mod render;
pub(crate) mod store;
