//! What is legal but probably not meant.

use super::Check;
use crate::config::{Config, PaceMode, PauseMode};

impl Check<'_> {
    pub(super) fn notices(&mut self, c: &Config) {
        if let Some(admin) = c.admin.addr.filter(|admin| !admin.ip().is_loopback()) {
            self.notice(format!(
                "{} can be reached from outside: it has no authentication and names clients",
                self.told("admin.addr", admin)
            ));
        }
        for proxy in c
            .trust
            .proxies
            .iter()
            .filter(|network| network.prefix() == 0)
        {
            self.notice(format!(
                "{} believes X-Forwarded-For of everybody: any client can choose its own address",
                self.told("trust.proxies", proxy)
            ));
        }
        if c.pace.mode == PaceMode::Fixed && self.resolved.origin_of("pace.min_req").is_given() {
            self.notice("pace.min_req has no effect while pace.mode is fixed");
        }
        if c.pause.mode == PauseMode::Off && self.resolved.origin_of("pause.action").layer() > 1 {
            self.notice("pause.action has no effect while pause.mode is off; add --pause-interval or --min-tx-rate");
        }
        if c.pause.mode != PauseMode::Off && c.pause.length > c.fair.queue_timeout {
            self.notice(format!(
                "{} is longer than {}: clients will see errors in a break",
                self.told("pause.for", pacing::Nanos::from(c.pause.length)),
                self.told(
                    "fair.queue_timeout",
                    pacing::Nanos::from(c.fair.queue_timeout)
                ),
            ));
        }
    }
}
