//! Coins and the file that holds them.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use bitcoin::OutPoint;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::keys::{Digest, KEYS, Spend};

/// A coin of a wallet and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coin {
    /// Where it is, whose, and how much.
    pub spend: Spend,
    /// What is known of it.
    pub state: CoinState,
}

base::named! {
    /// What is known of a coin.
    pub enum CoinState {
        /// In a block, and not spent.
        Confirmed => "confirmed",
        /// Made by a transaction that was accepted and is in no block yet.
        Pending => "pending",
        /// Spent by a transaction of which nothing is known: no answer came.
        Doubtful => "doubtful",
    }
}

/// The first line of a wallet file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalletInfo {
    /// [`FORMAT`].
    pub(crate) format: String,
    /// The hash of the chain's first block.
    pub chain: String,
    /// What the keys are derived from.
    pub seed: u64,
    /// What signatures cover.
    pub digest: Digest,
}

/// A wallet: whose coins, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wallet {
    /// Whose.
    pub info: WalletInfo,
    /// Which.
    pub coins: Vec<Coin>,
}

/// Why a wallet file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the wallet {} {problem}", path.display())]
pub struct WalletError {
    path: PathBuf,
    problem: String,
    source: Option<io::Error>,
}

impl WalletError {
    fn of(path: &Path, problem: String) -> Self {
        Self {
            path: path.into(),
            problem,
            source: None,
        }
    }

    fn io(path: &Path, doing: &str) -> impl FnOnce(io::Error) -> Self {
        let error = Self::of(path, format!("cannot be {doing}"));
        |source| Self {
            source: Some(source),
            ..error
        }
    }
}

/// The right to use a wallet file; given back when it is dropped or the process ends.
#[derive(Debug)]
pub struct WalletLock(#[expect(dead_code, reason = "held open")] File);

impl Wallet {
    /// A wallet of these coins.
    pub fn new(chain: &str, seed: u64, digest: Digest, coins: Vec<Coin>) -> Self {
        let info = WalletInfo {
            format: FORMAT.into(),
            chain: chain.into(),
            seed,
            digest,
        };
        Self { info, coins }
    }

    /// The satoshi of all coins.
    pub fn value(&self) -> u64 {
        self.coins.iter().map(|coin| coin.spend.value).sum()
    }

    /// Coins that a run may spend, in the order of the file.
    pub fn spendable(&self) -> impl Iterator<Item = Spend> + '_ {
        let confirmed = |coin: &&Coin| coin.state == CoinState::Confirmed;
        self.coins.iter().filter(confirmed).map(|coin| coin.spend)
    }

    /// Reads a wallet file.
    ///
    /// # Errors
    /// When it cannot be read or is not what [`Wallet::write`] wrote.
    pub fn read(path: &Path) -> Result<Self, WalletError> {
        let mut text = String::new();
        let read = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
        read.map_err(WalletError::io(path, "read"))?;
        Self::from_text(&text).map_err(|problem| {
            let again = "take wallet-after.csv of its last run, or prepare a new one";
            WalletError::of(path, format!("is damaged: {problem}; {again}"))
        })
    }

    fn from_text(text: &str) -> Result<Self, String> {
        let (body, sum) = text
            .trim_end()
            .rsplit_once("\n# sha256 ")
            .ok_or("its last line is not the checksum")?;
        if checksum(body) != sum {
            return Err("its checksum is another".into());
        }
        let mut lines = body.lines();
        let first = lines.next().and_then(|line| line.strip_prefix("# "));
        let info = first.ok_or("its first line does not say what it is")?;
        let info: WalletInfo = serde_json::from_str(info).map_err(|error| error.to_string())?;
        if info.format != FORMAT {
            return Err(format!("its format is {}, not {FORMAT}", info.format));
        }
        let coins = lines.skip(1).enumerate().map(|(at, line)| {
            read_coin(line).ok_or_else(|| format!("line {} is no coin: {line:?}", at + 3))
        });
        Ok(Self {
            info,
            coins: coins.collect::<Result<_, _>>()?,
        })
    }

    fn to_text(&self) -> String {
        let mut text = format!(
            "# {}\n{HEADER}\n",
            serde_json::to_string(&self.info).unwrap_or_default()
        );
        for Coin { spend, state } in &self.coins {
            let state = state.name();
            // Texts take everything.
            let _ = writeln!(
                text,
                "{},{},{},{state}",
                spend.outpoint, spend.value, spend.key
            );
        }
        let body = text.trim_end();
        format!("{body}\n# sha256 {}\n", checksum(body))
    }

    /// Writes a wallet file: beside the old one first, which it then replaces.
    ///
    /// # Errors
    /// Those of the system.
    pub fn write(&self, path: &Path) -> Result<(), WalletError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(self.to_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, path)
        };
        write().map_err(WalletError::io(path, "written"))
    }

    /// Keeps other processes from using a wallet file.
    ///
    /// # Errors
    /// When one does.
    pub fn lock(path: &Path) -> Result<WalletLock, WalletError> {
        // Beside the file, which is replaced by each run.
        let mut beside = path.as_os_str().to_owned();
        beside.push(".lock");
        let opened = File::create(&beside);
        let file = opened.map_err(WalletError::io(Path::new(&beside), "written"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(WalletLock(file)),
            Err(_) => {
                let problem =
                    "is in use by another run; wait for its end, or prepare another wallet";
                Err(WalletError::of(path, problem.into()))
            }
        }
    }
}

