//! The files as a tree of directories.

use std::collections::BTreeSet;

use super::FormatError;
use super::view::View;

/// What Joliet has room for.
const MAX_NAME: usize = 64;

pub(super) struct Directory {
    pub(super) name: String,
    pub(super) parent: usize,
    pub(super) directories: Vec<usize>,
    pub(super) files: Vec<usize>,
}

pub(super) struct File<'a> {
    pub(super) name: &'a str,
    pub(super) content: &'a [u8],
}

/// Directory 0 is the root, its own parent.
pub(super) struct Tree<'a> {
    pub(super) directories: Vec<Directory>,
    pub(super) files: Vec<File<'a>>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(files: &[(&'a str, &'a [u8])]) -> Result<Self, FormatError> {
        let mut tree = Self {
            directories: vec![Directory::new("", 0)],
            files: Vec::new(),
        };
        for (path, content) in files {
            tree.add(path, content)
                .ok_or_else(|| FormatError::Path((*path).to_owned()))?;
        }
        Ok(tree)
    }

    fn add(&mut self, path: &'a str, content: &'a [u8]) -> Option<()> {
        let mut parts: Vec<&str> = path.split('/').collect();
        let fits = |part: &&str| {
            !matches!(*part, "" | "." | "..")
                && part.encode_utf16().count() <= MAX_NAME
                && part.len() <= 2 * MAX_NAME
        };
        let name = parts.iter().all(fits).then(|| parts.pop())??;
        let mut directory = 0;
        for part in parts {
            directory = self.subdirectory(directory, part)?;
        }
        if self.names(directory).contains(&name) {
            return None;
        }
        self.directories[directory].files.push(self.files.len());
        self.files.push(File { name, content });
        Some(())
    }

    /// The subdirectory of this name; made when there is none, `None` when a file has the name.
    fn subdirectory(&mut self, parent: usize, name: &str) -> Option<usize> {
        let directories = &self.directories[parent].directories;
        if let Some(found) = directories
            .iter()
            .find(|index| self.directories[**index].name == name)
        {
            return Some(*found);
        }
        if self.names(parent).contains(name) {
            return None;
        }
        let index = self.directories.len();
        self.directories.push(Directory::new(name, parent));
        self.directories[parent].directories.push(index);
        Some(index)
    }

    fn names(&self, directory: usize) -> BTreeSet<&str> {
        let directory = &self.directories[directory];
        let directories = directory
            .directories
            .iter()
            .map(|index| self.directories[*index].name.as_str());
        let files = directory.files.iter().map(|index| self.files[*index].name);
        directories.chain(files).collect()
    }

    /// Directories as a path table has them: by depth, then parent, then identifier.
    pub(super) fn breadth_first(&self, view: View) -> Vec<usize> {
        let mut order = vec![0];
        let mut next = 0;
        while let Some(index) = order.get(next) {
            let mut children = self.directories[*index].directories.clone();
            children.sort_by_key(|child| view.directory(&self.directories[*child].name));
            order.extend(children);
            next += 1;
        }
        order
    }
}

impl Directory {
    fn new(name: &str, parent: usize) -> Self {
        Self {
            name: name.to_owned(),
            parent,
            directories: Vec::new(),
            files: Vec::new(),
        }
    }
}
