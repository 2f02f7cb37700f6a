//! A real chain of the Cosmos SDK for tests: one validator, a fresh home, free ports, stopped when dropped.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use servers::{SimdOptions, StartError, Wait};
use thiserror::Error;
use toml::Table;

use crate::comet::latest_height;
use crate::http::Http;

/// A running simd; its chain is [`Simd::CHAIN`], its coin `stake`.
#[derive(Debug)]
pub struct Simd(servers::Simd);

/// Why a simd could not be started.
#[derive(Debug, Error)]
pub enum SimdError {
    /// The binary is nowhere.
    #[error("simd is neither in SIMD_BIN nor in PATH: build it with .ci/simd")]
    NotInstalled,
    /// The one of SDK 0.53 is nowhere.
    #[error("SIMD_053_BIN names no simd of Cosmos SDK 0.53: build it with .ci/simd 0.53")]
    NoUnordered,
    /// It does not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Simd {
    /// The chain's id.
    pub const CHAIN: &str = servers::Simd::CHAIN;
    /// The wallet whose first account is the validator's.
    pub const WALLET: &str = servers::Simd::WALLET;

    /// Starts a chain with a block every second or so and waits for its first one. `prepare` gets the genesis
    /// file to write accounts into, with the least price of gas given.
    ///
    /// # Errors
    /// [`SimdError`].
    pub fn start(min_gas_price: &str, prepare: impl FnOnce(&Path)) -> Result<Self, SimdError> {
        let app = format!("minimum-gas-prices = \"{min_gas_price}\"");
        Self::start_with(("", &app), prepare)
    }

    /// The same, with other values for keys of `config.toml` and `app.toml`.
    ///
    /// # Errors
    /// [`SimdError`].
    ///
    /// # Panics
    /// The values are no TOML.
    pub fn start_with(
        (config, app): (&str, &str),
        prepare: impl FnOnce(&Path),
    ) -> Result<Self, SimdError> {
        let binary = Self::binary()?;
        Self::launch(binary, (config, app), prepare, FIRST_ANSWERS)
    }

    /// A node of another one's chain without peers, which therefore catches up for ever.
    ///
    /// # Errors
    /// [`SimdError`].
    ///
    /// # Panics
    /// The other one's genesis cannot be copied.
    pub fn start_alone(of: &Self) -> Result<Self, SimdError> {
        let copied = of.home().join("config/genesis.json");
        let copy = |genesis: &Path| {
            fs::copy(copied, genesis).expect("a copy");
        };
        Self::launch(Self::binary()?, ("", ""), copy, 0)
    }

    /// A chain of SDK 0.53 that takes unordered transactions for up to ten minutes, at this least price of gas.
    ///
    /// # Errors
    /// [`SimdError`].
    pub fn start_unordered(
        min_gas_price: &str,
        prepare: impl FnOnce(&Path),
    ) -> Result<Self, SimdError> {
        let app = format!("minimum-gas-prices = \"{min_gas_price}\"");
        let named = env::var_os("SIMD_053_BIN").map(PathBuf::from);
        let binary = named.ok_or(SimdError::NoUnordered)?;
        Self::launch(binary, ("", &app), prepare, FIRST_ANSWERS)
    }

    fn binary() -> Result<PathBuf, SimdError> {
        let named = env::var_os("SIMD_BIN").map(PathBuf::from);
        servers::find(named.as_deref(), "simd").ok_or(SimdError::NotInstalled)
    }

    fn launch(
        binary: PathBuf,
        (config, app): (&str, &str),
        prepare: impl FnOnce(&Path),
        first_height: u64,
    ) -> Result<Self, SimdError> {
        let table = |text: &str| text.parse::<Table>().expect("values are TOML");
        let options = SimdOptions {
            binary,
            config: table(config),
            app: table(app),
            ..SimdOptions::default()
        };
        let mut wait = Wait {
            is_ready: &mut |address| {
                let status = Http::new(address, PROBE_TIMEOUT).get("/status");
                let text = status.map(|answer| answer.text()).unwrap_or_default();
                latest_height(&text).is_some_and(|height| height >= first_height)
            },
            is_cancelled: &|| false,
            timeout: START_TIMEOUT,
        };
        let endow = |genesis: &Path| {
            prepare(genesis);
            Ok(())
        };
        Ok(Self(servers::Simd::start(&options, endow, &mut wait)?))
    }

    /// Where its RPC listens.
    pub const fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn rpc_url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// `ws://127.0.0.1:PORT/websocket`.
    pub fn ws_url(&self) -> String {
        format!("ws://{}/websocket", self.address())
    }

    /// The node's home folder.
    pub fn home(&self) -> &Path {
        self.0.home()
    }
}

/// It shows a block before its application answers for it.
const FIRST_ANSWERS: u64 = 2;
/// How long one probe of `/status` may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// It reads its genesis, which may have many accounts.
const START_TIMEOUT: Duration = Duration::from_secs(60);
