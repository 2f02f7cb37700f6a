//! Kinds of nodes, and a node as it is to be built.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::de;
use serde_json::{Map, Value};

use crate::app::kvstore::KvStore;
use crate::config::{Config, ConfigError, MempoolConfig, RpcConfig, Sections};
use crate::host::{Host, RPC, Setup};
use crate::node::Node;

/// A kind of node: its section of the configuration, where it listens, and how it is built.
pub trait Kind: fmt::Debug + Sync {
    /// Its name: the value of `app`, and the section of the configuration that is its own.
    fn name(&self) -> &'static str;

    /// What it is, in a list of all kinds.
    fn about(&self) -> &'static str {
        ""
    }

    /// What a node of the kind is called.
    fn title(&self) -> &'static str {
        "node"
    }

    /// Reads its own section.
    ///
    /// # Errors
    /// When a key is unknown or a value has the wrong type.
    fn read(&self, _section: Value, _into: &mut Sections) -> Result<(), serde_json::Error> {
        Err(de::Error::custom("it has no section"))
    }

    /// Refuses what cannot work in its own section.
    ///
    /// # Errors
    /// [`ConfigError`] for the first value that is out of range.
    fn validate(&self, _config: &Config) -> Result<(), ConfigError> {
        Ok(())
    }

    /// The usual limits of a node of the kind.
    fn limits(&self) -> (MempoolConfig, RpcConfig) {
        Default::default()
    }

    /// Whether its transactions spend, so that the section `admission` applies to them.
    fn spends(&self) -> bool {
        false
    }

    /// What else bounds the rate of such a node, as the end of a sentence.
    fn ceiling(&self, _config: &Config) -> String {
        String::new()
    }

    /// Where clients look for the RPC of a node that runs on its own.
    fn port(&self) -> u16 {
        26_657
    }

    /// Where clients of its other services look for them: settings of its section, with their values.
    fn ports(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Where clients find a node, by the names of the services.
    fn urls(&self, host: &Host) -> Vec<(&'static str, String)> {
        let rpc = host.rpc_address();
        vec![
            (RPC, format!("http://{rpc}")),
            ("ws", format!("ws://{rpc}/websocket")),
        ]
    }

    /// Where it listens beside [`RPC`], each by the name of the service.
    fn listens(&self, _config: &Config) -> Vec<(&'static str, SocketAddr)> {
        Vec::new()
    }

    /// Builds the node, with an endpoint for each name.
    fn build(&self, host: &Arc<Host>) -> Setup;
}

impl PartialEq for dyn Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// A kind of node with its configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Blueprint {
    /// The kind: `app` of the configuration. Default `kvstore`.
    pub kind: &'static dyn Kind,
    /// The configuration.
    pub config: Config,
}

impl From<Config> for Blueprint {
    fn from(config: Config) -> Self {
        let kind = &Kvstore;
        Self { kind, config }
    }
}

impl Default for Blueprint {
    fn default() -> Self {
        Config::default().into()
    }
}

impl Blueprint {
    /// A node of this kind, with the limits that are usual for it.
    pub fn of(kind: &'static dyn Kind) -> Self {
        Self::default().for_kind(kind)
    }

    /// The same node of another kind. It gets the kind's usual limits where it has the common ones.
    #[must_use]
    pub fn for_kind(self, kind: &'static dyn Kind) -> Self {
        let (mempool, rpc) = kind.limits();
        let mut config = self.config;
        if config.mempool == MempoolConfig::default() {
            config.mempool = mempool;
        }
        if config.rpc == RpcConfig::default() {
            config.rpc = rpc;
        }
        Self { kind, config }
    }

    /// Reads a configuration in which `app` names one of these kinds, each with a section of its own.
    ///
    /// # Errors
    /// [`ConfigError`] for unknown names and keys, and for values of the wrong type.
    pub fn read(
        mut table: Map<String, Value>,
        kinds: &[&'static dyn Kind],
    ) -> Result<Self, ConfigError> {
        let app = table.remove("app").unwrap_or(Value::from(Kvstore.name()));
        let named = kinds.iter().find(|kind| app == kind.name());
        let unknown = || {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            ConfigError(format!("app is {app}: give it {}", names.join(", ")))
        };
        let kind = *named.ok_or_else(unknown)?;
        let mut sections = Sections::default();
        for kind in kinds {
            if let Some(section) = table.remove(kind.name()) {
                let wrong = |error| ConfigError(format!("{}: {error}", kind.name()));
                kind.read(section, &mut sections).map_err(wrong)?;
            }
        }
        let common: Config = serde_json::from_value(Value::Object(table))
            .map_err(|error| ConfigError(error.to_string()))?;
        let config = Config { sections, ..common };
        Ok(Self { kind, config })
    }

    /// Refuses what cannot work.
    ///
    /// # Errors
    /// [`ConfigError`] for the first value that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.config.validate()?;
        self.kind.validate(&self.config)
    }

    /// What the node commits at most, and the setting that bounds it, in words.
    pub fn ceiling(&self) -> String {
        self.config.ceiling() + &self.kind.ceiling(&self.config)
    }
}

/// A node with the key-value application.
#[derive(Debug)]
pub(crate) struct Kvstore;

impl Kind for Kvstore {
    fn name(&self) -> &'static str {
        "kvstore"
    }

    fn about(&self) -> &'static str {
        "CometBFT's key-value example"
    }

    fn build(&self, host: &Arc<Host>) -> Setup {
        Node::new(host, Arc::new(KvStore::new(host.config().retain_keys))).setup()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// A kind with a section.
    #[derive(Debug)]
    struct Stall;

    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct StallConfig {
        fish: usize,
    }

    impl Kind for Stall {
        fn name(&self) -> &'static str {
            "stall"
        }

        fn read(&self, section: Value, into: &mut Sections) -> Result<(), serde_json::Error> {
            into.read::<StallConfig>(section)
        }

        fn build(&self, host: &Arc<Host>) -> Setup {
            Kvstore.build(host)
        }
    }

    fn read(text: &str) -> Result<Blueprint, ConfigError> {
        Blueprint::read(serde_json::from_str(text).unwrap(), &[&Kvstore, &Stall])
    }

    #[test]
    fn a_section_goes_with_its_kind_whether_or_not_the_kind_is_chosen() {
        let text = r#"{"stall":{"fish":7},"retain_blocks":5}"#;
        let node = read(text).unwrap();
        assert_eq!(
            (node.kind.name(), node.config.retain_blocks),
            ("kvstore", 5)
        );
        let same = Config {
            retain_blocks: 5,
            ..Config::default()
        };
        assert_ne!(node, same.clone().into());
        assert_eq!(node, same.with(StallConfig { fish: 7 }).into());
        assert_eq!(node.config.sections.of::<StallConfig>().fish, 7);
        let chosen = read(r#"{"app":"stall"}"#).unwrap();
        assert_eq!(chosen, Blueprint::of(&Stall));
        assert_ne!(chosen, Blueprint::default());
    }

    #[test]
    fn unknown_keys_are_refused() {
        for (text, key) in [
            (r#"{"mempool":{"sise":1}}"#, "sise"),
            (r#"{"stal":{"fish":1}}"#, "stal"),
            (r#"{"stall":{"fisch":1}}"#, "fisch"),
            (r#"{"kvstore":{}}"#, "kvstore"),
            (r#"{"app":"stahl"}"#, "kvstore, stall"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
