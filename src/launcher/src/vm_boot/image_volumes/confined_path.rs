//! Resolves paths inside an untrusted file tree. Symlinks are resolved as if the tree were the root directory, so that
//! none leads out of it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Maximum number of symlinks in one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The file or directory at `path` in the tree below `root`, as a path without symlinks.
pub(super) fn resolve(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut remaining: VecDeque<Step> = steps(path).collect();
    let mut resolved: Vec<OsString> = Vec::new();
    let mut links = 0;
    while let Some(step) = remaining.pop_front() {
        let name = match step {
            Step::Root => {
                resolved.clear();
                continue;
            }
            Step::Parent => {
                resolved.pop();
                continue;
            }
            Step::Child(name) => name,
        };
        resolved.push(name);
        let current = below(root, &resolved);
        if !std::fs::symlink_metadata(&current)?.is_symlink() {
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::other("too many links"));
        }
        resolved.pop();
        for step in steps(&std::fs::read_link(current)?).rev() {
            remaining.push_front(step);
        }
    }
    let current = below(root, &resolved);
    std::fs::symlink_metadata(&current)?;
    Ok(current)
}

/// One component of a path.
enum Step {
    Root,
    Parent,
    Child(OsString),
}

fn steps(path: &Path) -> std::vec::IntoIter<Step> {
    let step = |component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Parent),
        Component::Normal(name) => Some(Step::Child(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    };
    let steps: Vec<Step> = path.components().filter_map(step).collect();
    steps.into_iter()
}

fn below(root: &Path, resolved: &[OsString]) -> PathBuf {
    let mut path = root.to_owned();
    path.extend(resolved);
    path
}
