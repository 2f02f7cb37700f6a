//! `txgen devnode`: the built-in node on its own.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use devnode::{AdmissionMode, Application, BitcoinConfig, Config, DevNode};
use ops::command::{CommandError, failed, usage};

use servers::{assign, parse_assignment};

use crate::cli::DevnodeArgs;
use crate::exit;
use crate::scenario::with_suggestion;
use crate::shutdown::Shutdown;

/// Serves until interrupted.
pub(crate) fn serve(args: &DevnodeArgs) -> Result<u8, CommandError> {
    let config = configure(args).map_err(usage)?;
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    runtime.block_on(async {
        let (node, worker) = DevNode::bind(config.clone()).await.map_err(failed)?;
        announce(&node, &config).map_err(failed)?;
        let worker = tokio::spawn(worker);
        while !shutdown.is_requested() && !worker.is_finished() {
            tokio::time::sleep(SIGNAL_POLL).await;
        }
        node.shutdown();
        worker
            .await
            .map_err(|error| failed(anyhow!("the node's task failed: {error}")))?;
        Ok(if shutdown.is_requested() {
            exit::INTERRUPTED
        } else {
            exit::FAILED
        })
    })
}

fn announce(node: &DevNode, config: &Config) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let rpc = node.rpc_address();
    if config.app == Application::Bitcoin {
        let BitcoinConfig {
            rpc_user,
            rpc_password,
            ..
        } = &config.bitcoin;
        writeln!(out, "rpc      http://{rpc_user}:{rpc_password}@{rpc}")?;
    } else {
        writeln!(out, "rpc      http://{rpc}")?;
        writeln!(out, "ws       ws://{rpc}/websocket")?;
    }
    if let Some(peers) = node.peers_address() {
        writeln!(out, "peers    bitcoin-p2p://{peers}")?;
    }
    if let (Some(api), Some(events)) = (node.api_address(), node.events_address()) {
        writeln!(out, "api      http://{api}")?;
        writeln!(
            out,
            "events   ws://{events}/api/v1/streams/valid_transactions"
        )?;
    }
    if let Some(control) = node.control_address() {
        writeln!(out, "control  http://{control}")?;
    }
    out.flush()
}

/// File, then `--set`, then the flags of their own.
fn configure(args: &DevnodeArgs) -> anyhow::Result<Config> {
    let mut table = match &args.config {
        Some(path) => read_table(path)?,
        None => toml::Table::new(),
    };
    for setting in &args.set {
        let (key, value) = parse_assignment(setting).context("--set")?;
        assign(&mut table, &key, value).context("--set")?;
    }
    if let Some(app) = args.app {
        table.insert("app".into(), app.name().into());
    }
    match table.get("app").and_then(toml::Value::as_str) {
        Some("bigchaindb") => {
            prefer(&mut table, &Config::bigchaindb());
            prefer_bigchaindbs_ports(&mut table);
        }
        Some("bitcoin") => prefer(&mut table, &Config::bitcoin()),
        _ => {}
    }
    let mut config: Config = table
        .try_into()
        .map_err(|error: toml::de::Error| anyhow!(with_suggestion(error.message())))
        .context("the node's configuration is not usable")?;
    let port = if config.app == Application::Bitcoin {
        18_334
    } else {
        26_657
    };
    config.listen = args.listen.unwrap_or_else(|| ([127, 0, 0, 1], port).into());
    config.control = args.control.or(config.control);
    let of_bigchaindb = args.api.is_some() || args.events.is_some() || args.workers.is_some();
    if config.app != Application::Bigchaindb && of_bigchaindb {
        return Err(anyhow!(
            "--api, --events and --workers are of BigchainDB: add --app bigchaindb"
        ));
    }
    let mode = args.admission.map(AdmissionMode::from);
    config.admission.mode = mode.or(config.admission.mode);
    config.admission.validators = args.validators.unwrap_or(config.admission.validators);
    refuse_unused_admission(&config)?;
    if args.miningaddr.is_some() && config.app != Application::Bitcoin {
        return Err(anyhow!("--miningaddr is of Bitcoin: add --app bitcoin"));
    }
    if args.p2p_listen.is_some() && config.app != Application::Bitcoin {
        return Err(anyhow!("--p2p-listen is of Bitcoin: add --app bitcoin"));
    }
    config.bitcoin.p2p_listen = args.p2p_listen.or(config.bitcoin.p2p_listen);
    let mining_address = config.bitcoin.mining_address.take();
    config.bitcoin.mining_address = args.miningaddr.clone().or(mining_address);
    config.bigchaindb.server_workers = args.workers.unwrap_or(config.bigchaindb.server_workers);
    config.bigchaindb.listen = args.api.unwrap_or(config.bigchaindb.listen);
    config.bigchaindb.events = args.events.unwrap_or(config.bigchaindb.events);
    Ok(config)
}

/// Settings of admission that nothing would follow.
fn refuse_unused_admission(config: &Config) -> anyhow::Result<()> {
    let admission = &config.admission;
    let spends = matches!(config.app, Application::Bigchaindb | Application::Bitcoin);
    if admission.mode.is_some() && !spends {
        return Err(anyhow!(
            "--admission is of applications whose transactions spend: add --app bigchaindb or --app bitcoin"
        ));
    }
    if admission.validators > 0 && admission.mode != Some(AdmissionMode::Parallel) {
        return Err(anyhow!(
            "--validators needs parallel admission: add --admission parallel"
        ));
    }
    Ok(())
}

