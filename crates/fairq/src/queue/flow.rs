//! Entries, the lanes they wait in, and the flows that take turns.
//!
//! A flow of its own belongs to one client and has a lane for each of its connections (or one for
//! all, as the order says). An overflow flow has a lane for each client that shares it.

use super::{
    item::{Backlog, Item},
    limits::Weight,
    slab::{Link, Linked, List, NIL},
};
use crate::key::ClientKey;

/// An item in its lane, and among all of its flow.
pub(crate) struct Entry<T> {
    pub(crate) item: Item<T>,
    pub(crate) connection: u64,
    pub(crate) lane: u32,
    in_lane: Link<InLane>,
    in_flow: Link<InFlow>,
    in_all: Link<InAll>,
}

impl<T> Entry<T> {
    pub(crate) fn new(item: Item<T>, connection: u64, lane: u32) -> Self {
        Self {
            item,
            connection,
            lane,
            in_lane: Link::default(),
            in_flow: Link::default(),
            in_all: Link::default(),
        }
    }
}

/// Whose lane it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Of one connection, in the flow of its client.
    Connection(u64),
    /// Of all connections, in the flow of their client.
    Whole,
    /// Of one client, in an overflow flow.
    Client(ClientKey),
}

/// First in, first out.
pub(crate) struct LaneNode {
    pub(crate) flow: u32,
    pub(crate) lane: Lane,
    pub(crate) fifo: List<InLane>,
    pub(crate) load: Backlog,
    in_flow: Link<Ring>,
}

impl LaneNode {
    pub(crate) fn new(flow: u32, lane: Lane) -> Self {
        Self {
            flow,
            lane,
            fifo: List::default(),
            load: Backlog::default(),
            in_flow: Link::default(),
        }
    }
}

/// On which list a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On none: it has nothing to send and owes nothing.
    Off,
    /// Among those that were idle before; they come first.
    New,
    /// Among those that take their turns one after the other.
    Old,
}

/// What takes turns.
pub(crate) struct Flow {
    /// None for an overflow flow.
    pub(crate) owner: Option<ClientKey>,
    pub(crate) weight: Weight,
    /// What it may still send in this turn; negative while it owes.
    pub(crate) deficit: i64,
    pub(crate) in_turn: bool,
    /// Has something to send.
    pub(crate) ready: bool,
    pub(crate) place: Place,
    /// Lanes that may send, in the order of their turns.
    pub(crate) ring: List<Ring>,
    pub(crate) lanes: u32,
    /// The lane that was pushed to last.
    pub(crate) recent: u32,
    /// All entries, the newest last.
    pub(crate) arrivals: List<InFlow>,
    pub(crate) load: Backlog,
    turn: Link<Turn>,
    by_bytes: Link<ByBytes>,
    by_entries: Link<ByEntries>,
}

impl Flow {
    pub(crate) fn new(owner: Option<ClientKey>, weight: Weight) -> Self {
        Self {
            owner,
            weight,
            deficit: 0,
            in_turn: false,
            ready: false,
            place: Place::Off,
            ring: List::default(),
            lanes: 0,
            recent: NIL,
            arrivals: List::default(),
            load: Backlog::default(),
            turn: Link::default(),
            by_bytes: Link::default(),
            by_entries: Link::default(),
        }
    }
}

pub(crate) struct InLane;
pub(crate) struct InFlow;
pub(crate) struct InAll;
pub(crate) struct Ring;
pub(crate) struct Turn;
pub(crate) struct ByBytes;
pub(crate) struct ByEntries;

macro_rules! linked {
    ($([$($generic:ident)?] $node:ty, $tag:ty, $field:ident;)*) => {$(
        impl$(<$generic>)? Linked<$tag> for $node {
            fn link(&self) -> &Link<$tag> {
                &self.$field
            }

            fn link_mut(&mut self) -> &mut Link<$tag> {
                &mut self.$field
            }
        }
    )*};
}

linked! {
    [T] Entry<T>, InLane, in_lane;
    [T] Entry<T>, InFlow, in_flow;
    [T] Entry<T>, InAll, in_all;
    [] LaneNode, Ring, in_flow;
    [] Flow, Turn, turn;
    [] Flow, ByBytes, by_bytes;
    [] Flow, ByEntries, by_entries;
}
