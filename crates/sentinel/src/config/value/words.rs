//! Values that are one of a few words.

use std::marker::PhantomData;

use fairq::Order;

use super::{Given, Kind, quoted};
use crate::config::{AsyncAck, LogLevel, PaceMode, PauseAction, PauseMode};

/// One of a few words.
pub(in crate::config) struct Choice<T>(PhantomData<T>);

/// A type whose values are words.
pub(in crate::config) trait Words: Copy + PartialEq + Sized + 'static {
    /// Every value with its word.
    const WORDS: &'static [(&'static str, Self)];
}

impl<T: Words> Kind for Choice<T> {
    type Value = T;

    fn read(given: &Given) -> Result<T, String> {
        let text = given.text()?;
        T::WORDS
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(text))
            .map(|(_, value)| *value)
            .ok_or_else(|| {
                let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
                format!("{text:?} is none of {}", words.join(", "))
            })
    }

    fn toml(value: &T) -> String {
        let word = T::WORDS.iter().find(|(_, candidate)| candidate == value);
        quoted(word.expect("every value has a word").0)
    }
}

impl Words for Order {
    const WORDS: &'static [(&'static str, Self)] =
        &[("connection", Self::Connection), ("client", Self::Client)];
}

impl Words for AsyncAck {
    const WORDS: &'static [(&'static str, Self)] =
        &[("buffered", Self::Buffered), ("forwarded", Self::Forwarded)];
}

impl Words for PaceMode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("adaptive", Self::Adaptive), ("fixed", Self::Fixed)];
}

impl Words for PauseMode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("interval", Self::Interval),
        ("threshold", Self::Threshold),
        ("both", Self::Both),
    ];
}

impl Words for PauseAction {
    const WORDS: &'static [(&'static str, Self)] =
        &[("pause", Self::Pause), ("reconnect", Self::Reconnect)];
}

impl Words for LogLevel {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}