/// Unless told otherwise, a node on its own has the limits that are usual for its application.
fn prefer(table: &mut toml::Table, usual: &Config) {
    let size = |size| toml::Value::Integer(i64::try_from(size).unwrap_or(i64::MAX));
    let Config { mempool, rpc, .. } = usual;
    for (section, key, value) in [
        ("mempool", "size", mempool.size),
        ("mempool", "cache_size", mempool.cache_size),
        ("rpc", "max_open_connections", rpc.max_open_connections),
        ("rpc", "max_body_bytes", rpc.max_body_bytes),
    ] {
        set_default(table, section, key, size(value));
    }
}

/// Unless told otherwise, it listens where clients of BigchainDB look for it.
fn prefer_bigchaindbs_ports(table: &mut toml::Table) {
    for (key, address) in [("listen", "127.0.0.1:9984"), ("events", "127.0.0.1:9985")] {
        set_default(table, "bigchaindb", key, address.into());
    }
}

fn set_default(table: &mut toml::Table, section: &str, key: &str, value: toml::Value) {
    let section = table
        .entry(section)
        .or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if let Some(section) = section.as_table_mut() {
        section.entry(key).or_insert(value);
    }
}

fn read_table(path: &Path) -> anyhow::Result<toml::Table> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration {}", path.display()))?;
    text.parse()
        .with_context(|| format!("{} is not TOML", path.display()))
}

const SIGNAL_POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Admission, DevnodeApp};

    fn args(set: &[&str]) -> DevnodeArgs {
        DevnodeArgs {
            app: None,
            listen: Some(([127, 0, 0, 1], 0).into()),
            miningaddr: None,
            p2p_listen: None,
            api: None,
            events: None,
            workers: None,
            admission: None,
            validators: None,
            control: None,
            config: None,
            set: set.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn single_keys_are_set() {
        let config = configure(&args(&[
            "block_interval=250ms",
            "mempool.size=7",
            "chain_id=quay",
        ]))
        .unwrap();
        assert_eq!(config.block_interval, Duration::from_millis(250));
        assert_eq!((config.mempool.size, config.chain_id.as_str()), (7, "quay"));
    }

    #[test]
    fn bigchaindb_listens_on_its_own_ports_unless_told_otherwise() {
        let mut given = args(&[
            "bigchaindb.events=127.0.0.1:7",
            "bigchaindb.workers=3",
            "mempool.size=7",
        ]);
        given.app = Some(DevnodeApp::Bigchaindb);
        let config = configure(&given).unwrap();
        assert_eq!(config.app, Application::Bigchaindb);
        assert_eq!(config.bigchaindb.listen.port(), 9984);
        assert_eq!(config.bigchaindb.events.port(), 7);
        assert_eq!(config.bigchaindb.workers, 3);
        assert_eq!(
            (config.mempool.size, config.mempool.cache_size),
            (7, 100_000)
        );
        given.api = Some(([127, 0, 0, 1], 0).into());
        assert_eq!(configure(&given).unwrap().bigchaindb.listen.port(), 0);
        given.app = None;
        let error = configure(&given).unwrap_err().to_string();
        assert!(error.contains("--app bigchaindb"), "{error}");
    }

    #[test]
    fn the_originals_server_is_a_flag() {
        let mut given = args(&[]);
        given.app = Some(DevnodeApp::Bigchaindb);
        given.workers = Some(5);
        let config = configure(&given).unwrap();
        assert_eq!(config.bigchaindb.server_workers, 5);
    }

    #[test]
    fn admission_is_a_flag_of_applications_whose_transactions_spend() {
        let mut given = args(&[]);
        given.admission = Some(Admission::Parallel);
        given.validators = Some(3);
        let error = configure(&given).unwrap_err().to_string();
        assert!(error.contains("--app bigchaindb"), "{error}");
        given.app = Some(DevnodeApp::Bigchaindb);
        let admission = configure(&given).unwrap().admission;
        assert_eq!(admission.mode, Some(AdmissionMode::Parallel));
        assert_eq!(admission.validators, 3);
        given.admission = None;
        let error = configure(&given).unwrap_err().to_string();
        assert!(error.contains("--admission parallel"), "{error}");
    }

    #[test]
    fn a_node_of_bitcoin_listens_where_btcd_does_and_pays_to_the_address() {
        let mut given = args(&[]);
        given.app = Some(DevnodeApp::Bitcoin);
        given.listen = None;
        given.miningaddr = Some("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn".into());
        let config = configure(&given).unwrap();
        assert_eq!(config.listen.port(), 18_334);
        assert_eq!(config.mempool, Config::bitcoin().mempool);
        assert_eq!(config.rpc, Config::bitcoin().rpc);
        assert_eq!(config.bitcoin.mining_address, given.miningaddr);
        given.app = None;
        let error = configure(&given).unwrap_err().to_string();
        assert!(error.contains("--app bitcoin"), "{error}");
    }

    #[test]
    fn unknown_keys_are_named() {
        let error = format!(
            "{:#}",
            configure(&args(&["block_intervall=1s"])).unwrap_err()
        );
        assert!(error.contains("did you mean `block_interval`?"), "{error}");
        assert!(configure(&args(&["block_interval"])).is_err());
    }
}
