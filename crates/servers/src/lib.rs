//! Programs started beside a run or a test: a real CometBFT, simd or btcd in a home of its own, or any process
//! with its log in a file and its end awaited.
//!
//! What it is not: it speaks no RPC. The caller brings the probe that finds whether a server is
//! ready. Its calls block.
//!
//! Read first: [`CometBft`], [`Simd`], [`Btcd`] and [`Process`].

mod chains;
mod cometbft;
mod link;
mod listening;
mod process;
mod settings;

pub use process::StartError;

pub use self::chains::{Btcd, BtcdOptions, Simd, SimdOptions};
pub use self::cometbft::{COMETBFT_VERSION, CometBft, CometBftOptions};
pub use self::link::{Link, Throttle, on_cores};
pub use self::listening::{free_port, listener};
pub use self::process::{Process, Wait, find};
pub use self::settings::{DottedError, SettingError, assign, leaves, nearest, parse_assignment};
