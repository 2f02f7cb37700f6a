//! How busy the built-in node's admission is while it is loaded.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use measure::{Evidence, EvidenceKind, LimitedBy, StageEvidence, Strength};
use report::text::grouped;

use super::Node;
use crate::BitcoinAdmission;

/// Asks a built-in node what its admission does, until it is stopped.
#[derive(Debug)]
pub(crate) struct AdmissionWatch {
    /// Dropped to stop it.
    stop: Sender<()>,
    thread: JoinHandle<Vec<Sample>>,
}

/// What admission had done by an instant.
#[derive(Debug, Clone)]
struct Sample {
    at: Instant,
    admission: BitcoinAdmission,
}

/// Admission in the tenth of the load, of a second at least, in which it was busiest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Busiest {
    mode: String,
    validators: u64,
    /// Of the time of all its threads.
    share: f64,
    /// Transactions checked a second.
    rate: f64,
}

impl AdmissionWatch {
    /// `None` for a node without these counters.
    pub(crate) fn start(node: Node) -> Option<Self> {
        node.ask(|client| client.admission()).ok()?;
        let (stop, stopped) = mpsc::channel::<()>();
        let watch = move || {
            let mut samples = Vec::new();
            while samples.len() < MOST_SAMPLES {
                if let Ok(admission) = node.ask(|client| client.admission()) {
                    let at = Instant::now();
                    samples.push(Sample { at, admission });
                }
                if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            samples
        };
        let thread = thread::Builder::new().name("admission".into()).spawn(watch);
        let thread = thread.ok()?;
        Some(Self { stop, thread })
    }

    /// What it saw, once the load is over.
    pub(crate) fn finish(self) -> Option<Busiest> {
        drop(self.stop);
        busiest(&self.thread.join().ok()?)
    }
}

/// The tenth of the time, a second at least, in which admission was busiest: a burst is not what holds a load back.
fn busiest(samples: &[Sample]) -> Option<Busiest> {
    let first = samples.first()?.admission.clone();
    let lasted = samples.last()?.at - samples[0].at;
    let stretch = (lasted / STRETCHES).max(LEAST_STRETCH);
    let stretches = samples.iter().enumerate().filter_map(|(place, from)| {
        let until = samples[place..]
            .iter()
            .find(|until| until.at - from.at >= stretch)?;
        let took = (until.at - from.at).as_secs_f64();
        let nanos = until.admission.checking_ns - from.admission.checking_ns;
        let checked = until.admission.checked - from.admission.checked;
        let threads = first.validators.max(1) as f64;
        Some((nanos as f64 / 1e9 / took / threads, checked as f64 / took))
    });
    let (share, rate) = stretches.max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(Busiest {
        mode: first.mode,
        validators: first.validators,
        share,
        rate,
    })
}

impl Busiest {
    /// A line for people.
    pub(crate) fn line(&self) -> String {
        let Self {
            mode,
            validators,
            share,
            rate,
        } = self;
        let threads = match validators {
            1 => "one thread".to_owned(),
            validators => format!("{validators} threads"),
        };
        format!(
            "admission    {mode}, {threads}: at work for {:.0} % of its busiest stretch, at {}/s\n",
            share * 100.0,
            grouped(*rate as u64)
        )
    }

    /// Evidence that it is what held the load back, if it is serial and was at work nearly all the time.
    pub(crate) fn evidence(&self) -> Option<Evidence> {
        let is_limit = self.validators == 1 && self.share >= BUSY;
        is_limit.then(|| Evidence {
            kind: EvidenceKind::SerialStage(StageEvidence::Admission {
                mode: self.mode.clone(),
                share: self.share,
                rate_tps: self.rate,
            }),
            points_to: LimitedBy::Node,
            strength: Strength::Strong,
            txs: 0,
            from_s: None,
            until_s: None,
        })
    }
}

/// Under the lock a transaction is also decoded into the mempool and counted: checking alone is never all
/// of the time.
const BUSY: f64 = 0.7;
const INTERVAL: Duration = Duration::from_millis(250);
const STRETCHES: u32 = 10;
const LEAST_STRETCH: Duration = Duration::from_secs(1);
/// Four hours of a run; 100 bytes each.
const MOST_SAMPLES: usize = 57_600;

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(validators: u64, busy_ms: &[u64]) -> Vec<Sample> {
        let begin = Instant::now();
        let (mut checking_ns, mut checked) = (0, 0);
        (0..)
            .zip(busy_ms)
            .map(|(place, busy)| {
                checking_ns += busy * 1_000_000;
                checked += busy * 10;
                let admission = BitcoinAdmission {
                    mode: if validators == 1 {
                        "serial"
                    } else {
                        "parallel"
                    }
                    .into(),
                    validators,
                    checked,
                    checking_ns,
                };
                let at = begin + Duration::from_millis(place * 250);
                Sample { at, admission }
            })
            .collect()
    }

    #[test]
    fn serial_admission_that_is_always_at_work_is_named_as_the_limit() {
        let busy = busiest(&samples(1, &[0, 50, 240, 240, 240, 240, 10])).unwrap();
        assert!(
            (busy.share - 0.96).abs() < 1e-9 && (busy.rate - 9_600.0).abs() < 1e-6,
            "{busy:?}"
        );
        let evidence = busy.evidence().unwrap();
        let EvidenceKind::SerialStage(StageEvidence::Admission {
            mode,
            share,
            rate_tps,
        }) = &evidence.kind
        else {
            panic!("{evidence:?}");
        };
        assert_eq!(
            (&**mode, *share, *rate_tps),
            ("serial", busy.share, busy.rate)
        );
    }

    #[test]
    fn a_second_of_catching_up_in_a_minute_is_no_limit() {
        let mut busy_ms = vec![60; 240];
        busy_ms[100..104].fill(240);
        let busy = busiest(&samples(1, &busy_ms)).unwrap();
        assert!(busy.share < 0.4, "{busy:?}");
        assert_eq!(busy.evidence(), None);
    }

    #[test]
    fn admission_that_rests_or_has_several_threads_is_not() {
        let idle = busiest(&samples(1, &[0, 100, 100, 100, 100, 100])).unwrap();
        assert_eq!(idle.evidence(), None);
        let parallel = busiest(&samples(2, &[0, 480, 480, 480, 480, 480])).unwrap();
        assert!((parallel.share - 0.96).abs() < 1e-9);
        assert_eq!(parallel.evidence(), None);
        assert_eq!(
            busiest(&samples(1, &[0, 250, 250])),
            None,
            "less than a second"
        );
    }
}
