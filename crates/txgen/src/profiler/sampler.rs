//! The programs that sample: `perf`, and `py-spy` for Python.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use memchr::memmem;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{SAMPLES_PER_S, failed, graph, refused};

/// What samples a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sampler {
    /// `perf`, which finds callers in this way.
    Perf {
        stacks: &'static str,
        /// A Python process whose frames only `py-spy` could read.
        lacks_py_spy: bool,
    },
    /// `py-spy`, which reads Python's own frames.
    PySpy,
}

/// Samples as folded stacks.
pub(super) struct Stacks {
    /// `outer;inner weight` lines.
    pub(super) folded: String,
    pub(super) samples: u64,
    /// The unit of the weights.
    pub(super) unit: &'static str,
}

impl Sampler {
    /// `py-spy` for a Python process where it is installed, `perf` otherwise.
    pub(super) fn choose(id: u32) -> Self {
        let is_python = is_python(id);
        if is_python && is_installed("py-spy") {
            return Self::PySpy;
        }
        Self::Perf {
            stacks: if is_made_by_go(id) {
                FRAME_POINTERS
            } else {
                UNWINDING
            },
            lacks_py_spy: is_python,
        }
    }

    /// The name of its program.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Perf { .. } => "perf",
            Self::PySpy => "py-spy",
        }
    }

    /// What the reader of the graph should know.
    pub(super) const fn note(self) -> Option<&'static str> {
        match self {
            Self::Perf {
                lacks_py_spy: true, ..
            } => Some(
                "a Python process, sampled by perf: only frames of the interpreter; install py-spy \
                 (pip install py-spy) for the functions of the program",
            ),
            _ => None,
        }
    }

    /// Starts it and waits until it samples. Sampling goes on until the second part is closed.
    pub(super) fn start(self, id: u32, data: &Path) -> anyhow::Result<(Child, ChildStdin)> {
        let (frequency, id_text) = (SAMPLES_PER_S.to_string(), id.to_string());
        let mut command = match self {
            Self::Perf { stacks, .. } => {
                let mut perf = Command::new("perf");
                perf.args(["record", "--quiet", "--no-buildid-cache"])
                    .args(["--freq", &frequency, "--call-graph", stacks])
                    .args(["--max-size", LARGEST_DATA, "--pid", &id_text, "--output"])
                    .arg(data)
                    // perf starts this command when it samples, and ends when the command does.
                    .args(["--", "sh", "-c", "echo; exec cat >/dev/null"]);
                perf
            }
            Self::PySpy => {
                let mut shell = Command::new("sh");
                shell
                    .args(["-c", PY_SPY_UNTIL_CLOSED, "sh"])
                    .args(["--format", "raw", "--nolineno", "--rate", &frequency])
                    .args(["--pid", &id_text, "--output"])
                    .arg(data);
                shell
            }
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C asks this program to drain, which is sampled too.
            .process_group(0)
            .spawn()
            .map_err(|source| failed(NO_PERF, source))?;
        let line = child.stdout.take().map(first_line).unwrap_or_default();
        let began = match self {
            Self::Perf { .. } => !line.is_empty(),
            Self::PySpy => memmem::find(&line, b"Sampling process").is_some(),
        };
        match child.stdin.take() {
            Some(hold) if began => Ok((child, hold)),
            _ => Err(self.refusal(id, child, &String::from_utf8_lossy(&line))),
        }
    }

    /// Why the program ended instead of sampling.
    fn refusal(self, id: u32, mut child: Child, output: &str) -> anyhow::Error {
        let name = self.name();
        // Its output is read after its end, which one that hangs reaches only so.
        let _ = end(&mut child);
        let mut text = output.to_owned();
        if let Some(stderr) = child.stderr.take() {
            let _ = stderr.take(LONGEST_REASON_BYTES).read_to_string(&mut text);
        }
        let denied = ["paranoid", "ermission", "not permitted"];
        if denied.iter().any(|word| text.contains(word)) {
            let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            let level = level.as_ref().map_or("unknown", |level| level.trim());
            return refused(format!(
                "{name} may not sample process {id} (kernel.perf_event_paranoid is {level}); run as the \
                 process's owner with `sysctl kernel.perf_event_paranoid=1`, or as root"
            ));
        }
        let lines = text.lines().map(str::trim);
        let reason = lines.filter(|line| !line.is_empty() && *line != "Error:");
        let mut reason = reason.take(3).collect::<Vec<_>>().join("; ");
        if reason.is_empty() {
            reason = format!("it did not begin within {LONGEST_START:?}");
        }
        refused(format!("{name} cannot sample process {id}: {reason}"))
    }

    /// Reads the samples back.
    pub(super) fn stacks(self, data: &Path) -> anyhow::Result<Stacks> {
        match self {
            Self::Perf { .. } => perf_script(data),
            Self::PySpy => {
                let folded = fs::read_to_string(data).map_err(|source| failed("py-spy", source))?;
                let weights = folded.lines().filter_map(|line| line.rsplit_once(' '));
                let samples = weights.filter_map(|(_, weight)| weight.parse::<u64>().ok());
                Ok(Stacks {
                    samples: samples.sum(),
                    folded,
                    unit: "samples",
                })
            }
        }
    }
}

