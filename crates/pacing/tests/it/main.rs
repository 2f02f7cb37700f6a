//! The laws of profiles and schedules, through the public interface.

mod examples;
mod messages;
mod poisson;
mod samples;
mod schedules;
mod shards;
mod smooth;
mod week;
