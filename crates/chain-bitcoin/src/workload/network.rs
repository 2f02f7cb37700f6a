//! Networks and how they write addresses.

use clap::ValueEnum;

/// A network whose coins can be had for nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Network {
    /// The regression-test network of btcd, bchd, Bitcoin Core and the built-in node.
    #[default]
    Regtest,
    /// The simulation network of btcd and bchd.
    Simnet,
}

impl Network {
    /// The version of its P2PKH addresses (`chaincfg/params.go` of btcd 0.26).
    pub const fn version(self) -> u8 {
        match self {
            Self::Regtest => 0x6f,
            Self::Simnet => 0x3f,
        }
    }
}
