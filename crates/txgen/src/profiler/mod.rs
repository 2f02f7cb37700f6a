//! A sampler on a process while the load runs: Linux `perf`, or `py-spy` for a Python process; the stacks
//! are drawn as a flame graph by `inferno`.
//!
//! A sampler runs until this program closes its standard input, so it ends with the run however the run
//! ends, and its first line of output reports that sampling has begun.

#[cfg(feature = "flame-graph")]
mod graph;
mod sampler;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin};
use std::str::FromStr;

use anyhow::anyhow;

use sampler::{Sampler, Stacks};

/// Which process is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfiledProcess {
    /// The one with this id.
    Id(u32),
    /// This program, and with it the built-in node.
    Own,
}

/// A process that can be sampled: tried out before the load.
#[derive(Debug, Clone)]
pub struct Profiler {
    id: u32,
    name: String,
    sampler: Sampler,
}

/// Sampling under way; dropping it ends it.
#[derive(Debug)]
pub struct Sampling {
    profiler: Profiler,
    process: Child,
    /// Sampling goes on until this is closed.
    hold: Option<ChildStdin>,
    data: PathBuf,
}

/// A finished profile.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The sampled process.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// How many samples were taken.
    pub samples: u64,
    /// What the reader of the graph should know, if anything.
    pub note: Option<&'static str>,
}

impl Profiler {
    /// Checks that the process is there and may be sampled, by sampling it for a moment.
    ///
    /// # Errors
    /// Why it may not, with what to do about it.
    pub fn check(process: ProfiledProcess) -> anyhow::Result<Self> {
        if !graph::IS_BUILT {
            let problem =
                "this build of txgen cannot sample; build it with the cargo feature flame-graph";
            return Err(refused(problem));
        }
        let id = match process {
            ProfiledProcess::Id(id) => id,
            ProfiledProcess::Own => std::process::id(),
        };
        let name = fs::read_to_string(format!("/proc/{id}/comm"))
            .map_err(|_| {
                let problem = format!("there is no process {id}; look it up with `pgrep -a NAME`");
                refused(problem)
            })?
            .trim_end()
            .to_owned();
        let profiler = Self {
            id,
            name,
            sampler: Sampler::choose(id),
        };
        // What it samples in this moment is of no interest; only that it may.
        let trial = profiler.attach_to(PathBuf::from("/dev/null"))?;
        drop(trial);
        Ok(profiler)
    }

    /// Begins to sample; when it returns, samples are taken. Raw data goes to a file in `folder`.
    ///
    /// # Errors
    /// When the sampler refuses, as in [`Profiler::check`].
    pub fn attach(&self, folder: &Path) -> anyhow::Result<Sampling> {
        self.attach_to(folder.join(RAW))
    }

    fn attach_to(&self, data: PathBuf) -> anyhow::Result<Sampling> {
        let (process, hold) = self.sampler.start(self.id, &data)?;
        Ok(Sampling {
            profiler: self.clone(),
            process,
            hold: Some(hold),
            data,
        })
    }
}

impl Sampling {
    /// Ends sampling and writes `profile.folded` and `flame.svg` into `folder`; the raw data is removed.
    ///
    /// # Errors
    /// When the sampler fails, nothing was sampled, or a file cannot be written.
    pub fn finish(mut self, folder: &Path) -> anyhow::Result<Profile> {
        self.hold = None;
        let sampler = self.profiler.sampler;
        let ended = sampler::end(&mut self.process);
        let ended = ended.map_err(|source| failed(sampler.name(), source))?;
        let id = self.profiler.id;
        let Stacks {
            folded,
            samples,
            unit,
        } = sampler.stacks(&self.data)?;
        if samples == 0 {
            let sampler = sampler.name();
            return Err(refused(format!(
                "{sampler} took no sample of process {id}: it did not run ({ended})"
            )));
        }
        let profile = Profile {
            id,
            name: self.profiler.name.clone(),
            samples,
            note: sampler.note(),
        };
        write(folder, "profile.folded", |out| {
            out.write_all(folded.as_bytes())
        })?;
        write(folder, "flame.svg", |out| {
            let title = format!("{} (process {id})", profile.name);
            graph::draw(&folded, title, format!("{samples} samples"), unit, out)
        })?;
        // Tens of megabytes that are not needed any more; a file that stays is no failure of the run.
        let _ = fs::remove_file(&self.data);
        Ok(profile)
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.hold = None;
        // It ends by itself now; waiting for a child that has ended returns its status again.
        let _ = sampler::end(&mut self.process);
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id, name, samples, ..
        } = self;
        write!(f, "{samples} samples of process {id} ({name}) in flame.svg")?;
        self.note.map_or(Ok(()), |note| write!(f, "; {note}"))
    }
}

fn write(
    folder: &Path,
    name: &str,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let path = folder.join(name);
    let written = File::create_new(&path).and_then(|file| {
        let mut out = BufWriter::new(file);
        content(&mut out)?;
        out.flush()
    });
    written.map_err(|source| failed(&base::write_failure(path.display(), &source), source))
}

fn failed(what: &str, source: io::Error) -> anyhow::Error {
    anyhow::Error::from(source).context(format!("--profile-pid: {what}"))
}

/// It is not there or may not be sampled, or this build cannot sample: why, and what to do.
fn refused(problem: impl fmt::Display) -> anyhow::Error {
    anyhow!("--profile-pid: {problem}")
}

impl FromStr for ProfiledProcess {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            _ if text == "self" => Ok(Self::Own),
            Ok(id) if id > 0 => Ok(Self::Id(id)),
            _ => Err(format!(
                "{text:?} is no process; give its id, or self for txgen and the built-in node"
            )),
        }
    }
}

impl fmt::Display for ProfiledProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "process {id}")?,
            Self::Own => f.write_str("this process")?,
        }
        write!(f, ", {SAMPLES_PER_S} samples/s")
    }
}

/// On each processor that it uses. Between the samples of 99 a second no common timer of 100 or 1,000 a second, and no schedule of a
/// round rate, falls into step. Half a minute of one busy core gives some 3,000 samples: a share of
/// 1 % is then known to ± 0.2 %.
const SAMPLES_PER_S: u32 = 99;
const RAW: &str = "profile.raw";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_named_by_id_or_self() {
        assert_eq!("17".parse(), Ok(ProfiledProcess::Id(17)));
        assert_eq!("self".parse(), Ok(ProfiledProcess::Own));
        for text in ["0", "-1", "cometbft", ""] {
            let error = text.parse::<ProfiledProcess>().unwrap_err();
            assert!(error.contains("give its id"), "{error}");
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_refused_before_anything() {
        // Above the largest id that Linux gives (2^22).
        let error = Profiler::check(ProfiledProcess::Id(1 << 30));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("there is no process"), "{error}");
    }
}

/// In place of `graph` in a build without the feature `flame-graph`: `Profiler::check` refuses before
/// any of these functions is called.
#[cfg(not(feature = "flame-graph"))]
mod graph {
    use std::io::{self, BufRead, Write};

    pub(super) const IS_BUILT: bool = false;

    pub(super) fn fold(_: impl BufRead, _: &mut Vec<u8>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn draw(_: &str, _: String, _: String, _: &str, _: impl Write) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn demangled(name: &str) -> String {
        name.to_owned()
    }
}
