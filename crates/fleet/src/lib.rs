//! One program on many machines, over a NATS server.
//!
//! What both sides say and when is [`Coordinator`]'s and [`Engagement`]'s, which know no bus, read no clock and start
//! no program; a [`Crew`] and a [`Worker`] carry it out.
//!
//! A [`Worker`] waits on the bus. A [`Crew`] calls workers, refuses those of another version, measures how far
//! their clocks are from its own, gives each its order to start the program at one instant, hears what the
//! programs print, and fetches the folders that they leave through the object store.
//!
//! What it is not: it knows no transactions. What is started is a program with arguments; what its lines and its
//! folder mean is the caller's.
//!
//! Read first: [`Crew`], [`Worker`], [`message`] and [`Clock`].

mod bus;
mod clock;
mod coordinator;
mod crew;
mod engagement;
mod folder;
mod job;
pub mod message;
mod watched;
mod worker;

pub use self::{
    bus::{Bus, FleetError},
    clock::{Clock, Exchange, Interval, Now},
    coordinator::{Coordinator, Member},
    crew::Crew,
    engagement::Engagement,
    job::Program,
    watched::{Ending, Event, Stop},
    worker::Worker,
};
