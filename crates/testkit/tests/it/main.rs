//! What the repository's documents promise: every link leads somewhere.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod links;
