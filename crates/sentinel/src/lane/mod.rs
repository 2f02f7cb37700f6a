//! The write lane.

mod api;

pub use self::api::{Delivery, Outbox, Permit, Write, WriteAnswer, WriteBody};
