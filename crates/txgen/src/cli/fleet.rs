//! `txgen worker` and `txgen fleet`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;

/// `txgen worker`
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// The NATS server, with a token or user and password where it asks for one.
    #[arg(long, value_name = "URL", env = "TXGEN_NATS", hide_env_values = true)]
    pub nats: String,
    /// How people know this machine [default: its host name].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Where run folders are written; they stay there.
    #[arg(long, value_name = "DIR", default_value = "runs/worker")]
    pub runs: PathBuf,
}

/// `txgen fleet`
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["local", "fetch"])))]
pub struct FleetArgs {
    /// Start a NATS server on loopback and this many workers, until Ctrl-C.
    #[arg(long, value_name = "N")]
    pub local: Option<NonZeroU32>,
    /// Where the server listens on loopback.
    #[arg(
        long,
        value_name = "PORT",
        default_value = "4222",
        conflicts_with = "fetch"
    )]
    pub port: u16,
    /// The server program [default: nats-server in PATH].
    #[arg(long, value_name = "PATH", env = "NATS_SERVER_BIN")]
    pub nats_server: Option<PathBuf>,
    /// Fetch the run folders that workers of this run brought to the server when their coordinator was gone.
    #[arg(long, value_name = "RUN", requires = "nats", requires = "out")]
    pub fetch: Option<String>,
    /// The NATS server to fetch from.
    #[arg(long, value_name = "URL", env = "TXGEN_NATS", hide_env_values = true)]
    pub nats: Option<String>,
    /// Where to: a folder for each shard.
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}
