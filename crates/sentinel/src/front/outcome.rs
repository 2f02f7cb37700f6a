//! How a request that was refused is counted.

use crate::metrics::OutcomeLabel;
use crate::refusal::Reason;

/// The outcome of a read that was refused.
pub(super) const fn of_read(reason: Reason) -> OutcomeLabel {
    match reason {
        Reason::Upstream | Reason::Shutdown => OutcomeLabel::Lost,
        _ => OutcomeLabel::Rejected,
    }
}

/// The outcome of a write that was refused after it had been queued.
pub(super) const fn of_write(reason: Reason) -> OutcomeLabel {
    match reason {
        Reason::QueueTimeout => OutcomeLabel::Expired,
        _ => of_read(reason),
    }
}
