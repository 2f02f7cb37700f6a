//! A mesh over several machines: each writes down what its nodes said, and `txmesh merge` makes one
//! run of all parts. A part has no summary: of a message that went to another machine it cannot tell what
//! became of it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail, ensure};
use harness::Part;
use harness::RunFolder;
use serde::{Deserialize, Serialize};

use super::account::Account;
use super::conduct::PlayedMesh;
use super::control::{NodeConfig, Word};
use super::load::MeshLoad;
use super::machine::MachineSecond;
use super::mix_file;
use super::plan::{Machines, MeshPlan};
use crate::settings::{CpuQuota, MeshSettings};

/// What a part leaves, a JSON document on each line.
const FILE: &str = "part.jsonl";
const FORMAT: &str = "tidegate.mesh-part/1";

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// What a node said.
    Node { node: u16, word: Box<Word> },
    /// A node ended before it was asked to.
    Ended { node: u16, at_s: f64 },
    /// What the machine did.
    Machine(MachineSecond),
    /// The last line.
    End(Box<End>),
}

/// What was played, and how it ended.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    format: String,
    /// Which of the machines, as `I/N`.
    shard: String,
    /// The configuration of one of its nodes: what it does not share with the others does not matter.
    config: NodeConfig,
    load: String,
    cpu_quota: Option<CpuQuota>,
    /// What has to be the same on all machines.
    plan: serde_json::Value,
    origin_unix_ns: u64,
    interrupted: bool,
    undrained: Option<String>,
}

/// The file while the load goes on.
pub(crate) struct PartFile {
    file: BufWriter<File>,
    /// The first error; what comes after it is left out.
    trouble: Option<std::io::Error>,
}

impl PartFile {
    /// Opens it in the run's folder.
    pub(crate) fn create(folder: &RunFolder) -> anyhow::Result<Self> {
        Ok(Self {
            file: BufWriter::new(folder.open(FILE)?),
            trouble: None,
        })
    }

    /// Notes what a node said, if it is part of the account.
    pub(crate) fn word(&mut self, node: u16, word: &Word) {
        if matches!(word, Word::Row(_) | Word::Done { .. }) {
            let word = Box::new(word.clone());
            self.line(&Line::Node { node, word });
        }
    }

    fn line(&mut self, line: &Line) {
        if self.trouble.is_none() {
            let written = serde_json::to_writer(&mut self.file, line).map_err(Into::into);
            let written = written.and_then(|()| self.file.write_all(b"\n"));
            self.trouble = written.err();
        }
    }

    /// Writes the rest, when the run is over.
    ///
    /// # Errors
    /// Where the file could not be written whole.
    pub(crate) fn end(mut self, plan: &MeshPlan, played: &PlayedMesh) -> anyhow::Result<()> {
        for (node, account) in (0..).zip(&played.account.nodes) {
            if let Some(at_s) = account.ended_s {
                self.line(&Line::Ended { node, at_s });
            }
        }
        for second in &played.account.machine {
            self.line(&Line::Machine(*second));
        }
        self.line(&Line::End(Box::new(End {
            format: FORMAT.into(),
            shard: shard(plan),
            config: plan.node_config(0, Path::new("")),
            load: plan.load.name.clone(),
            cpu_quota: plan.cpu_quota,
            plan: shared(plan),
            origin_unix_ns: played.origin_unix_ns,
            interrupted: played.interrupted,
            undrained: played.undrained.clone(),
        })));
        let trouble = self.trouble.take();
        let ended = trouble.map_or_else(|| self.file.flush(), Err);
        ended.with_context(|| format!("cannot write {FILE}; free some space and play it again"))
    }
}

fn shard(plan: &MeshPlan) -> String {
    let part = plan.machines.as_ref().map(|it| it.part);
    part.unwrap_or_default().to_string()
}

/// The plan without what differs between machines.
fn shared(plan: &MeshPlan) -> serde_json::Value {
    let mut document = plan.document();
    document["shard"] = serde_json::Value::Null;
    document["pin"] = serde_json::Value::Null;
    document["seed"] = plan.seed.into();
    document
}

/// Makes one run of all parts: the plan of the whole, and what was played.
///
/// # Errors
/// Where a folder is no part, or they are not all the parts of one load.
pub(crate) fn merge(folders: &[PathBuf]) -> anyhow::Result<(MeshPlan, PlayedMesh)> {
    let ends = folders.iter().map(|folder| end_of(folder));
    let ends: Vec<End> = ends.collect::<anyhow::Result<_>>()?;
    let plan = whole(&ends, folders)?;
    let mut account = Account::new(plan.nodes, &plan.load);
    let mut machines: Vec<MachineSecond> = Vec::new();
    for folder in folders {
        each_line(folder, |line| match line {
            Line::Node { node, word } if node < plan.nodes => match *word {
                Word::Row(row) => {
                    account.row(node, row);
                }
                Word::Done { row, status } => {
                    account.row(node, row);
                    account.nodes[usize::from(node)].status = Some(status);
                }
                _ => {}
            },
            Line::Ended { node, at_s } if node < plan.nodes => {
                account.nodes[usize::from(node)].ended_s = Some(at_s);
            }
            Line::Machine(second) => machines.push(second),
            Line::Node { .. } | Line::Ended { .. } | Line::End(_) => {}
        })?;
    }
    account.machine = busiest(machines);
    let undrained: Vec<&str> = ends
        .iter()
        .filter_map(|it| it.undrained.as_deref())
        .collect();
    let played = PlayedMesh {
        account,
        origin_unix_ns: ends[0].origin_unix_ns,
        interrupted: ends.iter().any(|end| end.interrupted),
        undrained: (!undrained.is_empty()).then(|| undrained.join("; ")),
        part: None,
    };
    Ok((plan, played))
}

