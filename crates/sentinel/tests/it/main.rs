//! The whole proxy in front of nodes.

mod basics;
mod command_line;
mod support;
