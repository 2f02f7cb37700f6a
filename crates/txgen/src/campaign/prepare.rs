//! Every run of a script checked before the first one starts, and how long they will take.

use std::time::Duration;

use anyhow::Context as _;
use pacing::Nanos;
use report::Table;
use rpc::{Endpoint, Transport};

use crate::chains::WorkloadKind;
use crate::fleet::{self, Shared};
use crate::managed::Stage;
use crate::output;
use crate::plan::{Plan, PlanError};
use crate::scenario::{NodeKind, Script, ScriptRun};
use crate::settings::{GivenSettings, Settings};

/// A run whose settings are complete.
pub(super) struct Prepared<'a> {
    pub(super) script: &'a ScriptRun,
    pub(super) settings: Settings,
    pub(super) transport: Transport,
    pub(super) seed: u64,
    /// The plan as it is without the node that is started later.
    pub(super) check: Option<Plan>,
}

impl Prepared<'_> {
    /// The plan on the stage that was set for it.
    pub(super) fn plan(&self, stage: &Stage) -> Result<Plan, PlanError> {
        let mut settings = self.settings.clone();
        settings.endpoints = stage.endpoints().to_vec();
        settings.observe.extend(stage.observed());
        Plan::resolve(self.script.request.clone(), settings, self.seed)
    }

    /// The run as the workers of a fleet get it: a scenario of its own, with the settings that are the same for all.
    pub(super) fn shared<'a>(&'a self, script: &Script, plan: &'a Plan) -> Shared<'a> {
        let load = [
            "run".to_owned(),
            script.path.display().to_string(),
            format!("--text={}", self.script.text),
            format!("--scale={}", script.scale),
            "--node=endpoints".to_owned(),
        ];
        Shared {
            plan,
            load: Some(load.into()),
            settings: &self.settings,
        }
    }
}

/// Completes and checks all runs; `flags` beat the file, `fresh_seed` is used where it names none.
pub(super) fn prepare<'a>(
    script: &'a Script,
    flags: &GivenSettings,
    fresh_seed: u64,
) -> anyhow::Result<Vec<Prepared<'a>>> {
    let mut prepared: Vec<Prepared<'a>> = Vec::with_capacity(script.runs.len());
    for (number, run) in script.runs.iter().enumerate() {
        let label = run.label();
        let mut made = complete(run, number, flags, fresh_seed)?;
        let plan = checked(&made);
        made.check = Some(if script.runs.len() == 1 {
            plan?
        } else {
            plan.with_context(|| format!("run {label:?}"))?
        });
        prepared.push(made);
    }
    distinct(&prepared)?;
    if script.campaign.is_some() {
        // There may be thousands of runs, and nothing reads their plans again.
        for run in &mut prepared {
            run.check = None;
        }
    }
    Ok(prepared)
}

/// The plan of a run whose node, sentinel and workers can be had together.
fn checked(made: &Prepared<'_>) -> anyhow::Result<Plan> {
    let run = made.script;
    let starts = run.node.kind() != NodeKind::Endpoints || run.sentinel.is_some();
    if made.settings.workers().is_some() && starts {
        anyhow::bail!(
            "--workers: a fleet loads nodes that are there (--endpoints); it starts no node and no sentinel, \
             and so proves nothing of them"
        );
    }
    if run.node.kind() == NodeKind::Endpoints && made.settings.endpoints.is_empty() {
        anyhow::bail!("its node is of kind endpoints, but none are given; use --endpoints");
    }
    if let Some(key) = run.node.only_of_processes()
        && !run.node.kind().is_process()
    {
        anyhow::bail!("{key} is for nodes that are processes: cometbft, simd or btcd");
    }
    let facts = made.settings.target().facts();
    if let Some(problem) = facts.no_sentinel.filter(|_| run.sentinel.is_some()) {
        anyhow::bail!(problem);
    }
    let cometbft = run.node.kind() == NodeKind::Cometbft;
    if let Some(problem) = facts.no_managed_cometbft.filter(|_| cometbft) {
        anyhow::bail!(problem);
    }
    if run.node.kind() == NodeKind::Btcd && facts.name != "bitcoin" {
        anyhow::bail!(
            "a btcd takes Bitcoin transactions; use workload = \"bitcoin\" and no target"
        );
    }
    let chain = made
        .settings
        .workload
        .as_ref()
        .and_then(WorkloadKind::chain);
    let is_for_cosmos = chain.is_some_and(|chain| chain.name() == "Cosmos SDK");
    if run.node.kind() == NodeKind::Simd && !is_for_cosmos {
        anyhow::bail!(
            "a simd takes transactions of a Cosmos SDK chain; use workload = \"cosmos-send\""
        );
    }
    run.request
        .builtin
        .validate()
        .context("the built-in node's configuration")?;
    Ok(Plan::resolve(
        run.request.clone(),
        made.settings.clone(),
        made.seed,
    )?)
}