/// The first line that a program prints, or what it printed of it before its end or within
/// [`LONGEST_START`].
fn first_line(mut output: ChildStdout) -> Vec<u8> {
    let deadline = Instant::now() + LONGEST_START;
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        let mut byte = [0];
        match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&left)) {
            Ok(1..) if matches!(output.read(&mut byte), Ok(1)) => line.push(byte[0]),
            Err(Errno::INTR) => {}
            _ => break,
        }
    }
    line
}

/// Waits for a program that was asked to end; kills it, and what it started, after [`LONGEST_END`].
pub(super) fn end(child: &mut Child) -> io::Result<ExitStatus> {
    let deadline = Instant::now() + LONGEST_END;
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None if Instant::now() < deadline => thread::sleep(LOOK_INTERVAL),
            None => {
                kill_process_group(Pid::from_child(child), Signal::KILL)?;
                return child.wait();
            }
        }
    }
}

/// Has perf print its raw data, and folds it.
fn perf_script(data: &Path) -> anyhow::Result<Stacks> {
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
    Ok(Stacks {
        folded: graph::demangled(&String::from_utf8_lossy(&folded)),
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

/// Whether a process runs a Python interpreter.
fn is_python(id: u32) -> bool {
    let program = fs::read_link(format!("/proc/{id}/exe"));
    program.is_ok_and(|program| {
        let name = program.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("python")
    })
}

/// Whether a program is in the PATH.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether the program of a process was made by Go, whose programs keep frame pointers and cannot be
/// unwound by tables.
fn is_made_by_go(id: u32) -> bool {
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

const FRAME_POINTERS: &str = "fp";
const UNWINDING: &str = "dwarf";
/// py-spy ends with SIGINT, which is sent when standard input is closed, and again until it has ended: it
/// reports that it samples before it listens to signals, and a shell's background process ignores SIGINT until
/// it does. Its first line reports that it samples, or why it does not; the others are discarded.
const PY_SPY_UNTIL_CLOSED: &str = r#"{ py-spy record "$@" </dev/null 2>&1 & read -r _;
while kill -INT $! 2>/dev/null; do sleep 0.1; done; wait $!; } |
{ read -r line; echo "$line"; exec cat >/dev/null; }"#;
const NO_PERF: &str = "Linux perf is needed, and `perf` is not in the PATH; install it (Debian: linux-perf, \
                       Ubuntu: linux-tools-generic, Fedora: perf)";
/// A disk is finite: perf stops at this size. Half an hour on two cores with copies of the stack.
const LARGEST_DATA: &str = "4G";
/// Longest wait for the first sample and, after the last, for the data: py-spy reads symbols at its start,
/// and perf writes what it holds at its end.
const LONGEST_START: Duration = Duration::from_secs(30);
const LONGEST_END: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
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
