//! The folder of several runs, whose documents are written again after each of them, so that what was known
//! by then outlives a kill.

use std::fs;
use std::path::{Path, PathBuf};

use harness::whole;
use serde::Serialize;

/// A folder and its documents.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
}

impl Journal {
    /// Of a folder that is there.
    pub(crate) fn new(folder: &Path) -> Self {
        let folder = folder.into();
        Self { folder }
    }

    /// Where a file of it lies.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Replaces a document by its state now.
    pub(crate) fn document(&self, name: &str, document: &impl Serialize) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(document)?;
        self.text(name, &(text + "\n"))
    }

    /// Replaces a file. A reader sees the old text or the new one, never half of one.
    pub(crate) fn text(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let (place, beside) = (self.path(name), self.path(&format!(".{name}.new")));
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &place));
        whole(written, place.display())
    }
}
