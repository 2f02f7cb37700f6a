//! Rules inside a value and between values. Each error names the value, its origin and a remedy.

mod addresses;
mod notices;

use std::fmt::Display;

use super::Config;
use super::error::ConfigError;
use super::keys::{KEYS, find};
use super::resolve::{PAIRS, Resolved};
use super::value::plain_text;

/// What is wrong; what is odd goes to the notices.
pub(super) fn check(resolved: &mut Resolved) -> Vec<ConfigError> {
    let config = resolved.config.clone();
    let mut check = Check {
        resolved,
        errors: Vec::new(),
    };
    check.ranges(&config);
    check.orders(&config);
    check.addresses(&config);
    check.lists(&config);
    check.notices(&config);
    check.errors
}

struct Check<'a> {
    resolved: &'a mut Resolved,
    errors: Vec<ConfigError>,
}

impl Check<'_> {
    fn value(&mut self, key: &'static str, reason: impl Display) {
        let origin = self.resolved.origin_of(key);
        self.errors.push(ConfigError::value(key, origin, reason));
    }

    fn conflict(&mut self, text: String) {
        self.errors.push(ConfigError::conflict(text));
    }

    fn notice(&mut self, text: impl Into<String>) {
        self.resolved.notices.push(text.into());
    }

    /// A key with its value and where it comes from, for sentences.
    fn setting(&self, key: &'static str) -> String {
        let toml = find(key).map(|place| KEYS[place].value(&self.resolved.config));
        self.setting_of(key, plain_text(&toml.unwrap_or_default()))
    }

    /// The same with one value of a list.
    fn setting_of(&self, key: &str, value: impl Display) -> String {
        format!("{key} = {value} ({})", self.resolved.origin_of(key))
    }

    fn ranges(&mut self, c: &Config) {
        for key in KEYS {
            if let Err(reason) = (key.check)(c) {
                self.value(key.name, reason);
            }
        }
        if c.pace.mempool_size == Some(0) {
            self.value(
                "pace.mempool_size",
                "0 would let nothing through; use 1 or more",
            );
        }
    }

    /// The lower value must not be above the upper one.
    fn order(&mut self, lower: &'static str, upper: &'static str, is_above: bool) {
        if is_above {
            let (low, high) = (self.setting(lower), self.setting(upper));
            self.conflict(format!(
                "{low} is above {high}; lower {lower} or raise {upper}"
            ));
        }
    }

    fn orders(&mut self, c: &Config) {
        for pair in PAIRS {
            self.order(pair.lower, pair.upper, (pair.is_above)(c));
        }
        let (ws, pause) = (&c.ws, &c.pause);
        self.order(
            "ws.ping_interval",
            "ws.read_timeout",
            ws.ping_interval > ws.read_timeout,
        );
        let is_longer = pause.mode.by_clock() && pause.min_run > pause.interval;
        self.order("pause.min_run", "pause.interval", is_longer);
        self.order(
            "pause.for",
            "pause.max_pause",
            pause.length > pause.max_pause,
        );
        self.order(
            "pause.drain",
            "pause.max_pause",
            pause.drain > pause.max_pause,
        );
        if let Some(rate) = pause.min_tx_rate {
            if rate.is_zero() {
                let text = "throughput never falls below 0/s; use learn or a rate";
                self.value("pause.min_tx_rate", text);
            }
            self.order("pause.min_tx_rate", "fair.max_req", rate > c.fair.max_req);
        }
    }

    fn lists(&mut self, c: &Config) {
        let methods = [
            ("reads.allow_methods", &c.reads.allow_methods),
            ("reads.refuse_methods", &c.reads.refuse_methods),
        ];
        for (key, patterns) in methods {
            for pattern in patterns {
                let name = pattern.strip_suffix('*').unwrap_or(pattern);
                if name.contains('*') || pattern.is_empty() {
                    self.value(
                        key,
                        format!("{pattern:?} is no method; a * may stand at the end only"),
                    );
                }
            }
        }
        let networks = [
            ("trust.proxies", c.trust.proxies.len()),
            ("trust.allow", c.trust.allow.len()),
            ("trust.deny", c.trust.deny.len()),
            ("fair.weights", c.fair.weights.len()),
        ];
        for (key, count) in networks {
            if count > MAX_NETWORKS {
                self.value(key, format!("more than {MAX_NETWORKS} networks"));
            }
        }
        for (index, (network, weight)) in c.fair.weights.iter().enumerate() {
            if !(1..=MAX_WEIGHT).contains(weight) {
                self.value(
                    "fair.weights",
                    format!("{network} has weight {weight}; use 1 to {MAX_WEIGHT}"),
                );
            }
            if c.fair.weights[..index]
                .iter()
                .any(|(other, _)| other == network)
            {
                self.value(
                    "fair.weights",
                    format!("{network} is given twice; keep one"),
                );
            }
        }
        for network in c
            .trust
            .allow
            .iter()
            .filter(|network| c.trust.deny.contains(network))
        {
            let allowed = self.setting_of("trust.allow", network);
            let denied = self.setting_of("trust.deny", network);
            self.conflict(format!(
                "{allowed} conflicts with {denied}; keep one of the two"
            ));
        }
    }
}

/// Allow and deny share one table of 65,536; looking for doubles takes the square of this.
const MAX_NETWORKS: usize = 10_000;
const MAX_WEIGHT: u32 = 1_000;
