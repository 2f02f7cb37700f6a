//! What is legal but probably not meant.

use super::Check;
use crate::config::{Config, PaceMode, PauseMode};

impl Check<'_> {
    pub(super) fn notices(&mut self, c: &Config) {
        if c.admin.addr.is_some_and(|admin| !admin.ip().is_loopback()) {
            self.notice(format!(
                "{} can be reached from outside: it has no authentication and names clients",
                self.setting("admin.addr")
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
                self.setting_of("trust.proxies", proxy)
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
                self.setting("pause.for"),
                self.setting("fair.queue_timeout"),
            ));
        }
    }
}
