//! Values that are one of a few words.

use std::marker::PhantomData;

use tracing::Level;

use super::{Given, Kind, quoted};
use crate::config::{AsyncAck, PaceMode, PauseAction, PauseMode, WriteOrder};

/// One of a few words.
pub(in crate::config) struct Choice<T>(PhantomData<T>);

/// A type whose values are words.
pub(in crate::config) trait Words: Copy + PartialEq + Sized + 'static {
    /// The words, in the order of the values.
    const WORDS: &'static [&'static str];
    /// Every value.
    const VALUES: &'static [Self];
}

impl<T: Words> Kind for Choice<T> {
    type Value = T;
    const WORDS: &'static [&'static str] = T::WORDS;

    fn read(given: &Given) -> Result<T, String> {
        let text = given.text()?;
        let mut all = T::WORDS.iter().zip(T::VALUES);
        all.find(|(word, _)| word.eq_ignore_ascii_case(text))
            .map(|(_, value)| *value)
            .ok_or_else(|| format!("{text:?} is none of {}", T::WORDS.join(", ")))
    }

    fn toml(value: &T) -> String {
        let mut all = T::WORDS.iter().zip(T::VALUES);
        let found = all.find(|(_, candidate)| *candidate == value);
        quoted(found.expect("every value has a word").0)
    }
}

impl Words for bool {
    const WORDS: &'static [&'static str] = &["false", "true"];
    const VALUES: &'static [Self] = &[false, true];
}

macro_rules! words {
    ($($type:ty: $($value:ident $word:literal),+;)+) => {
        $(impl Words for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];
            const VALUES: &'static [Self] = &[$(Self::$value),+];
        })+
    };
}

words! {
    WriteOrder: Connection "connection", Client "client", Account "account";
    AsyncAck: Buffered "buffered", Forwarded "forwarded";
    PaceMode: Adaptive "adaptive", Fixed "fixed", Off "off";
    PauseMode: Off "off", Interval "interval", Threshold "threshold", Both "both";
    PauseAction: Pause "pause", Reconnect "reconnect";
    Level: ERROR "error", WARN "warn", INFO "info", DEBUG "debug", TRACE "trace";
}
