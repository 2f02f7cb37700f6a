//! Programs started beside a run or a test: a real CometBFT, simd or btcd in a home of its own, or any process
//! with its log in a file and its end awaited.
//!
//! What it is not: it speaks no RPC. Whoever starts a server brings the probe that says whether it is
//! ready. Its calls block.
//!
//! Read first: [`CometBft`], [`Simd`], [`Btcd`] and [`Process`].

mod btcd;
mod cometbft;
mod dotted;
mod error;
mod listening;
mod nearest;
mod ports;
mod process;
mod settings;
mod simd;

pub use self::{
    btcd::{Btcd, BtcdOptions},
    cometbft::{COMETBFT_VERSION, CometBft, CometBftOptions},
    dotted::{DottedError, assign, leaves, parse_assignment},
    error::StartError,
    listening::listener,
    nearest::nearest,
    ports::free_port,
    process::{Process, Wait, find},
    settings::SettingError,
    simd::{Simd, SimdOptions},
};
