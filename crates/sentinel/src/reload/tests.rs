//! A configuration that changes while its program runs.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairq::ClientKey;
use tempfile::TempDir;
use testkit::{Authority, Issued};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::{Config, FlagValue, KEYS};
use crate::refusal::Reason;
use crate::shared_context::SharedContext;
use crate::upstream::{Nodes, Reads};

/// A program of this file, without lanes.
struct Rig {
    folder: TempDir,
    reloader: Reloader,
    context: SharedContext,
    reads: Reads,
    levels: Arc<AtomicUsize>,
}

impl Rig {
    async fn start(text: &str) -> Self {
        Self::with_flags(text, Vec::new()).await
    }

    async fn with_flags(text: &str, flags: Vec<FlagValue>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        fs::write(&file, text).unwrap();
        let sources = Sources {
            file: Some(file),
            flags,
            ..Sources::default()
        };
        let config = config::load(&sources).unwrap().config;
        let context = SharedContext::new(config.clone(), CancellationToken::new());
        let identities = Identities::new(&config.trust).unwrap();
        context.identities.follow(identities);
        let (nodes, _, _) = Nodes::start(context.clone()).unwrap();
        let reads = Reads::new(&config, &nodes);
        let levels = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&levels);
        let set_level = move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        let reloader = Reloader::new(sources, set_level);
        reloader.attach(context.clone());
        Self {
            folder,
            reloader,
            context,
            reads,
            levels,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("a.toml")
    }

    fn reload(&self, text: &str) -> Result<Reloaded, NotReloaded> {
        fs::write(self.file(), text).unwrap();
        self.reloader.reload()
    }

    fn text(&self, key: &str) -> String {
        self.context.config.load().text(key)
    }

    /// A file with a certificate and its key.
    fn certificate(&self) -> String {
        let Issued { certificate, key } = Authority::default().issue(&["localhost"]);
        let file = self.folder.path().join("pair.pem");
        fs::write(&file, certificate + &key).unwrap();
        file.display().to_string()
    }

    fn client(&self) -> ClientKey {
        let identities = self.context.identities.load();
        identities.of_peer([192, 0, 2, 7].into()).client
    }
}

/// A value of each key that is not its default.
fn other_values() -> HashMap<&'static str, &'static str> {
    HashMap::from([
        ("listen.addr", "127.0.0.1:26690"),
        ("listen.threads", "2"),
        ("listen.handover", "/run/sentinel/handover"),
        ("tls.certificates", "pair.pem"),
        ("tls.client_ca", "authority.pem"),
        ("upstream.urls", "http://127.0.0.1:26999"),
        ("upstream.timeout", "21s"),
        ("upstream.any_version", "true"),
        ("trust.proxies", "10.0.0.0/8 proxy-protocol"),
        ("trust.ipv6_prefix", "56"),
        ("trust.allow", "192.0.2.0/24"),
        ("trust.deny", "198.51.100.0/24"),
        ("keys.file", "keys.toml"),
        ("limits.body_bytes", "2000000"),
        ("limits.batch", "20"),
        ("limits.shadow", "true"),
        ("reads.rate_per_client", "201/s"),
        ("reads.concurrency", "257"),
        ("reads.allow_methods", "status"),
        ("reads.refuse_methods", "block"),
        ("fair.max_req", "2001/s"),
        ("fair.queue_per_client", "1025"),
        ("fair.queue_timeout", "31s"),
        ("fair.order", "account"),
        ("fair.weights", "192.0.2.0/24=4"),
        ("fair.async_ack", "forwarded"),
        ("buffer.bytes", "257MiB"),
        ("pace.mode", "fixed"),
        ("pause.interval", "101s"),
        ("pause.min_tx_rate", "60%"),
        ("pause.for", "2s"),
        ("pause.action", "reconnect"),
        ("cors.origins", "https://wallet.example"),
        ("admin.addr", "off"),
        ("log.level", "debug"),
        ("shutdown.drain", "11s"),
    ])
}

#[tokio::test]
async fn each_key_takes_effect_or_is_named_as_needing_a_restart() {
    let values = other_values();
    for key in KEYS {
        let rig = Rig::start("").await;
        let before = rig.text(key.name);
        let Some(value) = values.get(key.name) else {
            // A key that is new: it needs a restart until somebody decides otherwise, and then a value here.
            assert!(!key.is_live, "{} has no value here", key.name);
            continue;
        };
        let mut other = Config::default();
        // A file is there under each name.
        let value = value.replace("pair.pem", &rig.certificate()).replace(
            "keys.toml",
            &rig.file()
                .display()
                .to_string()
                .replace("a.toml", "keys.toml"),
        );
        fs::write(rig.folder.path().join("keys.toml"), "").unwrap();
        (key.set)(&mut other, &value).unwrap();
        let (section, leaf) = key.parts();
        let text = format!("[{section}]\n{leaf} = {}\n", key.toml(&other));
        let reloaded = rig.reload(&text).unwrap();
        let named = if key.is_live {
            assert_eq!(rig.text(key.name), (key.text)(&other), "{}", key.name);
            assert!(reloaded.needs_restart.is_empty(), "{reloaded}");
            reloaded.applied
        } else {
            assert_eq!(rig.text(key.name), before, "{}", key.name);
            assert!(reloaded.applied.is_empty(), "{reloaded}");
            reloaded.needs_restart
        };
        assert_eq!(named, [key.name]);
    }
}

