//! Programs started beside a run or a test: a real CometBFT, simd or btcd in a home of its own, or any process
//! with its log in a file and its end awaited.
//!
//! What it is not: it speaks no RPC. The caller brings the probe that says whether a server is
//! ready. Its calls block.
//!
//! Read first: [`CometBft`], [`Simd`], [`Btcd`] and [`Process`].

mod btcd;
mod cometbft;
mod link;
mod listening;
mod process;
mod settings;
mod simd;
mod throttle;

pub use self::btcd::{Btcd, BtcdOptions};
pub use self::cometbft::{COMETBFT_VERSION, CometBft, CometBftOptions};
pub use self::link::Link;
pub use self::listening::{free_port, listener};
pub use self::process::{Process, Wait, find};
pub use self::settings::{DottedError, SettingError, assign, leaves, nearest, parse_assignment};
pub use self::simd::{Simd, SimdOptions};
pub use self::throttle::{Throttle, on_cores};
pub use process::StartError;
