//! The sections of a configuration that belong to single kinds of nodes.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::duration;

/// A section, whatever its type.
pub trait Section: Any + fmt::Debug + Send + Sync {
    /// Whether another section is the same.
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<S: Any + fmt::Debug + PartialEq + Send + Sync> Section for S {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

/// The sections that were given, one of each type.
#[derive(Debug, Clone, Default)]
pub struct Sections(BTreeMap<TypeId, Arc<dyn Section>>);

impl Sections {
    /// The section of a type; its default if it was not given.
    pub fn of<S: Section + Clone + Default>(&self) -> S {
        let section = self.0.get(&TypeId::of::<S>());
        let given = section.and_then(|section| (&**section as &dyn Any).downcast_ref::<S>());
        given.cloned().unwrap_or_default()
    }

    /// Changes a section.
    pub fn change<S: Section + Clone + Default>(&mut self, change: impl FnOnce(&mut S)) {
        let mut section = self.of::<S>();
        change(&mut section);
        self.set(section);
    }

    /// Takes the place of a section of the same type.
    pub fn set<S: Section>(&mut self, section: S) {
        self.0.insert(TypeId::of::<S>(), Arc::new(section));
    }

    /// Reads a section.
    ///
    /// # Errors
    /// When a key is unknown or a value has the wrong type.
    pub fn read<S: Section + DeserializeOwned>(
        &mut self,
        section: Value,
    ) -> Result<(), serde_json::Error> {
        self.set(serde_json::from_value::<S>(section)?);
        Ok(())
    }
}

impl PartialEq for Sections {
    fn eq(&self, other: &Self) -> bool {
        let same = |(of, section): (&TypeId, &Arc<dyn Section>)| {
            let other = other.0.get(of);
            other.is_some_and(|other| (**section).equals(&**other as &dyn Any))
        };
        self.0.len() == other.0.len() && self.0.iter().all(same)
    }
}

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
