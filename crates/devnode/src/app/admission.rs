//! How an application's transactions are admitted, as the configuration has it.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::resume_unwind;
use std::sync::Arc;

use admission::{Admit, Counters, FastFilter, Layout, Pipeline, Refused, Secret, Serial, Settings};

use crate::config::{AdmissionConfig, AdmissionMode, cores};

/// Positions of the filter: none of 100,000 keys meets others by chance.
const POSITIONS: usize = 16;

/// One lock around everything, or validators and a committer.
pub enum Gate<A: Admit> {
    /// Checks one after the other.
    Serial(Serial<A>),
    /// Checks on several threads.
    Parallel(Pipeline<A, FastFilter>),
}

impl<A: Admit> fmt::Debug for Gate<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Serial(_) => "Serial",
            Self::Parallel(_) => "Parallel",
        })
    }
}

impl<A: Admit> Gate<A> {
    /// The gate of this mode, with what its checks see at first.
    pub fn new(config: &AdmissionConfig, mode: AdmissionMode, admit: A, view: A::View) -> Self {
        if mode == AdmissionMode::Serial {
            return Self::Serial(Serial::new(admit, view));
        }
        let layout = Layout::Secret {
            positions: POSITIONS,
            // The standard library's hashers are seeded by the system.
            secret: Secret::from_seed(RandomState::new().hash_one("admission")),
        };
        let filter = FastFilter::new(layout).expect("the number of positions is in its range");
        let settings = Settings {
            validators: cores(config.validators),
            epoch: config.epoch,
            capacity: config.capacity,
            ..Settings::default()
        };
        Self::Parallel(Pipeline::start(admit, view, filter, settings))
    }

    /// Hands transactions over, each of which is answered by [`Admit::decided`] unless it is refused here;
    /// the refusals with their places. Serial admission has checked them when it returns.
    pub async fn offer(self: &Arc<Self>, txs: Vec<A::Tx>) -> Vec<(usize, Refused)> {
        if let Self::Parallel(pipeline) = &**self {
            let submit = |(at, tx)| pipeline.submit(tx).err().map(|refused| (at, refused));
            return txs.into_iter().enumerate().filter_map(submit).collect();
        }
        let gate = Arc::clone(self);
        // A check is too long for a thread that serves clients.
        let checked = tokio::task::spawn_blocking(move || {
            if let Self::Serial(serial) = &*gate {
                txs.into_iter().for_each(|tx| serial.submit(tx));
            }
        });
        if let Err(error) = checked.await {
            resume_unwind(error.into_panic());
        }
        Vec::new()
    }

    /// Reads the view while checks on several threads go on, as [`Pipeline::read`] has it.
    pub fn read<R>(&self, read: impl FnOnce(&A::View) -> R) -> R {
        match self {
            Self::Serial(serial) => serial.pause(|view| read(view)),
            Self::Parallel(pipeline) => pipeline.read(read),
        }
    }

    /// Changes the view while nothing is checked.
    pub fn pause<R>(&self, change: impl FnOnce(&mut A::View) -> R) -> R {
        match self {
            Self::Serial(serial) => serial.pause(change),
            Self::Parallel(pipeline) => pipeline.pause(change),
        }
    }

    /// What it has done.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Serial(serial) => serial.counters(),
            Self::Parallel(pipeline) => pipeline.counters(),
        }
    }

    /// Ends its threads.
    pub fn stop(&self) {
        if let Self::Parallel(pipeline) = self {
            pipeline.stop();
        }
    }
}
