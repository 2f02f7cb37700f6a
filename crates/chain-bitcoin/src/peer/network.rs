//! The networks whose coins can be had for nothing.

use std::fmt;

/// A network of Bitcoin nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerNetwork {
    /// Its name.
    pub name: &'static str,
    /// What each message begins with.
    pub magic: [u8; 4],
    /// The hash of its first block, in the order of bytes in which it is shown.
    pub genesis: [u8; 32],
}

impl fmt::Display for PeerNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Networks that are known: a load on one with coins of worth has to be impossible by accident. Magics and
/// first blocks are those of `wire/protocol.go` and `chaincfg/genesis.go` of btcd 0.26 and of
/// `wire/protocol.go` of bchd 0.20.
pub const PEER_NETWORKS: [PeerNetwork; 3] = [
    PeerNetwork {
        name: "regtest",
        magic: [0xfa, 0xbf, 0xb5, 0xda],
        genesis: REGTEST,
    },
    PeerNetwork {
        name: "simnet",
        magic: [0x16, 0x1c, 0x14, 0x12],
        genesis: SIMNET,
    },
    PeerNetwork {
        name: "Bitcoin Cash regtest",
        magic: [0xda, 0xb5, 0xbf, 0xfa],
        genesis: REGTEST,
    },
];

const REGTEST: [u8; 32] = [
    0x0f, 0x91, 0x88, 0xf1, 0x3c, 0xb7, 0xb2, 0xc7, 0x1f, 0x2a, 0x33, 0x5e, 0x3a, 0x4f, 0xc3, 0x28,
    0xbf, 0x5b, 0xeb, 0x43, 0x60, 0x12, 0xaf, 0xca, 0x59, 0x0b, 0x1a, 0x11, 0x46, 0x6e, 0x22, 0x06,
];
const SIMNET: [u8; 32] = [
    0x68, 0x3e, 0x86, 0xbd, 0x5c, 0x6d, 0x11, 0x0d, 0x91, 0xb9, 0x4b, 0x97, 0x13, 0x7b, 0xa6, 0xbf,
    0xe0, 0x2d, 0xbb, 0xdb, 0x8e, 0x3d, 0xff, 0x72, 0x2a, 0x66, 0x9b, 0x5d, 0x69, 0xd7, 0x7a, 0xf6,
];

#[cfg(test)]
mod tests {
    use bitcoin::Network;
    use bitcoin::blockdata::constants::genesis_block;
    use bitcoin::hashes::Hash as _;
    use bitcoin::p2p::Magic;

    use super::*;

    #[test]
    fn regtest_is_what_the_library_knows_of_it() {
        let regtest = PEER_NETWORKS[0];
        assert_eq!(Magic::from_bytes(regtest.magic), Magic::REGTEST);
        let mut genesis = genesis_block(Network::Regtest).block_hash().to_byte_array();
        genesis.reverse();
        assert_eq!(regtest.genesis, genesis);
    }
}
