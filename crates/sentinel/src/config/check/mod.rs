//! What must hold inside a value and between values. Each rule says what, where, and what to do.

mod addresses;
mod notices;

use std::fmt::{self, Display};
use std::time::Duration;

use super::Config;
use super::error::ConfigError;
use super::resolve::Resolved;
use super::value::{Kind as _, Size};

/// What is wrong; what is odd goes to the notices.
pub(super) fn check(resolved: &mut Resolved) -> Vec<ConfigError> {
    let config = resolved.config.clone();
    let mut check = Check {
        resolved,
        errors: Vec::new(),
    };
    check.positive(&config);
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
    fn value(&mut self, key: &'static str, reason: impl Into<String>) {
        self.errors.push(ConfigError::Value {
            key,
            origin: self.resolved.origin_of(key).clone(),
            reason: reason.into(),
        });
    }

    fn conflict(&mut self, text: String) {
        self.errors.push(ConfigError::Conflict { text });
    }

    fn notice(&mut self, text: impl Into<String>) {
        self.resolved.notices.push(text.into());
    }

    /// A key with its value and where it comes from, for sentences.
    fn told(&self, key: &str, value: impl Display) -> String {
        format!("{key} = {value} ({})", self.resolved.origin_of(key))
    }

    fn within<T: Copy + PartialOrd + Display>(
        &mut self,
        key: &'static str,
        value: T,
        low: T,
        high: T,
    ) {
        if value < low || value > high {
            self.value(key, format!("{value} is out of range; use {low} to {high}"));
        }
    }

    fn span(&mut self, key: &'static str, value: Duration, low: Duration, high: Duration) {
        let [value, low, high] = [value, low, high].map(pacing::Nanos::from);
        self.within(key, value, low, high);
    }

    fn size(&mut self, key: &'static str, value: usize, low: usize, high: usize) {
        self.within(key, Bytes(value), Bytes(low), Bytes(high));
    }

    /// The lower value is not above the upper one.
    fn order<T>(&mut self, lower: (&'static str, T), upper: (&'static str, T))
    where
        T: Copy + PartialOrd + Display,
    {
        if lower.1 > upper.1 {
            let text = format!(
                "{} is above {}; lower {} or raise {}",
                self.told(lower.0, lower.1),
                self.told(upper.0, upper.1),
                lower.0,
                upper.0,
            );
            self.conflict(text);
        }
    }

    fn spans(&mut self, lower: (&'static str, Duration), upper: (&'static str, Duration)) {
        let nanos = pacing::Nanos::from;
        self.order((lower.0, nanos(lower.1)), (upper.0, nanos(upper.1)));
    }

    /// Counts and rates of zero would switch the proxy off in a way nobody could explain.
    fn positive(&mut self, c: &Config) {
        let counts = [
            ("limits.connections", c.limits.connections),
            (
                "limits.connections_per_client",
                c.limits.connections_per_client,
            ),
            ("limits.headers", c.limits.headers),
            ("limits.batch", c.limits.batch),
            (
                "reads.concurrency_per_client",
                c.reads.concurrency_per_client,
            ),
            ("reads.concurrency", c.reads.concurrency),
            ("fair.commit_waiters", c.fair.commit_waiters),
            (
                "pace.inflight_per_connection",
                c.pace.inflight_per_connection,
            ),
            ("pace.inflight", c.pace.inflight),
            ("pace.mempool_size", c.pace.mempool_size.unwrap_or(1)),
        ];
        for (key, count) in counts {
            if count == 0 {
                self.value(key, "0 would let nothing through; use 1 or more");
            }
        }
        let rates = [
            ("reads.rate_per_client", c.reads.rate_per_client),
            ("fair.max_req", c.fair.max_req),
            ("pace.min_req", c.pace.min_req),
        ];
        for (key, rate) in rates {
            if rate.is_zero() {
                self.value(key, "0/s would let nothing through");
            }
        }
    }

    fn ranges(&mut self, c: &Config) {
        self.within("listen.threads", c.listen.threads, 1, 64);
        self.within("upstream.connections", c.upstream.connections, 1, 64);
        self.within("limits.depth", c.limits.depth, 1, 1_000);
        self.size("limits.header_bytes", c.limits.header_bytes, KIB, MIB);
        self.size("limits.uri_bytes", c.limits.uri_bytes, 64, MIB);
        self.size("limits.body_bytes", c.limits.body_bytes, KIB, GIB);
        self.size("reads.window_bytes", c.reads.window_bytes, 4 * KIB, GIB);
        self.size("ws.out_bytes", c.ws.out_bytes, 16 * KIB, GIB);
        self.size("buffer.bytes", c.buffer.bytes, 64 * KIB, 1_024 * GIB);
        self.within("fair.clients_max", c.fair.clients_max, 16, 10_000_000);
        let queue = c.fair.queue_per_client;
        self.within("fair.queue_per_client", queue, 1, 1 << 20);
        self.within("pace.mempool_fill", c.pace.mempool_fill, 0.05, 1.0);
        self.within("pause.min_fraction", c.pause.min_fraction, 0.05, 0.85);
        self.within("pause.jitter", c.pause.jitter, 0.0, 0.5);
        let (millisecond, hour) = (Duration::from_millis(1), Duration::from_secs(3_600));
        self.span("pace.burst", c.pace.burst, millisecond, MAX_BURST);
        for (key, span) in timeouts(c) {
            self.span(key, span, millisecond, hour);
        }
        let day = 24 * hour;
        self.span("pause.interval", c.pause.interval, millisecond, day);
        self.span("pause.min_run", c.pause.min_run, Duration::ZERO, day);
        self.span("pause.drain", c.pause.drain, Duration::ZERO, hour);
        self.span("pause.ramp", c.pause.ramp, Duration::ZERO, hour);
        self.span("shutdown.drain", c.shutdown.drain, Duration::ZERO, hour);
    }

    fn orders(&mut self, c: &Config) {
        let per_client = c.limits.connections_per_client;
        self.order(
            ("pace.min_req", c.pace.min_req),
            ("fair.max_req", c.fair.max_req),
        );
        self.order(
            ("limits.connections_per_client", per_client),
            ("limits.connections", c.limits.connections),
        );
        self.order(
            (
                "reads.concurrency_per_client",
                c.reads.concurrency_per_client,
            ),
            ("reads.concurrency", c.reads.concurrency),
        );
        self.order(
            (
                "pace.inflight_per_connection",
                c.pace.inflight_per_connection,
            ),
            ("pace.inflight", c.pace.inflight),
        );
        self.order(
            ("limits.uri_bytes", Bytes(c.limits.uri_bytes)),
            ("limits.header_bytes", Bytes(c.limits.header_bytes)),
        );
        self.order(
            ("limits.body_bytes", Bytes(c.limits.body_bytes)),
            ("buffer.bytes", Bytes(c.buffer.bytes)),
        );
        self.spans(
            ("ws.ping_interval", c.ws.ping_interval),
            ("ws.read_timeout", c.ws.read_timeout),
        );
        self.breaks(c);
    }

    fn breaks(&mut self, c: &Config) {
        let pause = &c.pause;
        if pause.mode.by_clock() {
            self.spans(
                ("pause.min_run", pause.min_run),
                ("pause.interval", pause.interval),
            );
        }
        self.spans(
            ("pause.for", pause.length),
            ("pause.max_pause", pause.max_pause),
        );
        self.spans(
            ("pause.drain", pause.drain),
            ("pause.max_pause", pause.max_pause),
        );
        if let Some(rate) = pause.min_tx_rate {
            if rate.is_zero() {
                self.value(
                    "pause.min_tx_rate",
                    "0/s is never fallen below; use learn or a rate",
                );
            }
            self.order(
                ("pause.min_tx_rate", rate),
                ("fair.max_req", c.fair.max_req),
            );
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
            let allowed = self.told("trust.allow", network);
            let denied = self.told("trust.deny", network);
            self.conflict(format!(
                "{allowed} stands against {denied}; keep one of the two"
            ));
        }
    }
}

