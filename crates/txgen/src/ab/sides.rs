//! The two sides: nodes that are there, commands that start one, or settings of the load.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use clap::Parser;
use servers::Process;

use crate::cli::AbArgs;
use crate::plan::{Nodes, Plan};
use crate::run;
use crate::settings::{GivenSettings, Settings};
use crate::shutdown::Shutdown;

/// One side.
pub(super) struct AbSide {
    /// Of its folder.
    pub(super) name: &'static str,
    /// The side as the user wrote it.
    pub(super) about: String,
    pub(super) settings: Settings,
    /// The flags of these settings that are not those of both sides, one a word.
    pub(super) flags: Vec<String>,
    /// Starts its node.
    pub(super) command: Option<String>,
}

/// Flags of a side.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct SideFlags {
    #[command(flatten)]
    settings: GivenSettings,
}

/// Both sides.
///
/// # Errors
/// When they are of two kinds, or cannot be used.
pub(super) fn sides(args: &AbArgs) -> anyhow::Result<[AbSide; 2]> {
    let texts = match (&args.nodes[..], &args.a, &args.b) {
        ([a, b], ..) => [a, b],
        (_, Some(a), Some(b)) => [a, b],
        _ => bail!("name two sides: two addresses of nodes, or --a and --b"),
    };
    let kinds = texts.map(|text| {
        if !args.nodes.is_empty() {
            Kind::Node
        } else if text.trim_start().starts_with("--") {
            Kind::Flags
        } else {
            Kind::Command
        }
    });
    if kinds[0] != kinds[1] {
        bail!("both sides have to be of one kind: two commands, or flags of the load for both");
    }
    let common = &args.settings;
    if kinds[0] == Kind::Node && !common.endpoints.is_empty() {
        bail!("A and B are the endpoints; leave out --endpoints");
    }
    if kinds[0] == Kind::Command && common.endpoints.is_empty() {
        bail!("say with --endpoints where the node answers that a command starts");
    }
    let side = |name: &'static str, text: &String| -> anyhow::Result<AbSide> {
        let mut settings = common.clone();
        let (mut command, mut own) = (None, Vec::new());
        match kinds[0] {
            Kind::Node => {
                let endpoint = text.parse();
                settings.endpoints = vec![endpoint.with_context(|| format!("side {name}"))?];
                own.push(format!("--endpoints={text}"));
            }
            Kind::Command => command = Some(text.clone()),
            Kind::Flags => {
                let flags = SideFlags::try_parse_from(text.split_whitespace());
                let flags = flags.map_err(|error| anyhow!("side {name}, {text:?}: {error}"))?;
                settings = flags.settings.over(settings)?;
                own.extend(text.split_whitespace().map(str::to_owned));
            }
        }
        Ok(AbSide {
            name,
            about: text.clone(),
            settings,
            flags: own,
            command,
        })
    };
    Ok([side("a", texts[0])?, side("b", texts[1])?])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Node,
    Command,
    Flags,
}

/// The node that a side's command started. Dropping it stops all that the command started.
pub(super) struct StartedNode {
    process: Process,
}

impl StartedNode {
    /// Starts the node and waits until the plan can be run on it.
    ///
    /// # Errors
    /// When something else answers there, or it does not in time.
    pub(super) fn start(
        command: &str,
        plan: &Plan,
        log: PathBuf,
        shutdown: &Shutdown,
    ) -> anyhow::Result<Self> {
        if let Nodes::Endpoints(endpoints) = &plan.nodes {
            for endpoint in endpoints {
                let addresses = endpoint.resolve().unwrap_or_default();
                let mut taken = addresses.iter();
                if taken.any(|it| TcpStream::connect_timeout(it, LOOK_TIMEOUT).is_ok()) {
                    bail!(
                        "something listens at {endpoint} before the command starts its node there; stop it first"
                    );
                }
            }
        }
        let guard = std::env::current_exe().ok();
        let arguments = ["-c".into(), command.into()];
        let shell = Path::new("/bin/sh");
        let process = Process::start("the node", shell, &arguments, log, guard.as_deref())?;
        let mut node = Self { process };
        let began = Instant::now();
        loop {
            let unready = match run::check_target(plan, None, shutdown) {
                Ok(()) => return Ok(node),
                Err(error) => error,
            };
            let log = || format!("the end of its output:\n{}", node.process.tail());
            if shutdown.is_requested() || began.elapsed() > START_TIMEOUT {
                return Err(unready
                    .context(log())
                    .context("the node did not become ready"));
            }
            let ended = node.process.ended();
            if let Some(status) = ended {
                bail!(
                    "{command:?} ended before its node was ready ({status}); {}",
                    node.process.tail()
                );
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Why the run is none, where the node has ended during it.
    pub(super) fn trouble(&mut self) -> Option<String> {
        self.process.trouble()
    }
}

impl Drop for StartedNode {
    fn drop(&mut self) {
        self.process.stop(STOP_PATIENCE);
    }
}

/// A node that reads a large database may take this long.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// After this long a node that was asked to end is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
const LOOK_TIMEOUT: Duration = Duration::from_millis(500);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};

    fn of(line: &str, sides: [&str; 2]) -> anyhow::Result<[AbSide; 2]> {
        let words = ["txgen", "ab"].into_iter().chain(line.split_whitespace());
        let words = words.chain(sides).map(str::to_owned);
        let Command::Ab(args) = Cli::try_parse_from(words)?.command else {
            bail!("another command");
        };
        super::sides(&args)
    }

    #[test]
    fn sides_are_nodes_commands_or_flags_and_both_of_one_kind() {
        let [a, b] = of("--rate 10", ["http://n1:1", "ws://n2:1/websocket"]).unwrap();
        assert_eq!([&a.about, &b.about], ["http://n1:1", "ws://n2:1/websocket"]);
        assert_eq!(
            [a.settings.endpoints.len(), b.settings.endpoints.len()],
            [1, 1]
        );
        let flags = ["--a=--size 10 -c 3", "--b=--size 20"];
        let [a, b] = of("--rate 10 --size 5 -c 8", flags).unwrap();
        let connections = [&a, &b].map(|it| it.settings.connections.map(NonZeroU32::get));
        assert_eq!(connections, [Some(3), Some(8)]);
        assert!(a.command.is_none() && a.settings.size != b.settings.size);
        let there = "--rate 10 --endpoints http://n:1";
        let [a, _] = of(there, ["--a=node --home x", "--b=node --home y"]).unwrap();
        assert_eq!(a.command.as_deref(), Some("node --home x"));
        for (line, sides, problem) in [
            (
                there,
                ["http://n1:1", "http://n2:1"],
                "leave out --endpoints",
            ),
            (
                "--rate 10",
                ["--a=node x", "--b=node y"],
                "say with --endpoints",
            ),
            (there, ["--a=node x", "--b=--size 3"], "of one kind"),
            (there, ["--a=--sizes 1", "--b=--size 3"], "side a"),
            ("", ["--a=--size 1", "--b=--size 3"], "--rate"),
            ("--rate 10", ["--size", "3"], "name two sides"),
        ] {
            let error = of(line, sides).map(|_| ()).unwrap_err();
            assert!(format!("{error:#}").contains(problem), "{error:#}");
        }
    }

    use std::num::NonZeroU32;
}
