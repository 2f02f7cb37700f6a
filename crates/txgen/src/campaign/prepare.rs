//! Every run of a script checked before the first one starts.

use anyhow::Context as _;
use rpc::{Endpoint, Transport};

use crate::chains::WorkloadKind;
use crate::fleet::{self, Shared};
use crate::managed::Stage;
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