/// A number of bytes, shown as people write it.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Bytes(usize);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Size::toml(&self.0).trim_matches('"'))
    }
}

/// Every setting that must be more than nothing and is never more than an hour.
fn timeouts(c: &Config) -> [(&'static str, Duration); 16] {
    [
        ("upstream.health_interval", c.upstream.health_interval),
        ("upstream.connect_timeout", c.upstream.connect_timeout),
        ("upstream.read_timeout", c.upstream.read_timeout),
        ("upstream.write_timeout", c.upstream.write_timeout),
        ("limits.header_timeout", c.limits.header_timeout),
        ("limits.body_timeout", c.limits.body_timeout),
        ("limits.idle_timeout", c.limits.idle_timeout),
        ("limits.write_timeout", c.limits.write_timeout),
        ("reads.burst_per_client", c.reads.burst_per_client),
        ("fair.queue_timeout", c.fair.queue_timeout),
        ("fair.commit_timeout", c.fair.commit_timeout),
        ("pace.mempool_interval", c.pace.mempool_interval),
        ("pause.for", c.pause.length),
        ("pause.max_pause", c.pause.max_pause),
        ("ws.ping_interval", c.ws.ping_interval),
        ("ws.read_timeout", c.ws.read_timeout),
    ]
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

/// A burst above this would show in the node as a flood every now and then.
const MAX_BURST: Duration = Duration::from_millis(20);

/// Allow and deny share one table of 65,536; looking for doubles takes the square of this.
const MAX_NETWORKS: usize = 10_000;
const MAX_WEIGHT: u32 = 1_000;
