//! What a scenario says about the node and about a sentinel in front of it.

use std::num::NonZeroU32;

use anyhow::bail;
use clap::ValueEnum;
use pacing::Nanos;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::chains;
use crate::settings::Settings;
use chain::{Share, text};
use harness::BitRate;

base::settings! {
    /// The node that a run starts, or that it finds.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct NodeSection {
        /// What kind; `endpoints` when `settings.endpoints` are given, else `builtin`.
        pub kind: Option<NodeKind> = None,
        /// Whether every run gets a new one; otherwise the runs share one as long as its configuration
        /// is the same, and its mempool is awaited empty between them.
        pub fresh: bool = true,
        /// The built-in node's configuration.
        #[serde(deserialize_with = "chains::built_in")]
        pub builtin: Option<devnode::Blueprint> = None,
        /// Keys of CometBFT's `config.toml` (simd's too) and their values; the rest is what `init` writes.
        pub cometbft: Table = Table::new(),
        /// Keys of the `app.toml` of a simd and their values.
        pub simd: Table = Table::new(),
        /// Keys of its `genesis.json` and their values.
        pub genesis: Table = Table::new(),
        /// What CometBFT gets as `--proxy_app`.
        pub app: String = "kvstore".into(),
        /// How many btcds, each connected to the first, or CometBFT validators, each connected to all; the load goes to
        /// the first, and all are recorded.
        pub nodes: NonZeroU32 = NonZeroU32::MIN,
        /// The share of the time that the processes of a CometBFT, simd or btcd run; all of it without.
        #[serde(with = "text")]
        pub processor: Option<Share> = None,
        /// How many cores its processes have; all without.
        pub cores: Option<NonZeroU32> = None,
        /// The rate of the link in each direction: between the nodes of a network, else between the load and the node.
        #[serde(with = "text")]
        pub link: Option<BitRate> = None,
        /// How long it may take until its first block.
        #[serde(with = "text::value")]
        pub start_timeout: Nanos = Nanos::from_secs(60),
    }
}

/// Where transactions go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// The built-in node.
    Builtin,
    /// A real CometBFT in a home of its own.
    Cometbft,
    /// A real chain of the Cosmos SDK in a home of its own, with the load's accounts in its genesis.
    Simd,
    /// Real btcds in homes of their own, each connected to the first.
    Btcd,
    /// Nodes that are already there.
    Endpoints,
}

impl NodeKind {
    /// Whether a run starts it as processes of its own.
    pub(crate) const fn is_process(self) -> bool {
        matches!(self, Self::Cometbft | Self::Simd | Self::Btcd)
    }
}

base::settings! {
    /// A sentinel that a run starts in front of its node.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct SentinelSection {
        /// Whether there is one; so that a matrix can have runs with and without.
        pub enabled: bool = true,
        /// Its configuration file; where it listens and its upstream are filled in.
        pub config: Table = Table::new(),
        /// How long it may take until it answers for the node.
        #[serde(with = "text::value")]
        pub start_timeout: Nanos = Nanos::from_secs(30),
    }
}

impl NodeSection {
    /// Its kind, once chosen.
    pub fn kind(&self) -> NodeKind {
        self.kind.unwrap_or(NodeKind::Builtin)
    }

    /// Whether every run gets a node of its own; one that was there already is never new.
    pub fn is_fresh(&self) -> bool {
        self.fresh && self.kind() != NodeKind::Endpoints
    }

    /// A key that it has and that needs processes to act on.
    pub(crate) fn only_of_processes(&self) -> Option<&'static str> {
        let keys = [
            ("node.processor", self.processor.is_some()),
            ("node.cores", self.cores.is_some()),
            ("node.link", self.link.is_some()),
        ];
        keys.into_iter()
            .find_map(|(key, is_given)| is_given.then_some(key))
    }

    /// Settles the kind: the command line's, else the file's, else what the settings say.
    pub(super) fn choose(
        &mut self,
        given: Option<NodeKind>,
        settings: &Settings,
    ) -> anyhow::Result<()> {
        let found = !settings.endpoints.is_empty();
        let kind = given.or(self.kind).unwrap_or(if found {
            NodeKind::Endpoints
        } else {
            NodeKind::Builtin
        });
        if found && kind != NodeKind::Endpoints && given.is_none() {
            bail!("has both settings.endpoints and a node of its own; keep one of them");
        }
        self.kind = Some(kind);
        Ok(())
    }

    /// Takes the table `[builtin]` as `[node.builtin]`.
    pub(super) fn take_builtin(&mut self, other: Option<devnode::Blueprint>) -> anyhow::Result<()> {
        if self.builtin.is_some() && other.is_some() {
            bail!("has both [builtin] and [node.builtin]; they are the same, keep one");
        }
        self.builtin = self.builtin.take().or(other);
        Ok(())
    }
}
