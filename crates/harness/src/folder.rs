//! Where a run is written.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use jiff::Timestamp;

/// Where a run is written.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder, or takes an empty one.
    ///
    /// # Errors
    /// When it holds something, is a file, or cannot be made.
    pub fn create(path: PathBuf) -> anyhow::Result<Self> {
        let shown = path.display();
        if path.exists() && !path.is_dir() {
            bail!("the output {shown} is not a folder; choose another --out");
        }
        fs::create_dir_all(&path).with_context(|| unwritable(&path))?;
        let mut inside = fs::read_dir(&path).with_context(|| unwritable(&path))?;
        if inside.next().is_some() {
            bail!("the output folder {shown} is not empty; choose another --out or remove it");
        }
        Ok(Self { path })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates one of its files.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn open(&self, name: &str) -> anyhow::Result<File> {
        let path = self.path.join(name);
        File::create_new(&path).with_context(|| unwritable(&path))
    }

    /// Takes back a folder in which nothing was written yet, so that it can be used again: these files, and the folder
    /// itself where nothing else is in it.
    pub fn discard(&self, files: &[&str]) {
        for file in files {
            let _ = fs::remove_file(self.path.join(file));
        }
        let _ = fs::remove_dir(&self.path);
    }

    /// Writes one of its files whole.
    ///
    /// # Errors
    /// When the file cannot be created or written.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let written = self.open(name)?.write_all(text.as_bytes());
        whole(written, name)
    }
}

/// Names an output that was not written whole, with what to do.
///
/// # Errors
/// Where it was not.
pub fn whole(written: io::Result<()>, what: impl Display) -> anyhow::Result<()> {
    written.map_err(|error| {
        let named = base::write_failure(what, &error);
        anyhow::Error::from(error).context(named)
    })
}

fn unwritable(path: &Path) -> String {
    format!(
        "cannot write to {}; choose an --out that is writable",
        path.display()
    )
}

/// Makes `runs/<utc>-<shape>`, with a number behind it where another run began in the same second. A folder that
/// cannot be made is named all the same: the error comes from [`RunFolder::create`].
pub fn default_folder(shape: &str) -> PathBuf {
    let stamp = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    free_folder(Path::new("runs"), &format!("{stamp}-{shape}"))
}

fn free_folder(parent: &Path, name: &str) -> PathBuf {
    let first = parent.join(name);
    if fs::create_dir_all(parent).is_err() {
        return first;
    }
    let others = (2..=MOST_IN_A_SECOND).map(|number| parent.join(format!("{name}-{number}")));
    let is_taken = |path: &PathBuf| {
        let made = fs::create_dir(path);
        made.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
    };
    let mut folders = std::iter::once(first.clone()).chain(others);
    folders.find(|path| !is_taken(path)).unwrap_or(first)
}

const MOST_IN_A_SECOND: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_folder_or_a_file_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(base.path().join("a/b")).unwrap();
        folder.open("txs.csv").unwrap();
        let again = RunFolder::create(folder.path().into()).unwrap_err();
        assert!(again.to_string().contains("is not empty"));
        let file = RunFolder::create(folder.path().join("txs.csv")).unwrap_err();
        assert!(file.to_string().contains("is not a folder"));
        let below = RunFolder::create(folder.path().join("txs.csv/x")).unwrap_err();
        assert!(below.to_string().starts_with("cannot write to "));
    }

    #[test]
    fn runs_of_one_second_get_folders_of_their_own() {
        let base = tempfile::tempdir().unwrap();
        let runs = base.path().join("runs");
        let made = [(); 3].map(|()| free_folder(&runs, "20261122T060000Z-constant"));
        let names = made.map(|path| path.file_name().unwrap().to_owned());
        let name = "20261122T060000Z-constant";
        assert_eq!(names, [name, &format!("{name}-2"), &format!("{name}-3")]);
    }
}
