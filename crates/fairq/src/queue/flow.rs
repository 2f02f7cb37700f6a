//! Entries, the lanes they wait in, and the flows that take turns.
//!
//! A flow belongs to one client. It has a lane for each connection that has something waiting, or one for all, as
//! the order says.

use super::{
    item::{Backlog, Item},
    limits::Weight,
    slab::{Link, Linked, List},
    turns::Seat,
};
use crate::key::ClientKey;

/// An item in its lane, and among all of its flow.
pub(super) struct Entry<T> {
    pub(super) item: Item<T>,
    pub(super) connection: u64,
    pub(super) lane: u32,
    in_lane: Link<InLane>,
    in_flow: Link<InFlow>,
    in_all: Link<InAll>,
}

impl<T> Entry<T> {
    pub(super) fn new(item: Item<T>, connection: u64, lane: u32) -> Self {
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

/// First in, first out. There is one only while it holds something.
pub(super) struct Lane {
    pub(super) flow: u32,
    pub(super) line: u64,
    /// Nothing of it may leave.
    pub(super) is_held: bool,
    pub(super) fifo: List<InLane>,
    in_flow: Link<Ring>,
}

impl Lane {
    pub(super) fn new(flow: u32, line: u64, is_held: bool) -> Self {
        Self {
            flow,
            line,
            is_held,
            fifo: List::default(),
            in_flow: Link::default(),
        }
    }
}

/// What takes turns.
pub(super) struct Flow {
    pub(super) owner: ClientKey,
    pub(super) weight: Weight,
    /// None until its first item has been counted.
    pub(super) seat: Option<Seat>,
    /// What it may send in the turn that is its next, or that it is in.
    pub(super) credit: i64,
    pub(super) is_in_turn: bool,
    /// Nothing of it may leave.
    pub(super) is_held: bool,
    /// Lanes that are not held, in the order of their turns.
    pub(super) ring: List<Ring>,
    /// All entries, the newest last.
    pub(super) arrivals: List<InFlow>,
    pub(super) load: Backlog,
}

impl Flow {
    pub(super) fn new(owner: ClientKey, weight: Weight, is_held: bool) -> Self {
        Self {
            owner,
            weight,
            seat: None,
            credit: 0,
            is_in_turn: false,
            is_held,
            ring: List::default(),
            arrivals: List::default(),
            load: Backlog::default(),
        }
    }
}

pub(super) struct InLane;
pub(super) struct InFlow;
pub(super) struct InAll;
pub(super) struct Ring;

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
    [] Lane, Ring, in_flow;
}
