//! The two calls of `perf`.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use memchr::memmem;

use super::{Profiler, failed, graph, refused};

pub(super) const FRAME_POINTERS: &str = "fp";
pub(super) const UNWINDING: &str = "dwarf";

/// Samples as folded stacks.
pub(super) struct Script {
    /// `thread;outer;inner weight` lines.
    pub(super) folded: String,
    pub(super) samples: u64,
    /// What the weights count.
    pub(super) unit: &'static str,
}

/// Starts `perf record` and waits until it samples. The second part keeps it going.
pub(super) fn record(profiler: &Profiler, data: &Path) -> anyhow::Result<(Child, ChildStdin)> {
    let mut perf = Command::new("perf")
        .args(["record", "--quiet", "--no-buildid-cache"])
        .args(["--freq", &profiler.frequency.to_string()])
        .args(["--call-graph", profiler.stacks])
        .args(["--max-size", LARGEST_DATA])
        .args(["--pid", &profiler.id.to_string()])
        .arg("--output")
        .arg(data)
        // perf starts this once it samples, and ends with it: it ends when our end of its input is
        // closed, also when that happens because this program was killed.
        .args(["--", "sh", "-c", "echo; exec cat >/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C asks this program to drain; perf is to sample that too.
        .process_group(0)
        .spawn()
        .map_err(|source| failed(NO_PERF, source))?;
    let mut ready = Vec::new();
    if let Some(stdout) = perf.stdout.take() {
        let _ = BufReader::new(stdout).read_until(b'\n', &mut ready);
    }
    match perf.stdin.take() {
        Some(hold) if !ready.is_empty() => Ok((perf, hold)),
        _ => Err(refusal(profiler, perf)),
    }
}

/// Why `perf` ended instead of sampling.
fn refusal(profiler: &Profiler, mut perf: Child) -> anyhow::Error {
    let mut text = String::new();
    if let Some(stderr) = perf.stderr.take() {
        let _ = stderr.take(LONGEST_REASON_BYTES).read_to_string(&mut text);
    }
    let _ = perf.wait();
    let id = profiler.id;
    if ["paranoid", "ermission", "not permitted"]
        .iter()
        .any(|word| text.contains(word))
    {
        let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        let level = level.as_ref().map_or("unknown", |level| level.trim());
        return refused(format!(
            "perf may not sample process {id} (kernel.perf_event_paranoid is {level}); run as the process's \
             owner with `sysctl kernel.perf_event_paranoid=1`, or as root"
        ));
    }
    let lines = text.lines().map(str::trim);
    let reason = lines.filter(|line| !line.is_empty() && *line != "Error:");
    let reason = reason.take(3).collect::<Vec<_>>().join("; ");
    refused(format!("perf cannot sample process {id}: {reason}"))
}

/// Reads raw data back and folds it.
pub(super) fn script(data: &Path) -> anyhow::Result<Script> {
    let failed = |source| failed("perf script", source);
    let mut perf = Command::new("perf")
        // Inlined callers would be asked from addr2line, one address at a time: minutes.
        .args(["script", "--no-inline", "--input"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let mut samples = Samples::of(perf.stdout.take());
    let mut folded = Vec::new();
    graph::fold(BufReader::new(&mut samples), &mut folded).map_err(failed)?;
    let ended = perf.wait().map_err(failed)?;
    if !ended.success() && folded.is_empty() {
        return Err(failed(io::Error::other(format!("it ended with {ended}"))));
    }
    Ok(Script {
        folded: String::from_utf8_lossy(&folded).into_owned(),
        samples: samples.blank_lines,
        unit: if samples.first.windows(6).any(|word| word == b"cycles") {
            "cycles"
        } else {
            "ns"
        },
    })
}

/// Counts the samples on their way through: each ends with an empty line.
struct Samples<R> {
    input: Option<R>,
    blank_lines: u64,
    last: u8,
    /// The first bytes, which name the event.
    first: Vec<u8>,
}

impl<R> Samples<R> {
    fn of(input: Option<R>) -> Self {
        Self {
            input,
            blank_lines: 0,
            last: 0,
            first: Vec::new(),
        }
    }
}

impl<R: Read> Read for Samples<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(input) = &mut self.input else {
            return Ok(0);
        };
        let count = input.read(buffer)?;
        let bytes = &buffer[..count];
        for &byte in bytes {
            self.blank_lines += u64::from(byte == b'\n' && self.last == b'\n');
            self.last = byte;
        }
        let missing = FIRST_BYTES.saturating_sub(self.first.len());
        self.first.extend_from_slice(&bytes[..count.min(missing)]);
        Ok(count)
    }
}

/// Whether the program of a process was made by Go, whose programs keep frame pointers and cannot be
/// unwound by tables.
pub(super) fn is_made_by_go(id: u32) -> bool {
    let Ok(mut program) = File::open(format!("/proc/{id}/exe")) else {
        return false;
    };
    // The name of the section with Go's table of functions.
    let name = b".gopclntab";
    let mut window = Vec::with_capacity(WINDOW_BYTES + name.len() + 2);
    loop {
        // The name may lie across the border of two pieces.
        let kept = window.len().min(name.len() + 1);
        window.drain(..window.len() - kept);
        let piece = program.by_ref().take(WINDOW_BYTES as u64);
        match { piece }.read_to_end(&mut window) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        // In the list of sections names stand between zeros; in this program's own text they do not.
        let mut found = memmem::find_iter(&window, name);
        let between = |at: &usize| Some(0) == at.checked_sub(1).map(|before| window[before]);
        let ended = |at: usize| window.get(at + name.len()) == Some(&0);
        if found.any(|at| between(&at) && ended(at)) {
            return true;
        }
    }
}

const NO_PERF: &str = "Linux perf is needed, and `perf` is not in the PATH; install it (Debian: linux-perf, \
                       Ubuntu: linux-tools-generic, Fedora: perf)";
/// A disk is finite: perf stops at this size. Half an hour on two cores with copies of the stack.
const LARGEST_DATA: &str = "4G";
const LONGEST_REASON_BYTES: u64 = 64 * 1024;
const FIRST_BYTES: usize = 256;
const WINDOW_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_counted_however_the_bytes_come() {
        let text = "a 1 1.0: 5 cycles: \n\tf+0x1 (x)\n\nb 1 1.1: 5 cycles: \n\tg+0x1 (x)\n\n";
        let mut samples = Samples::of(Some(text.as_bytes()));
        let mut byte = [0; 3];
        while samples.read(&mut byte).unwrap() > 0 {}
        assert_eq!(samples.blank_lines, 2);
        assert!(samples.first.starts_with(b"a 1 1.0"));
    }

    #[test]
    fn this_program_was_not_made_by_go() {
        // Although the section's name stands in it.
        assert!(!is_made_by_go(std::process::id()));
        assert!(!is_made_by_go(u32::MAX));
    }
}