fn complete<'a>(
    run: &'a ScriptRun,
    number: usize,
    flags: &GivenSettings,
    fresh_seed: u64,
) -> anyhow::Result<Prepared<'a>> {
    let mut settings = flags.over(run.settings.clone())?;
    if run.node.kind() != NodeKind::Endpoints {
        settings.endpoints.clear();
    }
    // Transactions repeated on one chain would be refused; on a fresh one, what is compared gets the
    // same load.
    let own = if run.node.is_fresh() {
        u64::from(run.repeat) - 1
    } else {
        number as u64
    };
    let base = settings.seed.unwrap_or(fresh_seed);
    let seed = if run.seeded {
        base
    } else {
        base.wrapping_add(own)
    };
    settings.seed = Some(seed);
    // Those of all runs are the same: they were funded.
    settings.accounts_seed = settings.accounts_seed.or(Some(base));
    let settings = fleet::divided(settings)?;
    Ok(Prepared {
        script: run,
        transport: settings
            .transport
            .or_else(|| settings.endpoints.first().map(Endpoint::transport))
            .unwrap_or(Transport::Http),
        settings,
        seed,
        check: None,
    })
}

/// Refuses runs that differ by name only: a flag has overridden what is swept.
fn distinct(prepared: &[Prepared]) -> anyhow::Result<()> {
    let mut seen: Vec<(String, String)> = prepared
        .iter()
        .filter(|run| run.script.repeat == 1 && run.script.is_varied())
        .map(|run| {
            let mut settings = run.settings.clone();
            settings.seed = None;
            let script = run.script;
            let what = (&script.request.load, &settings, &script.sentinel);
            (format!("{what:?}{}", node(script)), script.label())
        })
        .collect();
    seen.sort();
    let same = seen.windows(2).find(|pair| pair[0].0 == pair[1].0);
    if let Some(pair) = same {
        anyhow::bail!(
            "the runs {:?} and {:?} would be the same: a flag overrides what the matrix sweeps, or \
             the key has no effect on this kind of node",
            pair[0].1,
            pair[1].1
        );
    }
    Ok(())
}

/// What makes a difference on the kind of node that is used.
fn node(run: &ScriptRun) -> String {
    let node = &run.node;
    let of_kind = match node.kind() {
        NodeKind::Endpoints => String::new(),
        NodeKind::Builtin => format!("{:?}", run.request.builtin),
        NodeKind::Cometbft => format!("{:?}{:?}{}", node.cometbft, node.genesis, node.app),
        NodeKind::Simd => format!("{:?}{:?}{:?}", node.cometbft, node.genesis, node.simd),
        NodeKind::Btcd => format!("{} btcds", node.nodes),
    };
    format!(
        "{of_kind}{:?}{:?}{:?}",
        node.processor, node.cores, node.link
    )
}

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

/// How long a script takes, as far as it sets that itself.
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

/// A span of time in words.
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
        return runs[0]
            .check
            .as_ref()
            .map_or(String::new(), output::preview);
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
