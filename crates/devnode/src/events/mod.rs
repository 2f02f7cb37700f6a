//! Events of committed blocks and the queries that select them.

pub(crate) mod bus;
pub(crate) mod publish;
pub(crate) mod query;
mod scanner;
