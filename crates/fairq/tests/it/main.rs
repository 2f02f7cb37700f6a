//! The laws of the queue and the attacks on it, through the public interface.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]
