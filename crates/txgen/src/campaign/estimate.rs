//! How long a campaign takes, said before it begins.

use std::time::Duration;

use pacing::Nanos;
use report::Table;

use super::prepare::Prepared;
use crate::output::preview;
use crate::scenario::{Script, ScriptRun};

/// Refuses what would take more than a day and was not asked for twice.
pub(super) fn patience(script: &Script) -> anyhow::Result<()> {
    let estimate = Estimate::of(script);
    if estimate.known > LONGEST_UNASKED {
        anyhow::bail!(
            "{} would take {estimate}: say --yes to begin, or choose a --scale (0.01 is a hundredth), \
             --only some of its runs, or fewer with --set",
            script.path.display()
        );
    }
    Ok(())
}

/// How long a script takes, as far as it says so itself.
pub(super) struct Estimate {
    known: Duration,
    runs: usize,
    unknown: usize,
}

impl Estimate {
    pub(super) fn of(script: &Script) -> Self {
        let spans: Vec<Option<Nanos>> = script.runs.iter().map(ScriptRun::duration).collect();
        let offered: Nanos = spans
            .iter()
            .flatten()
            .fold(Nanos::ZERO, |sum, span| sum.saturating_add(*span));
        let pause = script.campaign.as_ref().map_or(Nanos::ZERO, |it| it.pause);
        let pauses = pause.saturating_mul(spans.len().saturating_sub(1) as u64);
        Self {
            known: offered.saturating_add(pauses).as_duration(),
            runs: spans.len(),
            unknown: spans.iter().filter(|span| span.is_none()).count(),
        }
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = if self.runs == 1 { "" } else { "s" };
        write!(f, "{} run{plural}, {}", self.runs, rough(self.known))?;
        match self.unknown {
            0 => f.write_str(" and the drains"),
            1 => f.write_str(", and one without an end of its own"),
            unknown => write!(f, ", and {unknown} without an end of their own"),
        }
    }
}

/// A span of time as people say it.
fn rough(span: Duration) -> String {
    let seconds = span.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{:.1} s", span.as_secs_f64()),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} days {hours} h"),
    }
}

pub(super) fn dry_run(script: &Script, runs: &[Prepared<'_>]) -> String {
    if script.campaign.is_none() {
        return runs[0].check.as_ref().map_or(String::new(), preview);
    }
    let mut text = format!("{}: {}\n", script.name, Estimate::of(script));
    let span = |run: &Prepared<'_>| match run.script.duration() {
        Some(span) => span.to_string(),
        None => "no end of its own".into(),
    };
    text += &Table::of(runs.iter().enumerate())
        .figure("", |(number, _)| (number + 1).to_string())
        .text("", |(_, run)| span(run))
        .text("", |(_, run)| run.script.label())
        .table()
        .at_least(&[5, 11])
        .text();
    text
}

/// What takes longer than this is not begun by mistake.
const LONGEST_UNASKED: Duration = Duration::from_secs(24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_said_as_people_do() {
        let said = |seconds| rough(Duration::from_secs_f64(seconds));
        assert_eq!(said(0.25), "0.2 s");
        assert_eq!(said(61.0), "1 min 1 s");
        assert_eq!(said(9_824.0), "2 h 43 min");
        assert_eq!(said(200_000.0), "2 days 7 h");
    }
}
