//! Fair queueing.
