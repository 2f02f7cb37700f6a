//! The application that blocks are executed on.

pub(crate) mod kvstore;
