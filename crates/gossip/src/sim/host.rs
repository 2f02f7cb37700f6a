//! One node, with what it has to do.

use std::collections::VecDeque;

use pacing::Nanos;

use crate::{
    app::{App, Timeline},
    node::Node,
};

/// Something that a node has to do, at the price of its kind.
#[derive(Debug)]
pub(super) enum Task {
    Timer,
    Offer,
    Connected(usize, crate::node::Origin),
    /// Bytes wait on this connection.
    Readable(usize),
    Writable(usize),
    Closed(usize),
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) node: Node,
    pub(super) app: App,
    pub(super) timeline: Option<Timeline>,
    pub(super) tasks: VecDeque<Task>,
    /// It works, or waits for a processor.
    pub(super) engaged: bool,
    /// Until when it keeps its processor while it has something to do.
    pub(super) slice_end: Nanos,
    /// The timer event that is in the heap.
    pub(super) timer: Nanos,
    pub(super) busy: Nanos,
}

impl Host {
    pub(super) const fn new(node: Node, app: App, timeline: Option<Timeline>) -> Self {
        Self {
            node,
            app,
            timeline,
            tasks: VecDeque::new(),
            engaged: false,
            slice_end: Nanos::ZERO,
            timer: Nanos::MAX,
            busy: Nanos::ZERO,
        }
    }
}
