//! Programs started beside a run or a test: a real CometBFT, simd or btcd in a home of its own, or any process
//! with its log in a file and its end awaited.
//!
//! What it is not: it speaks no RPC. Whoever starts a server brings the probe that says whether it is
//! ready. Its calls block.
//!
//! Read first: [`CometBft`], [`Simd`], [`Btcd`] and [`Process`].

mod btcd;
mod cometbft;
mod error;
mod listening;
mod process;
mod settings;
mod simd;
mod throttle;

pub use self::{
    btcd::{Btcd, BtcdOptions},
    cometbft::{COMETBFT_VERSION, CometBft, CometBftOptions},
    error::StartError,
    listening::{free_port, listener},
    process::{Process, Wait, find},
    settings::{DottedError, SettingError, assign, leaves, nearest, parse_assignment},
    simd::{Simd, SimdOptions},
    throttle::Throttle,
};
