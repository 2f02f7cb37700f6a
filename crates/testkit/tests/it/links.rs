//! Links between the documents: files that exist, headings that exist, chapters that are complete.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// What is no part of the repository, or not ours to keep right.
const ELSEWHERE: [&str; 4] = ["target", "runs", ".git", ".cache"];

/// A Markdown file: where it leads, and where one can be led to in it.
#[derive(Default)]
struct Document {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Document {
    fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let mut repeats: HashMap<String, usize> = HashMap::new();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(text) | Event::Code(text) => {
                    heading
                        .iter_mut()
                        .for_each(|heading| heading.push_str(&text));
                }
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let count = repeats.entry(anchor.clone()).or_default();
                    document.anchors.insert(match count {
                        0 => anchor,
                        _ => format!("{anchor}-{count}"),
                    });
                    *count += 1;
                }
                _ => {}
            }
        }
        document
    }
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ => c.is_alphanumeric().then_some(c),
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// Documents by their path from the root.
type Documents = BTreeMap<PathBuf, Document>;

/// What is wrong with the links of `documents`; `exists` tells of other files.
fn dangling(documents: &Documents, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, document) in documents {
        let relative = |link: &&String| !link.contains("://") && !link.starts_with("mailto:");
        for link in document.links.iter().filter(relative) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => Some(path.clone()),
                _ => resolve(path, file),
            };
            let problem = match target {
                None => Some("leads out of the repository"),
                Some(target) => match documents.get(&target) {
                    Some(to) if anchor.is_empty() || to.anchors.contains(anchor) => None,
                    Some(_) => Some("names no heading"),
                    None if !anchor.is_empty() => Some("names a heading of what is no document"),
                    None if exists(&target) => None,
                    None => Some("names no file"),
                },
            };
            complaints.extend(problem.map(|what| format!("{}: {link} {what}", path.display())));
        }
    }
    complaints
}

/// Where a link in `from` leads, from the root; `None` above it.
fn resolve(from: &Path, link: &str) -> Option<PathBuf> {
    let mut resolved = from.parent()?.to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => resolved.pop().then_some(())?,
            Component::Normal(name) => resolved.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(resolved)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Every Markdown file of the repository.
fn documents() -> Documents {
    let root = root();
    let mut documents = Documents::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            let is_ours = !ELSEWHERE.iter().any(|elsewhere| name == *elsewhere);
            // A link to a folder could lead round in circles.
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && is_ours {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|end| end == "md") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(&root).unwrap().to_owned();
                documents.insert(path, Document::parse(&text));
            }
        }
    }
    documents
}

#[test]
fn every_link_between_documents_leads_to_a_file_and_a_heading_that_exist() {
    let documents = documents();
    assert!(documents.len() > 20, "{:?}", documents.keys());
    let root = root();
    let complaints = dangling(&documents, |path| root.join(path).exists());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn what_leads_nowhere_is_named() {
    let documents: Documents = [
        (
            "docs/a.md",
            "# One `two`, three!\n## Same\n## Same\n[](b.md#top) [](../README.md) [](#one-two-three) \
             [](#same-1) [](../src/x.rs) [](https://example.org/#x)\n\n[b]\n\n[b]: b.md\n",
        ),
        (
            "docs/b.md",
            "# Top\n[](c.md) [](a.md#same-2) [](../../x) [](../src/y.rs) [](../src/x.rs#L1) `[](d.md)`\n",
        ),
        ("README.md", "| a |\n|---|\n| [](docs/a.md#nothing) |\n"),
    ]
    .map(|(path, text)| (PathBuf::from(path), Document::parse(text)))
    .into();
    let complaints = dangling(&documents, |path| path == Path::new("src/x.rs"));
    assert_eq!(
        complaints,
        [
            "README.md: docs/a.md#nothing names no heading",
            "docs/b.md: c.md names no file",
            "docs/b.md: a.md#same-2 names no heading",
            "docs/b.md: ../../x leads out of the repository",
            "docs/b.md: ../src/y.rs names no file",
            "docs/b.md: ../src/x.rs#L1 names a heading of what is no document",
        ]
    );
}
