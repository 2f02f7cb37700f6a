//! In place of columns, where the program was built without them.

use std::fs::File;
use std::io::{self, Read};

/// Nothing can be read.
pub(crate) struct Reading;

impl Reading {
    /// Says how to get a program that can.
    pub(crate) fn open(_: File) -> io::Result<Self> {
        Err(unsupported())
    }
}

impl Read for Reading {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(unsupported())
    }
}

pub(super) fn write(_: impl Read, _: File) -> io::Result<()> {
    Err(unsupported())
}

fn unsupported() -> io::Error {
    let problem = "this txgen has no Parquet: build it with --features parquet";
    io::Error::new(io::ErrorKind::Unsupported, problem)
}
