//! `--profile-pid`: refused before anything is sent, or a flame graph in the run folder.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use crate::support::{Node, Place};

#[test]
fn a_process_that_is_not_there_is_said_before_anything_is_written() {
    let place = Place::new();
    let ended = place.txgen("flood --count 5 --profile-pid 1073741824 --out run");
    ended.expect(2);
    assert!(
        ended.err.contains("there is no process 1073741824"),
        "{}",
        ended.err
    );
    assert!(place.contents().is_empty());
}

#[test]
fn a_missing_perf_is_said_before_anything_is_written() {
    let place = Place::new();
    let nowhere = [("PATH", place.path().to_str().unwrap())];
    let ended = place.txgen_with(&nowhere, "flood --count 5 --profile-pid self --out run");
    ended.expect(2);
    assert!(ended.err.contains("not in the PATH"), "{}", ended.err);
    assert!(place.contents().is_empty());
}

/// Plays a load beside a busy process, which is sampled, and ends it.
fn sample(place: &Place, mut busy: Child) {
    let node = Node::quick();
    let ended = place.txgen(&format!(
        "constant --rate 50 --duration 2s --profile-pid {} --out run --endpoints {}",
        busy.id(),
        node.url()
    ));
    busy.kill().unwrap();
    busy.wait().unwrap();
    ended.ends_as_judged(0, &place.run("run").summary());
    assert!(ended.printed("samples of process"), "{}", ended.out);
    assert!(!place.path().join("run/profile.raw").exists());
}

#[test]
#[ignore = "needs perf"]
fn a_foreign_process_is_sampled_while_the_load_runs() {
    let place = Place::new();
    let busy = Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    sample(&place, busy);
    let run = place.run("run");
    let file = |name| run.text(name);
    assert!(file("flame.svg").contains("<svg"));
    assert!(file("report.html").contains("<a href=\"flame.svg\">"));
    let weights = file("profile.folded");
    assert!(
        weights.lines().all(|line| line.starts_with("sh;")),
        "{weights}"
    );
}

/// perf would show only frames of the interpreter.
#[test]
#[ignore = "needs py-spy"]
fn a_python_process_is_sampled_by_py_spy() {
    let place = Place::new();
    place.write(
        "busy.py",
        "def busy_function():\n    while True:\n        sum(range(1000))\nprint('up', flush=True)\nbusy_function()\n",
    );
    let mut busy = Command::new("python3")
        .arg(place.path().join("busy.py"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // `python3` may be a script that becomes the interpreter.
    let mut up = [0; 3];
    busy.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    sample(&place, busy);
    let run = place.run("run");
    let file = |name| run.text(name);
    assert!(file("flame.svg").contains("busy_function"));
    assert!(file("profile.folded").contains("busy_function"));
}
