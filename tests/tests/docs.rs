//! The documentation is run.
//!
//! Each page is one story in a directory of its own. Of its fenced blocks
//!
//! | block | |
//! |---|---|
//! | `sh` | is run where it stands, and must succeed |
//! | `sh fails` | is run, and must not succeed |
//! | `sh cluster`, `sh install` | needs what a test has not; the shell must understand it |
//! | `yaml NAME`, `toml NAME`, `python NAME`, ... | is written to the file NAME, for the blocks that follow |
//! | `yaml`, `json` | must be such |
//!
//! Pages that are references show the shapes of commands; there `sh` is taken as `sh cluster` is.
//! Every `virt-hook` command in any `sh` block must name a verb and flags that there are, and every link to
//! another file must lead somewhere.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use tests::binaries::{binary, target_dir, workspace};

/// What these show is checked for its form, or is what the whole test run does.
const REFERENCES: [&str; 6] = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/virt-hook.md",
    "docs/serve.md",
    "docs/plugins.md",
    "docs/threat-model.md",
];

/// A fenced block.
#[derive(Debug)]
struct Block {
    language: String,
    role: String,
    text: String,
    line: usize,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (at, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, Some(info)) => {
                let mut words = info.split_whitespace().map(str::to_owned);
                open = Some(Block {
                    language: words.next().unwrap_or_default(),
                    role: words.next().unwrap_or_default(),
                    text: String::new(),
                    line: at + 1,
                });
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    blocks
}

/// Pages of the documentation, from the workspace's root.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![PathBuf::from("README.md"), PathBuf::from("CONTRIBUTING.md")];
    let mut open = vec![PathBuf::from("docs")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(workspace().join(&directory)).unwrap() {
            let path = directory.join(entry.unwrap().file_name());
            if workspace().join(&path).is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    assert!(pages.len() > 10, "the documentation has moved");
    pages
}

fn read(page: &Path) -> String {
    fs::read_to_string(workspace().join(page)).unwrap()
}

/// What a reader has in their shell after following the guide's first section.
fn shell(directory: &Path, script: &str) -> Output {
    let program = binary("virt-hook").unwrap();
    let programs = program.parent().unwrap().display();
    let path = std::env::var("PATH").unwrap();
    Command::new("sh")
        .args(["-eu", "-c", script])
        .current_dir(directory)
        .env("PATH", format!("{programs}:{path}"))
        .env("PYTHON", target_dir().join("python"))
        // Shared by all new projects of all tests, so that the SDK's dependencies are compiled once.
        .env("CARGO_TARGET_DIR", target_dir().join("new-hook"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What the test does after a block, in its shell: notes where it is, and gives a new Rust project the versions
/// that this workspace was tested with and the shared target directory in the usual place.
fn with_after(script: &str, place: &Path) -> String {
    let (here, lock) = (place.join(".here"), workspace().join("Cargo.lock"));
    format!(
        "{script}\npwd > {}\nif [ -e Cargo.toml ] && [ ! -e target ]; then\n\
         cp {} Cargo.lock; ln -s \"$CARGO_TARGET_DIR\" target\nfi\n",
        here.display(),
        lock.display()
    )
}

/// A page, told in a directory of its own. Files and directories that a block leaves are there for the next,
/// and so is the directory that it changed to.
fn tell(page: &str) {
    let path = PathBuf::from(page);
    let place = tempfile::tempdir().unwrap();
    let mut here = place.path().to_owned();
    let mut told = 0;
    for block in blocks(&read(&path)) {
        let at = format!("{page}:{}", block.line);
        match (block.language.as_str(), block.role.as_str()) {
            ("sh", role @ ("" | "fails")) => {
                let output = shell(&here, &with_after(&block.text, place.path()));
                let said = format!(
                    "{at}: {}\n{}{}{}",
                    output.status,
                    block.text,
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                );
                assert_eq!(output.status.success(), role.is_empty(), "{said}");
                if role.is_empty() {
                    let now = fs::read_to_string(place.path().join(".here")).unwrap();
                    here = PathBuf::from(now.trim_end());
                }
                told += 1;
            }
            (_, name) if name.contains('.') => {
                let file = here.join(name);
                assert!(file.starts_with(place.path()), "{at}: {name}");
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(&file, &block.text).unwrap();
            }
            _ => {}
        }
    }
    assert!(told > 0, "{page} runs nothing");
}

#[test]
fn the_guide_is_so() {
    tell("docs/guide.md");
}

#[test]
fn the_page_on_c_is_so() {
    tell("docs/c.md");
}

#[test]
fn the_page_on_python_is_so() {
    tell("docs/python.md");
}

/// Pages that run something are told by a test of their own, so that several run at a time.
#[test]
fn every_page_that_runs_something_is_told() {
    let tests = include_str!("docs.rs");
    for page in pages() {
        if REFERENCES.contains(&page.to_str().unwrap()) {
            continue;
        }
        let runs = blocks(&read(&page))
            .iter()
            .any(|block| block.language == "sh" && ["", "fails"].contains(&block.role.as_str()));
        let told = tests.contains(&format!("tell({:?})", page.to_str().unwrap()));
        assert_eq!(
            runs,
            told,
            "{} is not told by a test, or runs nothing",
            page.display()
        );
    }
}

#[test]
fn every_block_is_what_it_says() {
    for page in pages() {
        for block in blocks(&read(&page)) {
            let at = format!("{}:{}", page.display(), block.line);
            match block.language.as_str() {
                "sh" => {
                    let output = Command::new("sh")
                        .args(["-n", "-c", &block.text])
                        .output()
                        .unwrap();
                    assert!(
                        output.status.success(),
                        "{at}: {}",
                        String::from_utf8_lossy(&output.stderr)
                    );
                    let known = ["", "fails", "cluster", "install"].contains(&block.role.as_str());
                    assert!(known, "{at}: what is `sh {}`?", block.role);
                }
                "yaml" => {
                    let documents = serde_norway::Deserializer::from_str(&block.text);
                    for document in documents {
                        let parsed =
                            <serde_norway::Value as serde::Deserialize>::deserialize(document);
                        parsed.unwrap_or_else(|error| panic!("{at}: {error}"));
                    }
                }
                "json" => {
                    let parsed: Result<serde_json::Value, _> = serde_json::from_str(&block.text);
                    parsed.unwrap_or_else(|error| panic!("{at}: {error}"));
                }
                _ => {}
            }
        }
    }
}

/// What `--help` of a verb says; none for what is no verb.
fn help(verb: &str) -> Option<String> {
    static SAID: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());
    let mut said = SAID.lock().unwrap();
    let ask = || {
        let output = Command::new(binary("virt-hook").unwrap())
            .args([verb, "--help"])
            .output()
            .unwrap();
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    said.entry(verb.to_owned()).or_insert_with(ask).clone()
}

/// The words of each `virt-hook` command of a script, the program's name left out.
fn commands(script: &str) -> Vec<Vec<String>> {
    let joined = script.replace("\\\n", " ");
    let lines = joined
        .lines()
        .map(|line| line.split(" #").next().unwrap_or_default());
    let parts = lines.flat_map(|line| line.split(['|', ';', '&', '(', ')', '`']));
    parts
        .map(|part| {
            part.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .filter(|words| words.first().is_some_and(|word| word == "virt-hook"))
        .map(|mut words| words.split_off(1))
        .collect()
}

#[test]
fn every_verb_and_flag_is_there() {
    let mut looked_at = 0;
    for page in pages() {
        for block in blocks(&read(&page))
            .iter()
            .filter(|block| block.language == "sh")
        {
            for words in commands(&block.text) {
                let at = format!(
                    "{}:{}: virt-hook {}",
                    page.display(),
                    block.line,
                    words.join(" ")
                );
                let Some(verb) = words.iter().find(|word| !word.starts_with('-')) else {
                    continue;
                };
                let help = help(verb).unwrap_or_else(|| panic!("{at}: there is no such verb"));
                let flags = words
                    .iter()
                    .filter(|word| word.starts_with("--") && word.len() > 2);
                for flag in flags.map(|word| word.split('=').next().unwrap()) {
                    let known = help
                        .split(|c: char| !(c.is_alphanumeric() || c == '-'))
                        .any(|word| word == flag);
                    assert!(known, "{at}: `virt-hook {verb}` has no {flag}");
                }
                looked_at += 1;
            }
        }
    }
    assert!(looked_at >= 5, "the pages show no commands");
}

#[test]
fn every_link_leads_somewhere() {
    for page in pages() {
        let text = read(&page);
        let prose: String = text.split("```").step_by(2).collect();
        for target in prose
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            let base = workspace().join(&page);
            let path = base.parent().unwrap().join(file);
            assert!(path.exists(), "{}: {target} leads nowhere", page.display());
        }
    }
}

#[test]
fn every_page_is_in_the_index() {
    let index = read(Path::new("docs/README.md"));
    for page in pages() {
        let Ok(below) = page.strip_prefix("docs") else {
            continue;
        };
        let name = below.to_str().unwrap();
        // The hook points have an index of their own.
        let linked = name == "README.md" || index.contains(&format!("]({name}")) || {
            let parent = below.parent().unwrap().join("README.md");
            workspace().join("docs").join(&parent).is_file()
                && read(&Path::new("docs").join(parent)).contains(&format!(
                    "]({}",
                    page.file_name().unwrap().to_str().unwrap()
                ))
        };
        assert!(linked, "docs/README.md does not link to {name}");
    }
}
