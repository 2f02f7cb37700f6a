//! `txgen devnode`: the built-in node on its own.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use devnode::{AdmissionMode, Blueprint, DevNode, KVSTORE, Kind};
use ops::command::{CommandError, failed, usage};

use servers::{assign, parse_assignment};

use crate::chains::{self, KindFlags};
use crate::cli::DevnodeArgs;
use crate::exit;
use crate::scenario::with_suggestion;
use crate::shutdown::Shutdown;

/// Serves until interrupted.
pub(crate) fn serve(args: &DevnodeArgs) -> Result<u8, CommandError> {
    let blueprint = configure(args).map_err(usage)?;
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    runtime.block_on(async {
        let kind = blueprint.kind;
        let (node, worker) = DevNode::bind(blueprint).await.map_err(failed)?;
        announce(&node, kind).map_err(failed)?;
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

fn announce(node: &DevNode, kind: &dyn Kind) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let control = node.control_address();
    let control = control.map(|address| ("control", format!("http://{address}")));
    for (service, url) in kind.urls(node.host()).into_iter().chain(control) {
        writeln!(out, "{service:<8} {url}")?;
    }
    out.flush()
}

/// File, then `--set`, then the flags of their own.
fn configure(args: &DevnodeArgs) -> anyhow::Result<Blueprint> {
    let mut table = match &args.config {
        Some(path) => read_table(path)?,
        None => toml::Table::new(),
    };
    for setting in &args.set {
        let (key, value) = parse_assignment(setting).context("--set")?;
        assign(&mut table, &key, value).context("--set")?;
    }
    if let Some(app) = &args.app {
        table.insert("app".into(), app.as_str().into());
    }
    let app = table.get("app").and_then(toml::Value::as_str);
    let kind = chains::kinds()
        .into_iter()
        .find(|kind| app == Some(kind.name()));
    let kind = kind.unwrap_or(KVSTORE);
    for (section, given) in &args.kinds.0 {
        if section != kind.name() {
            let flags = KindFlags::names(section);
            bail!("{flags} need another application: add --app {section}");
        }
        for (key, value) in given {
            let value = toml::Value::try_from(value)?;
            assign(&mut table, &format!("{section}.{key}"), value)?;
        }
    }
    prefer(&mut table, kind);
    let mut blueprint = chains::built_in(table)
        .map_err(|error: toml::de::Error| anyhow!(with_suggestion(error.message())))
        .context("the node's configuration is not usable")?
        .unwrap_or_default();
    let config = &mut blueprint.config;
    config.listen = args.listen.unwrap_or(config.listen);
    config.control = args.control.or(config.control);
    let mode = args.admission.map(AdmissionMode::from);
    config.admission.mode = mode.or(config.admission.mode);
    config.admission.validators = args.validators.unwrap_or(config.admission.validators);
    refuse_unused_admission(&blueprint)?;
    Ok(blueprint)
}

/// Settings of admission that nothing would follow.
fn refuse_unused_admission(node: &Blueprint) -> anyhow::Result<()> {
    let admission = &node.config.admission;
    if admission.mode.is_some() && !node.kind.spends() {
        let kinds = chains::kinds().into_iter().filter(|kind| kind.spends());
        let apps: Vec<_> = kinds.map(|kind| format!("--app {}", kind.name())).collect();
        bail!(
            "--admission is of applications whose transactions spend: add {}",
            apps.join(" or ")
        );
    }
    if admission.validators > 0 && admission.mode != Some(AdmissionMode::Parallel) {
        bail!("--validators needs parallel admission: add --admission parallel");
    }
    Ok(())
}

/// Unless told otherwise, a node on its own has the limits that are usual for its kind, and listens where clients
/// look for it.
fn prefer(table: &mut toml::Table, kind: &dyn Kind) {
    let size = |size| toml::Value::Integer(i64::try_from(size).unwrap_or(i64::MAX));
    let (mempool, rpc) = kind.limits();
    for (section, key, value) in [
        ("mempool", "size", mempool.size),
        ("mempool", "cache_size", mempool.cache_size),
        ("rpc", "max_open_connections", rpc.max_open_connections),
        ("rpc", "max_body_bytes", rpc.max_body_bytes),
    ] {
        set_default(table, section, key, size(value));
    }
    let usual = SocketAddr::from(([127, 0, 0, 1], kind.port()));
    table
        .entry("listen")
        .or_insert_with(|| usual.to_string().into());
    for (key, address) in kind.ports() {
        set_default(table, kind.name(), key, (*address).into());
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
    use chain_bigchaindb::fixture::BigchaindbConfig;
    use chain_bitcoin::fixture::{BitcoinConfig, BitcoinKind};
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn configured(flags: &str) -> anyhow::Result<Blueprint> {
        let words = ["txgen", "devnode"].into_iter().chain(flags.split(' '));
        match Cli::try_parse_from(words)?.command {
            Command::Devnode(args) => configure(&args),
            other => bail!("{other:?}"),
        }
    }

    fn refused(flags: &str) -> String {
        format!("{:#}", configured(flags).unwrap_err())
    }

    #[test]
    fn single_keys_are_set() {
        let set = "--set block_interval=250ms --set mempool.size=7 --set chain_id=quay";
        let config = configured(set).unwrap().config;
        assert_eq!(config.block_interval, Duration::from_millis(250));
        assert_eq!((config.mempool.size, config.chain_id.as_str()), (7, "quay"));
        assert_eq!(config.listen.port(), 26_657);
    }

    #[test]
    fn a_key_that_has_a_flag_is_followed_and_the_flag_is_stronger() {
        let set = "--app bigchaindb --set listen=127.0.0.1:7 --set control=127.0.0.1:8 \
                   --set admission.mode=serial";
        let config = configured(set).unwrap().config;
        assert_eq!(config.listen.port(), 7);
        assert_eq!(config.control.unwrap().port(), 8);
        assert_eq!(config.admission.mode, Some(AdmissionMode::Serial));
        let flags = "--listen 127.0.0.1:17 --control 127.0.0.1:18 --admission parallel";
        let config = configured(&format!("{set} {flags}")).unwrap().config;
        assert_eq!(config.listen.port(), 17);
        assert_eq!(config.control.unwrap().port(), 18);
        assert_eq!(config.admission.mode, Some(AdmissionMode::Parallel));
    }

    #[test]
    fn bigchaindb_listens_on_its_own_ports_unless_told_otherwise() {
        let flags = "--app bigchaindb --workers 5 --set bigchaindb.events=127.0.0.1:7 \
                     --set bigchaindb.workers=3 --set mempool.size=7";
        let Blueprint { kind, config } = configured(flags).unwrap();
        let own: BigchaindbConfig = config.sections.of();
        assert_eq!(kind.name(), "bigchaindb");
        assert_eq!((own.listen.port(), own.events.port()), (9984, 7));
        assert_eq!((own.workers, own.server_workers), (3, 5));
        assert_eq!(
            (config.mempool.size, config.mempool.cache_size),
            (7, 100_000)
        );
        let config = configured("--app bigchaindb --api 127.0.0.1:0")
            .unwrap()
            .config;
        let own: BigchaindbConfig = config.sections.of();
        assert_eq!(own.listen.port(), 0);
        assert!(refused("--api 127.0.0.1:0").contains("--app bigchaindb"));
    }

    #[test]
    fn admission_is_a_flag_of_applications_whose_transactions_spend() {
        let flags = "--admission parallel --validators 3";
        assert!(refused(flags).contains("--app bigchaindb"));
        let admission = configured(&format!("--app bigchaindb {flags}"))
            .unwrap()
            .config
            .admission;
        assert_eq!(admission.mode, Some(AdmissionMode::Parallel));
        assert_eq!(admission.validators, 3);
        assert!(refused("--app bigchaindb --validators 3").contains("--admission parallel"));
    }

    #[test]
    fn a_node_of_bitcoin_listens_where_btcd_does_and_pays_to_the_address() {
        let flags = "--miningaddr mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn --p2p-listen 127.0.0.1:0";
        let config = configured(&format!("--app bitcoin {flags}"))
            .unwrap()
            .config;
        assert_eq!(config.listen.port(), 18_334);
        let usual = Blueprint::of(&BitcoinKind).config;
        assert_eq!((config.mempool, config.rpc), (usual.mempool, usual.rpc));
        let own: BitcoinConfig = config.sections.of();
        assert!(flags.contains(&own.mining_address.unwrap()));
        assert_eq!(own.p2p_listen, Some(([127, 0, 0, 1], 0).into()));
        assert!(refused(flags).contains("--app bitcoin"));
        assert!(refused("--app kvstore --p2p-listen 127.0.0.1:0").contains("--p2p-listen"));
    }

    #[test]
    fn unknown_keys_are_named() {
        let error = refused("--set block_intervall=1s");
        assert!(error.contains("did you mean `block_interval`?"), "{error}");
        assert!(configured("--set block_interval").is_err());
    }
}
