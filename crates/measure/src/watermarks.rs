//! How far every source has told its story.

use pacing::Nanos;

use crate::event::SourceId;

/// The watermark of each source and the instant that all of them are past.
#[derive(Debug)]
pub(crate) struct Watermarks {
    sources: Vec<Nanos>,
    max_lag: Nanos,
}

impl Watermarks {
    pub(crate) fn new(sources: usize, max_lag: Nanos) -> Self {
        Self {
            sources: vec![Nanos::ZERO; sources.max(1)],
            max_lag,
        }
    }

    /// Source `source` is past `t`; returns the instant that all are past. A source that lags more
    /// than `max_lag` behind the first one is not waited for, nor is one that has retired.
    pub(crate) fn raise(&mut self, source: SourceId, t: Nanos) -> Nanos {
        if let Some(mark) = self.sources.get_mut(usize::from(source.0)) {
            *mark = t.max(*mark);
        }
        self.low()
    }

    fn low(&self) -> Nanos {
        let active = || self.sources.iter().filter(|mark| **mark != Nanos::MAX);
        let lowest = active().min().copied().unwrap_or(Nanos::ZERO);
        let highest = active().max().copied().unwrap_or(Nanos::ZERO);
        lowest.max(highest.saturating_sub(self.max_lag))
    }
}
