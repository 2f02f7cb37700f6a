//! A program that was built without the feature `fleet` sends every load itself.

use anyhow::anyhow;
use ops::command::{CommandError, usage};

use crate::live::Display;
use crate::plan::Plan;
use crate::run::{Outcome, RunError};
use crate::settings::Settings;
use crate::shutdown::Shutdown;

/// There is none.
pub(crate) enum Fleet {}

/// One load, as it would be shared.
#[expect(dead_code, reason = "nobody shares it")]
pub(crate) struct Shared<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) load: Option<Vec<String>>,
    pub(crate) settings: &'a Settings,
}

impl Fleet {
    pub(crate) fn of(_: &Settings, _: &Shutdown) -> Result<Option<Self>, CommandError> {
        Ok(None)
    }

    pub(crate) fn perform(
        &mut self,
        _: &Shared<'_>,
        _: &Shutdown,
        _: &mut Display,
    ) -> Result<Outcome, RunError> {
        match *self {}
    }
}

pub(crate) fn divided(settings: Settings) -> anyhow::Result<Settings> {
    Ok(settings)
}

pub(crate) fn conduct(_: &Shared<'_>, _: &Shutdown) -> Result<Outcome, CommandError> {
    Err(usage(anyhow!(
        "this program was built without the feature fleet"
    )))
}
