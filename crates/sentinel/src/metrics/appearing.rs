//! Families whose series appear with the first event of their kind.
//!
//! Three transports, ten classes and five ends make 150 series of requests, of which a proxy has a
//! dozen in use: the others would be zeros in every scrape. No alert needs them (`config/prometheus`
//! goes by families that exist from the start). All ends of a class appear together, so `rate()` sees
//! the first expired write of a class whose writes were served before.

use std::sync::OnceLock;

use pacing::Nanos;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::{MethodClass, OutcomeLabel, Transport};
use super::{Labels, UPSTREAM_TIMES, metric, seconds};

/// Requests by transport, lane, class and end.
#[derive(Debug)]
pub(super) struct Requests {
    family: Family<Labels<4>, Counter>,
    rows: [[OnceLock<Row>; MethodClass::ALL.len()]; Transport::ALL.len()],
}

/// The counters of one transport and class, in the order of the ends.
type Row = [Counter; OutcomeLabel::ALL.len()];

impl Requests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            family: metric(
                registry,
                "requests",
                "Requests by their end; a class appears with its first request",
            ),
            rows: Default::default(),
        }
    }

    pub(super) fn count(&self, transport: Transport, class: MethodClass, outcome: OutcomeLabel) {
        let row =
            self.rows[transport.index()][class.index()].get_or_init(|| self.row(transport, class));
        row[outcome.index()].inc();
    }

    /// Reads that ended, in whatever way.
    pub(super) fn reads(&self) -> u64 {
        let is_read = |class: &MethodClass| !class.is_write();
        let of_class = |class: MethodClass| {
            let rows = self
                .rows
                .iter()
                .filter_map(move |rows| rows[class.index()].get());
            rows.flatten().map(Counter::get).sum::<u64>()
        };
        MethodClass::ALL
            .into_iter()
            .filter(is_read)
            .map(of_class)
            .sum()
    }

    fn row(&self, transport: Transport, class: MethodClass) -> Row {
        let lane = if class.is_write() { "write" } else { "read" };
        OutcomeLabel::ALL.map(|outcome| {
            self.family.get_or_create_owned(&[
                ("transport", transport.name()),
                ("lane", lane),
                ("method_class", class.name()),
                ("outcome", outcome.name()),
            ])
        })
    }
}

/// How long nodes take to answer, by class.
#[derive(Debug)]
pub(super) struct UpstreamTimes {
    family: Family<Labels<1>, Histogram, fn() -> Histogram>,
    classes: [OnceLock<Histogram>; MethodClass::ALL.len()],
}

impl UpstreamTimes {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let new: fn() -> Histogram = || Histogram::new(UPSTREAM_TIMES);
        let help = "Time nodes took to answer; a class appears with its first answer";
        let family = Family::new_with_constructor(new);
        Self {
            family: seconds(registry, "upstream_request_duration", help, family),
            classes: Default::default(),
        }
    }

    pub(super) fn observe(&self, class: MethodClass, took: Nanos) {
        let histogram = self.classes[class.index()].get_or_init(|| {
            let labels = [("method_class", class.name())];
            self.family.get_or_create_owned(&labels)
        });
        histogram.observe(took.as_secs_f64());
    }
}
