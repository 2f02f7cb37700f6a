//! Codecs and nodes, without I/O.

mod golden;
mod handshakes;
mod laws;
mod mesh;
mod streams;