#[tokio::test]
async fn what_needs_a_restart_is_named_until_it_comes_or_is_taken_back() {
    let rig = Rig::start("").await;
    let text = "[listen]\nthreads = 4\n[limits]\nbatch = 20\n";
    let first = rig.reload(text).unwrap();
    assert_eq!(
        (first.applied, first.needs_restart),
        (vec!["limits.batch"], vec!["listen.threads"])
    );
    let second = rig.reload(text).unwrap();
    assert_eq!(
        (second.applied, second.needs_restart),
        (vec![], vec!["listen.threads"])
    );
    let third = rig.reload("").unwrap();
    assert_eq!(
        (third.applied, third.needs_restart),
        (vec!["limits.batch"], vec![])
    );
}

#[tokio::test]
async fn a_wrong_configuration_changes_nothing_and_says_where_it_is_wrong() {
    let rig = Rig::start("[limits]\nbatch = 20\n").await;
    let place = |line| format!("{}:{line}", rig.file().display());
    for (text, at, word) in [
        (
            "[limits]\nbatch = 30\nbody_bytes = \"much\"\n",
            place(3),
            "limits.body_bytes",
        ),
        ("[limits]\nbatch = 30\n\nbatsh = 1\n", place(4), "batsh"),
        ("[limits]\nbatch = 0\n", place(2), "limits.batch"),
        ("[limits]\nbatch = \n", place(2), ""),
        // Each is right by itself; together they are not.
        (
            "[limits]\nbody_bytes = \"512MiB\"\n",
            place(2),
            "limits.body_bytes",
        ),
    ] {
        let before = rig.context.config.current();
        let error = rig.reload(text).unwrap_err().to_string();
        assert!(
            error.contains(&at) && error.contains(word),
            "{text}: {error}"
        );
        assert!(
            Arc::ptr_eq(&before, &rig.context.config.current()),
            "{text}"
        );
    }
    fs::remove_file(rig.file()).unwrap();
    let error = rig.reloader.reload().unwrap_err().to_string();
    assert!(error.contains("a.toml"), "{error}");
    assert_eq!(rig.text("limits.batch"), "20");
}

/// The new value is right beside the other new one, which needs a restart, and wrong beside the old one.
#[tokio::test]
async fn what_is_new_has_to_go_with_what_stays() {
    let rig = Rig::start("[buffer]\nbytes = \"1MiB\"\n").await;
    let text = "[buffer]\nbytes = \"64MiB\"\n[limits]\nbody_bytes = \"32MiB\"\n";
    let error = rig.reload(text).unwrap_err().to_string();
    assert!(
        error.contains("limits.body_bytes") && error.contains("buffer.bytes"),
        "{error}"
    );
    assert_eq!(rig.text("limits.body_bytes"), "1000000");
}

#[tokio::test]
async fn a_flag_wins_over_the_file_that_is_read_again() {
    let flag = FlagValue {
        flag: "set".to_owned(),
        key: "limits.batch".to_owned(),
        value: "7".to_owned(),
    };
    let rig = Rig::with_flags("", vec![flag]).await;
    assert!(
        rig.reload("[limits]\nbatch = 30\n")
            .unwrap()
            .applied
            .is_empty()
    );
    assert_eq!(rig.text("limits.batch"), "7");
}

#[tokio::test]
async fn parts_follow_what_they_made_of_the_configuration() {
    let rig = Rig::start("").await;
    let client = rig.client();
    let budget = &rig.context.budget;
    let mut reads = std::iter::repeat_with(|| budget.admit(client, 1)).take(3);
    assert!(reads.all(|admitted| admitted.is_ok()));
    rig.reload(
        "[reads]\nrate_per_client = \"0.01/s\"\nrefuse_methods = [\"block\"]\n\
         [trust]\ndeny = [\"192.0.2.0/24\"]\n[log]\nlevel = \"debug\"\n",
    )
    .unwrap();
    let refused = (0..3).find_map(|_| budget.admit(client, 1).err());
    assert_eq!(refused.unwrap().reason, Reason::Rate);
    assert!(rig.reads.check_method("block").is_err() && rig.reads.check_method("check_tx").is_ok());
    assert!(!rig.context.identities.load().allows([192, 0, 2, 7].into()));
    assert_eq!(rig.levels.load(Ordering::Relaxed), 1);
    rig.reload("").unwrap();
    assert!(rig.context.identities.load().allows([192, 0, 2, 7].into()));
}

/// Reloads at one time take turns: what is in force is whole, one or the other.
#[tokio::test]
async fn reloads_at_one_time_take_turns() {
    let rig = Rig::start("").await;
    let even = "[limits]\nbatch = 2\nbody_bytes = 2000\n";
    let odd = "[limits]\nbatch = 3\nbody_bytes = 3000\n";
    std::thread::scope(|scope| {
        for number in 0..4 {
            let rig = &rig;
            scope.spawn(move || {
                for round in 0..20 {
                    // Replaced whole, as an editor or a deployment does.
                    let part = rig.folder.path().join(format!("{number}"));
                    fs::write(&part, if (number + round) % 2 == 0 { even } else { odd }).unwrap();
                    fs::rename(&part, rig.file()).unwrap();
                    rig.reloader.reload().unwrap();
                    let config = rig.context.config.current();
                    assert_eq!(config.limits.batch * 1_000, config.limits.body_bytes);
                }
            });
        }
    });
}

#[test]
fn nothing_is_read_again_before_the_program_serves() {
    let reloader = Reloader::new(Sources::default(), |_| {});
    assert!(reloader.reload().unwrap_err().0.contains("not begun"));
}
