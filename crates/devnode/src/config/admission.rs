//! How transactions are admitted to a mempool, by kinds of nodes whose transactions spend.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use crate::duration;

base::settings! {
    /// Admission's section.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct AdmissionConfig {
        /// How transactions are admitted. None, the default, is as the original does: BigchainDB holds
        /// spends against what is committed alone, and Bitcoin admits one transaction after the other.
        pub mode: Option<AdmissionMode> = None,
        /// Threads that check, if that is parallel; 0 for one per core. Default 0.
        pub validators: usize = 0,
        /// Longest time between commits of what was accepted, if that is parallel. Default `500ms`.
        #[serde(with = "duration")]
        pub epoch: Duration = Duration::from_millis(500),
        /// Most transactions under way at once, if that is parallel. Default 100,000.
        pub capacity: usize = 100_000,
    }
}

/// How transactions are admitted to a mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdmissionMode {
    /// One after the other, under one lock.
    Serial,
    /// On several threads, in epochs without conflicts (the crate `admission`).
    Parallel,
}

/// A number of threads, of which 0 stands for one per core.
pub fn cores(threads: usize) -> usize {
    if threads > 0 {
        return threads;
    }
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}
