//! The laws of profiles and schedules, through the public interface.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod examples;
mod messages;
mod poisson;
mod samples;
mod schedules;
mod shards;
mod smooth;
