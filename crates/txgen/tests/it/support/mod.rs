//! What the tests stand on: the program in a folder of its own, readers of what it leaves, and
//! nodes that behave or do not.

mod fake;
mod folder;
mod node;
mod program;

pub(crate) use fake::{Behaviour, FakeNode, Identity, Relay};
pub(crate) use folder::{RunFolder, Summary};
pub(crate) use node::{Node, quick};
pub(crate) use program::Place;
pub(crate) use testkit::{Ended, Running, wait_until};