/// A line `txid:vout,value,key,state`.
pub fn read_coin(line: &str) -> Option<Coin> {
    let mut fields = line.split(',');
    let mut next = || fields.next();
    let outpoint = OutPoint::from_str(next()?).ok()?;
    let value = next()?.parse().ok()?;
    let key = next()?.parse().ok().filter(|key| *key < KEYS)?;
    let state = CoinState::of_name(next()?)?;
    let spend = Spend {
        outpoint,
        key,
        value,
    };
    next().is_none().then_some(Coin { spend, state })
}

fn checksum(body: &str) -> String {
    hex_simd::encode_to_string(Sha256::digest(body), hex_simd::AsciiCase::Lower)
}

const FORMAT: &str = "tidegate-bitcoin-wallet/1";
const HEADER: &str = "outpoint,value,key,state";

#[cfg(test)]
mod tests {
    use bitcoin::Txid;
    use bitcoin::hashes::Hash as _;

    use super::*;

    fn wallet() -> Wallet {
        let coin = |byte: u8| Coin {
            spend: Spend {
                outpoint: OutPoint {
                    txid: Txid::from_byte_array([byte; 32]),
                    vout: byte.into(),
                },
                key: byte.into(),
                value: u64::from(byte) * 1_000,
            },
            state: [
                CoinState::Confirmed,
                CoinState::Pending,
                CoinState::Doubtful,
            ][usize::from(byte % 3)],
        };
        Wallet::new("aa", 7, Digest::Forkid, (0..9).map(coin).collect())
    }

    #[test]
    fn a_wallet_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wallet.csv");
        wallet().write(&path).unwrap();
        assert_eq!(Wallet::read(&path).unwrap(), wallet());
        assert_eq!(wallet().spendable().count(), 3);
        assert_eq!(wallet().value(), 36_000);
    }

    #[test]
    fn a_damaged_wallet_is_refused_with_what_is_wrong() {
        let text = wallet().to_text();
        let cut = &text[..text.len() / 2];
        let changed = text.replace(",1000,", ",9000,");
        for (text, problem) in [
            (cut, "checksum"),
            (changed.as_str(), "checksum"),
            ("", "checksum"),
        ] {
            let error = Wallet::from_text(text).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        let body = "# {\"format\":\"x\",\"chain\":\"\",\"seed\":1,\"digest\":\"legacy\"}";
        let other = format!("{body}\n# sha256 {}\n", checksum(body));
        let error = Wallet::from_text(&other).unwrap_err();
        assert!(error.contains("format is x"), "{error}");
    }

    #[test]
    fn a_wallet_serves_one_run_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wallet.csv");
        let first = Wallet::lock(&path).unwrap();
        let second = Wallet::lock(&path).unwrap_err().to_string();
        assert!(second.contains("in use by another run"), "{second}");
        drop(first);
        Wallet::lock(&path).unwrap();
    }
}
