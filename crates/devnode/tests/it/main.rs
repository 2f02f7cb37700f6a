//! Black-box tests of a node in this process.

mod smoke;
mod support;