/// Of each second that of the machine that had the least to spare: a mesh is held back by it.
fn busiest(mut seconds: Vec<MachineSecond>) -> Vec<MachineSecond> {
    let spare = |it: &MachineSecond| (it.cpus - it.busy - it.stolen) / it.cpus;
    seconds.sort_by(|a, b| a.second.cmp(&b.second).then(spare(a).total_cmp(&spare(b))));
    seconds.dedup_by_key(|it| it.second);
    seconds
}

fn end_of(folder: &Path) -> anyhow::Result<End> {
    let mut end = None;
    each_line(folder, |line| {
        if let Line::End(it) = line {
            end = Some(*it);
        }
    })?;
    end.ok_or_else(|| {
        anyhow!(
            "the run in {} was killed before it ended: its part is not whole",
            folder.display()
        )
    })
}

fn each_line(folder: &Path, mut take: impl FnMut(Line)) -> anyhow::Result<()> {
    let path = folder.join(FILE);
    let file = File::open(&path).with_context(|| {
        format!(
            "{} is no part of a mesh over several machines: it has no {FILE}",
            folder.display()
        )
    })?;
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let line = line.with_context(|| path.display().to_string())?;
        // The last line of a run that was killed is torn.
        match serde_json::from_str(&line) {
            Ok(line) => take(line),
            Err(error) if error.is_eof() => {}
            Err(error) => bail!("{}, line {number}: {error}", path.display()),
        }
    }
    Ok(())
}

/// The plan of the whole mesh.
fn whole(ends: &[End], folders: &[PathBuf]) -> anyhow::Result<MeshPlan> {
    let first = ends.first().context("name the folders of all machines")?;
    for (end, folder) in ends.iter().zip(folders) {
        ensure!(
            end.format == FORMAT,
            "{} has the format {}, and this txmesh reads {FORMAT}",
            folder.display(),
            end.format
        );
        ensure!(
            (&end.plan, end.origin_unix_ns) == (&first.plan, first.origin_unix_ns),
            "{} and {} are not of the same load: give the same line on each machine, but for --shard",
            folders[0].display(),
            folder.display()
        );
    }
    let parts: Vec<Part> = ends.iter().filter_map(|it| it.shard.parse().ok()).collect();
    let of = parts.first().copied().unwrap_or_default().of();
    let is_there = |number: u32| parts.iter().filter(|part| part.number() == number).count() == 1;
    ensure!(
        parts.len() == ends.len()
            && ends.len() == of.get() as usize
            && (1..=of.get()).all(is_there),
        "there are {of} machines; name the folder of each once (they are of the shards {})",
        ends.iter()
            .map(|end| end.shard.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    );
    plan_of(first)
}

fn plan_of(end: &End) -> anyhow::Result<MeshPlan> {
    let config = &end.config;
    let load = MeshLoad::new(&end.load, config.phases.clone(), Path::new(""))?;
    let mix = mix_file::parse(&config.mix, "the mix")?;
    let plan = MeshPlan::resolve(
        load,
        MeshSettings {
            nodes: config.nodes.try_into().ok(),
            protocol: Some(config.variant.protocol),
            topology: Some(config.topology),
            fanout: config.fanout.try_into().ok(),
            queue: config.queue.try_into().ok(),
            resend_filter: config.variant.resend_filter,
            batch: config.variant.batch,
            announce: config.variant.announce,
            cpu_quota: end.cpu_quota,
            seed: Some(config.seed),
            ..MeshSettings::default()
        },
    )?;
    let hosts = serde_json::from_value(end.plan["hosts"].clone()).unwrap_or_default();
    Ok(MeshPlan {
        mix: Arc::new(mix),
        mix_text: config.mix.clone(),
        machines: Some(Machines {
            hosts,
            part: Part::WHOLE,
            start_at: None,
            first_port: 0,
        }),
        ..plan
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_second_the_machine_with_the_least_to_spare_is_looked_at() {
        let machine = |second, busy, cpus| MachineSecond {
            second,
            busy,
            stolen: 0.0,
            cpus,
        };
        let all = vec![
            machine(0, 3.0, 8.0),
            machine(1, 1.0, 8.0),
            machine(0, 1.9, 2.0),
            machine(1, 0.1, 2.0),
        ];
        let busiest: Vec<(u64, f64)> = busiest(all).iter().map(|it| (it.second, it.busy)).collect();
        assert_eq!(busiest, [(0, 1.9), (1, 1.0)]);
    }
}
