//! The modules of a crate, and which module defines the item behind a path.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::source_paths::{Import, imports, paths, tokens};

/// The maximum number of re-exports that are followed from a path to the item's definition.
const MAX_RE_EXPORTS: usize = 16;

#[derive(Debug)]
struct Module {
    imports: Vec<Import>,
    paths: Vec<Vec<String>>,
}

/// The modules of one library or program, by their paths from its root.
#[derive(Debug)]
pub(crate) struct Modules(BTreeMap<Vec<String>, Module>);

/// The modules of a crate's library and of its program.
pub(crate) fn of_crate(directory: &Path) -> Vec<Modules> {
    let mut roots = Vec::new();
    for root in ["lib.rs", "main.rs"] {
        let file = directory.join("src").join(root);
        if file.is_file() {
            let mut modules = BTreeMap::new();
            add_module_tree(&file, &directory.join("src"), Vec::new(), &mut modules);
            roots.push(Modules(modules));
        }
    }
    roots
}

/// Adds the module in `file` and, recursively, the modules that it declares.
fn add_module_tree(
    file: &Path,
    directory: &Path,
    path: Vec<String>,
    modules: &mut BTreeMap<Vec<String>, Module>,
) {
    let tokens = tokens(&fs::read_to_string(file).unwrap());
    for declared in tokens.windows(3) {
        let [word, name, end] = declared else {
            continue;
        };
        if word != "mod" || end != ";" {
            continue;
        }
        let mut child = path.clone();
        child.push(name.clone());
        let file_beside = directory.join(format!("{name}.rs"));
        let child_directory = directory.join(name);
        let file = if file_beside.is_file() {
            file_beside
        } else {
            child_directory.join("mod.rs")
        };
        // A module that a build script generates has no file in the sources.
        if file.is_file() {
            add_module_tree(&file, &child_directory, child, modules);
        }
    }
    modules.insert(
        path,
        Module {
            imports: imports(&tokens),
            paths: paths(&tokens),
        },
    );
}

impl Modules {
    /// Modules from their paths (`a::b`) and sources.
    pub(crate) fn new(sources: &[(&str, &str)]) -> Self {
        let modules = sources.iter().map(|(path, source)| {
            let path = path.split("::").filter(|name| !name.is_empty());
            let tokens = tokens(source);
            let module = Module {
                imports: imports(&tokens),
                paths: paths(&tokens),
            };
            (path.map(str::to_owned).collect(), module)
        });
        Self(modules.collect())
    }

    /// All pairs of a module and a module that defines an item it names.
    pub(crate) fn dependencies(&self) -> Vec<(&Vec<String>, Vec<String>)> {
        let mut dependencies = Vec::new();
        for (path, module) in &self.0 {
            let imported = module.imports.iter().map(|import| &import.path);
            for named in imported.chain(&module.paths) {
                if let Some(absolute) = self.absolute(path, named) {
                    dependencies.push((path, self.definition(&absolute, MAX_RE_EXPORTS)));
                }
            }
        }
        dependencies
    }

    /// A path from the crate's root; `None` for a path into another crate, or of a local item.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let mut base = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => module.to_vec(),
            first => {
                let mut child = module.to_vec();
                child.push(first.to_owned());
                if !self.0.contains_key(&child) {
                    return None;
                }
                child
            }
        };
        for segment in &path[1..] {
            base.push(segment.clone());
        }
        if path[0] == "super" {
            let supers = path
                .iter()
                .take_while(|segment| *segment == "super")
                .count();
            base = module[..module.len().checked_sub(supers)?].to_vec();
            base.extend_from_slice(&path[supers..]);
        }
        Some(base)
    }

    /// The module that defines the item at an absolute path. Follows re-exports.
    fn definition(&self, path: &[String], depth: usize) -> Vec<String> {
        let is_module = |length: &usize| self.0.contains_key(&path[..*length]);
        let length = (0..=path.len()).rev().find(is_module).unwrap_or(0);
        let (module, rest) = path.split_at(length);
        let Some(name) = rest.first().filter(|_| depth > 0) else {
            return module.to_vec();
        };
        let exported = self.0[module]
            .imports
            .iter()
            .find(|import| import.name == *name);
        match exported.and_then(|import| self.absolute(module, &import.path)) {
            Some(target) if target != path => self.definition(&target, depth - 1),
            _ => module.to_vec(),
        }
    }
}
