//! Resolves paths inside a file tree of unknown origin: symlinks lead to where they would if the tree's top were the root
//! directory, never out of the tree.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows.
const MAX_LINKS: usize = 40;

/// The file or directory at `path` in the tree below `root`, free of links.
pub(super) fn resolve(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut left: VecDeque<Step> = steps(path).collect();
    let mut found: Vec<OsString> = Vec::new();
    let mut links = 0;
    while let Some(step) = left.pop_front() {
        let name = match step {
            Step::Top => {
                found.clear();
                continue;
            }
            Step::Up => {
                found.pop();
                continue;
            }
            Step::Down(name) => name,
        };
        found.push(name);
        let here = below(root, &found);
        if !std::fs::symlink_metadata(&here)?.is_symlink() {
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::other("too many links"));
        }
        found.pop();
        for step in steps(&std::fs::read_link(here)?).rev() {
            left.push_front(step);
        }
    }
    let here = below(root, &found);
    std::fs::symlink_metadata(&here)?;
    Ok(here)
}

enum Step {
    Top,
    Up,
    Down(OsString),
}

fn steps(path: &Path) -> std::vec::IntoIter<Step> {
    let step = |component| match component {
        Component::RootDir => Some(Step::Top),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Down(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    };
    let steps: Vec<Step> = path.components().filter_map(step).collect();
    steps.into_iter()
}

fn below(root: &Path, found: &[OsString]) -> PathBuf {
    let mut path = root.to_owned();
    path.extend(found);
    path
}
