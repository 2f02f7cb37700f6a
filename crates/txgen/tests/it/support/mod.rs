//! What the tests stand on: the program in a folder of its own, readers of what it leaves, and
//! nodes that behave or do not.

mod folder;
mod node;
mod program;
mod relay;

pub(crate) use folder::{RunFolder, Summary};
pub(crate) use node::{Node, quick};
pub(crate) use program::Place;
pub(crate) use relay::Relay;
pub(crate) use testkit::{Behaviour, Ended, FakeChain, FakeNode, Running, Upgrades, wait_until};
