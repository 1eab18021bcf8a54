//! The modules of a crate, and which module defines the item behind a path.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::named_paths_and_items::{
    Import, ModuleDeclaration, defined_names, imports, module_declarations, paths, tokens,
};

#[derive(Debug)]
struct Module {
    imports: Vec<Import>,
    paths: Vec<Vec<String>>,
    defined_names: BTreeSet<String>,
}

impl Module {
    fn from_source(source: &str) -> Self {
        let tokens = tokens(source);
        Module {
            imports: imports(&tokens),
            paths: paths(&tokens),
            defined_names: defined_names(&tokens),
        }
    }
}

/// The modules of one library, program or test, by their paths from its root.
#[derive(Debug)]
pub(crate) struct Modules(BTreeMap<Vec<String>, Module>);

/// The modules of a package's library, programs, integration tests and benchmarks, each with the name of the root's
/// file.
pub(crate) fn of_package(directory: &Path) -> Vec<(String, Modules)> {
    let roots = ["src/lib.rs", "src/main.rs"].map(|root| directory.join(root));
    let mut roots: Vec<PathBuf> = roots.into_iter().filter(|root| root.is_file()).collect();
    roots.extend(root_files(&directory.join("src/bin")));
    roots.extend(root_files(&directory.join("tests")));
    roots.extend(root_files(&directory.join("benches")));
    roots.extend(root_files(&directory.join("build")));
    let modules = |root: PathBuf| {
        let mut modules = BTreeMap::new();
        let name = root.strip_prefix(directory).unwrap_or(&root);
        let parent = root.parent().unwrap_or(directory);
        add_module_tree(&root, parent, Vec::new(), &mut modules);
        (name.display().to_string(), Modules(modules))
    };
    roots.into_iter().map(modules).collect()
}

/// `NAME.rs` and `NAME/main.rs` in a directory of programs or tests.
fn root_files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let mut files: Vec<PathBuf> = paths
        .map(|path| match path.is_dir() {
            true => path.join("main.rs"),
            false => path,
        })
        .filter(|path| is_source(path) && path.is_file())
        .collect();
    files.sort();
    files
}

/// Adds the module in `file` and, recursively, the modules that it declares. `directory` has the files of those without a
/// `#[path]`.
///
/// # Panics
///
/// If a declared module has no file. A module that a build script writes would be such a module; the workspace has none.
fn add_module_tree(
    file: &Path,
    directory: &Path,
    path: Vec<String>,
    modules: &mut BTreeMap<Vec<String>, Module>,
) {
    let source = fs::read_to_string(file).unwrap();
    for declaration in module_declarations(&tokens(&source)) {
        let mut child = path.clone();
        child.push(declaration.name.clone());
        let (child_file, child_directory) = child_location(file, directory, &declaration);
        assert!(
            child_file.is_file(),
            "{} declares the module {}, which has no file: {} is missing. If the declaration is generated or inside \
             another module, teach this test to find its file",
            file.display(),
            declaration.name,
            child_file.display()
        );
        add_module_tree(&child_file, &child_directory, child, modules);
    }
    modules.insert(path, Module::from_source(&source));
}

/// The file of a declared module, and the directory of its own modules.
fn child_location(
    file: &Path,
    directory: &Path,
    declaration: &ModuleDeclaration,
) -> (PathBuf, PathBuf) {
    if let Some(path) = &declaration.path_attribute {
        // As for `mod.rs`, the modules of such a file are beside it.
        let child_file = file.with_file_name(path);
        let child_directory = child_file.parent().unwrap_or(directory).to_owned();
        return (child_file, child_directory);
    }
    let child_directory = directory.join(&declaration.name);
    let in_directory = child_directory.join("mod.rs");
    let child_file = match in_directory.is_file() {
        true => in_directory,
        false => child_directory.with_extension("rs"),
    };
    (child_file, child_directory)
}

impl Modules {
    /// Modules from their paths (`a::b`) and sources.
    pub(crate) fn new(sources: &[(&str, &str)]) -> Self {
        let modules = sources.iter().map(|(path, source)| {
            let path = path.split("::").filter(|name| !name.is_empty());
            (
                path.map(str::to_owned).collect(),
                Module::from_source(source),
            )
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
                    dependencies.push((path, self.definition(&absolute)));
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

    /// The module that defines the item at an absolute path. Follows re-exports, those of `*` too.
    fn definition(&self, path: &[String]) -> Vec<String> {
        self.definition_beyond(path, &mut BTreeSet::new())
    }

    /// Like [`Self::definition`], without the paths that were followed already: globs can lead back to each other.
    fn definition_beyond(
        &self,
        path: &[String],
        followed: &mut BTreeSet<Vec<String>>,
    ) -> Vec<String> {
        let is_module = |length: &usize| self.0.contains_key(&path[..*length]);
        let length = (0..=path.len()).rev().find(is_module).unwrap_or(0);
        let (module, rest) = path.split_at(length);
        let is_new = followed.insert(path.to_vec());
        let Some(name) = rest.first().filter(|_| is_new) else {
            return module.to_vec();
        };
        let Module {
            imports,
            defined_names,
            ..
        } = &self.0[module];
        if defined_names.contains(name) {
            return module.to_vec();
        }
        let exported = imports.iter().find(|import| import.name == *name);
        match exported {
            Some(import) => match self.absolute(module, &import.path) {
                Some(target) => self.definition_beyond(&target, followed),
                None => module.to_vec(),
            },
            None => self
                .definition_behind_glob(module, name, followed)
                .unwrap_or_else(|| module.to_vec()),
        }
    }

    /// The module that defines an item which `module` re-exports from another module by `*`.
    fn definition_behind_glob(
        &self,
        module: &[String],
        name: &String,
        followed: &mut BTreeSet<Vec<String>>,
    ) -> Option<Vec<String>> {
        let imports = self.0[module].imports.iter();
        let mut globs = imports.filter(|import| import.name == "*");
        globs.find_map(|import| {
            let target = self.absolute(module, &import.path)?;
            // Only a module of this crate: the glob of an enum or of another crate exports nothing that can form a cycle.
            if target == module || !self.0.contains_key(&target) {
                return None;
            }
            let mut item = target;
            item.push(name.clone());
            let definition = self.definition_beyond(&item, followed);
            self.0[&definition]
                .defined_names
                .contains(name)
                .then_some(definition)
        })
    }
}
