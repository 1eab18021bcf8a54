//! `virt-hook inspect`: shows a module's description, interfaces, size, compile cost and policy.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use hook_host::policy::{UnknownPath, dangerous_values, may_have_attributes, names_dangerous};
use hook_host::wasm::{ComponentInterfaces, Interface, Module};
use hook_host::{ConditionedPath, Description};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::compiled_module_cache::CompileCost;
use crate::interactive_compile::module_file_size;
use crate::output::{Report, Style, TerminalEscaped};
use crate::temporary_directory::TemporaryDirectory;
use crate::verb_failure::Failure;
use crate::verbs::signature::{DateInModule, module_bytes};
use crate::yaml_writer::scalar;
use crate::{cached_compilation, interactive_compile};

pub(crate) const HELP: &str = "\
Examples:
  virt-hook inspect smbios.wasm
  virt-hook inspect smbios.wasm --json | jq -r .result.sha256
  virt-hook inspect smbios.wasm --policy-only > cases/policy.yaml

Exit codes:
  0  the module is a hook; standard output describes it
  2  invalid command line, or the file is not a hook of a supported version; standard error says why
  3  error of this machine";

/// Arguments of `virt-hook inspect`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The module
    #[arg(value_name = "WASM")]
    module: PathBuf,
    /// Print only the minimal operator's policy that the module needs
    #[arg(long)]
    policy_only: bool,
}

/// Loads the module as a launcher would and reports its properties.
pub(crate) fn run(arguments: &Arguments) -> Result<ModuleReport, Failure> {
    let path = &arguments.module;
    module_file_size(path).map_err(Failure::Usage)?;
    let content = module_bytes(path)?;
    let temp_dir = TemporaryDirectory::new()
        .context("making a temporary directory")
        .map_err(Failure::Internal)?;
    let loaded = cached_compilation::load_measured(path, &temp_dir.path().join("compiled"))?;
    let (module, compile_cost) = loaded.map_err(interactive_compile::unusable)?;
    // The report is about one content: the date, which loading does not read, and the rest.
    if format!("{:x}", Sha256::digest(&content)) != module.digest() {
        let error = anyhow!("{}: it was changed while it was read", path.display());
        return Err(Failure::Internal(error));
    }
    let size = content.len() as u64;
    let mut report = ModuleReport::new(&module, size, compile_cost.cost.as_ref());
    report.date = DateInModule::of(&content);
    report.is_policy_only = arguments.policy_only;
    Ok(report)
}

/// The properties of a module.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModuleReport {
    /// The name in its description.
    pub(crate) name: String,
    /// The version in its description; may be empty.
    pub(crate) version: String,
    /// The hook points that the module subscribes to.
    pub(crate) hook_points: Vec<Point>,
    /// The module's wishes; without any it may change nothing of the domain.
    pub(crate) wishes: Option<WishReport>,
    /// The sha256 of the file in hexadecimal, which policies pin.
    pub(crate) sha256: String,
    /// Size of the file in bytes.
    pub(crate) bytes: u64,
    /// The date of signing in the module.
    #[serde(flatten)]
    date: DateInModule,
    /// The imported interfaces.
    pub(crate) imports: Vec<InterfaceReport>,
    /// The exported interfaces.
    pub(crate) exports: Vec<InterfaceReport>,
    /// Duration of compiling in milliseconds, including the start of the compile process.
    pub(crate) compile_millis: Option<u64>,
    /// Peak memory of the compile process in bytes.
    pub(crate) compile_peak_memory: Option<u64>,
    /// The content of `allow` of the minimal operator's policy that grants its wishes.
    policy: MinimalPolicy,
    /// Whether the text of the report is the policy alone.
    #[serde(skip)]
    is_policy_only: bool,
}

/// A hook point with its priority.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Point {
    pub(crate) name: &'static str,
    pub(crate) priority: i32,
}

/// The declared wishes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WishReport {
    /// The paths of the domain that the module changes.
    pub(crate) paths: Vec<ConditionedPath>,
    /// Declared paths that libvirt's domain format does not have, with the probably intended path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unknown_paths: Vec<String>,
    /// The configuration keys that the module reads.
    pub(crate) config: Vec<String>,
    /// The directories that the module reads.
    pub(crate) dirs: Vec<PathBuf>,
    /// The parameters of a migration that the module changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) migration: Vec<String>,
    /// The facts about the pod that the module reads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pod: Vec<String>,
}

/// An interface and its functions.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct InterfaceReport {
    pub(crate) name: String,
    pub(crate) functions: Vec<String>,
}

impl ModuleReport {
    pub(crate) fn new(module: &Module, bytes: u64, cost: Option<&CompileCost>) -> Self {
        let description = module.description();
        let ComponentInterfaces { imports, exports } = module.interfaces();
        let points = description.hook_points.iter().map(|subscription| Point {
            name: subscription.point.name(),
            priority: subscription.priority,
        });
        let wishes = description.wishes.as_ref().map(|wishes| WishReport {
            paths: wishes.paths.clone(),
            unknown_paths: (wishes.paths.iter())
                .filter_map(|path| UnknownPath::of(path.path()))
                .map(|unknown| unknown.to_string())
                .collect(),
            config: wishes.config.clone(),
            dirs: wishes.dirs.clone(),
            migration: wishes.migration.iter().map(ToString::to_string).collect(),
            pod: wishes.pod.iter().map(ToString::to_string).collect(),
        });
        Self {
            name: description.name.clone(),
            version: description.version.clone(),
            hook_points: points.collect(),
            wishes,
            sha256: module.digest().to_owned(),
            bytes,
            date: DateInModule::default(),
            imports: imports.into_iter().map(InterfaceReport::from).collect(),
            exports: exports.into_iter().map(InterfaceReport::from).collect(),
            compile_millis: cost.map(|cost| cost.millis),
            compile_peak_memory: cost.and_then(|cost| cost.peak_memory),
            policy: MinimalPolicy::for_module(description),
            is_policy_only: false,
        }
    }

    fn write_wishes(&self, text: &mut String) {
        let Some(wishes) = &self.wishes else {
            *text += "wishes       none declared: it may not change the domain\n";
            return;
        };
        let dirs = wishes.dirs.iter().map(|dir| dir.display().to_string());
        let lists: [(_, Vec<String>); 3] = [
            (
                "changes",
                wishes.paths.iter().map(ToString::to_string).collect(),
            ),
            ("config", wishes.config.clone()),
            ("reads", dirs.collect()),
        ];
        for (title, list) in lists {
            rows(
                text,
                title,
                list.iter().map(|item| TerminalEscaped(item).to_string()),
            );
        }
        for (title, list) in [
            ("migration", &wishes.migration),
            ("pod", &wishes.pod),
            ("misspelt?", &wishes.unknown_paths),
        ] {
            if !list.is_empty() {
                rows(
                    text,
                    title,
                    list.iter().map(|item| TerminalEscaped(item).to_string()),
                );
            }
        }
    }
}

impl From<Interface> for InterfaceReport {
    fn from(interface: Interface) -> Self {
        let Interface { name, functions } = interface;
        Self { name, functions }
    }
}

impl Report for ModuleReport {
    fn text(&self, style: Style) -> String {
        if self.is_policy_only {
            return self.policy.yaml();
        }
        let name = format!(
            "{} {}",
            TerminalEscaped(&self.name),
            TerminalEscaped(&self.version)
        );
        let mut text = format!("{}\n", style.strong(name.trim()));
        let points = self.hook_points.iter();
        let points = points.map(|point| format!("{} (priority {})", point.name, point.priority));
        rows(&mut text, "hook points", points);
        self.write_wishes(&mut text);
        text += &format!("sha256       {}\n", self.sha256);
        text += &format!("size         {} bytes\n", self.bytes);
        if let Some(date) = self.date.text() {
            let date = date.strip_prefix("dated ").unwrap_or(&date);
            text += &format!("dated        {}\n", TerminalEscaped(date));
        }
        if let Some(millis) = self.compile_millis {
            let peak = self.compile_peak_memory;
            let peak = peak.map_or(String::new(), |peak| {
                format!(", {} MiB at most", peak >> 20)
            });
            text += &format!("compiled in  {millis} ms{peak}\n");
        }
        rows(&mut text, "exports", interface_lines(&self.exports));
        let (of_hooks, wasi): (Vec<_>, Vec<_>) = self
            .imports
            .iter()
            .cloned()
            .partition(|import| !import.name.starts_with("wasi:"));
        rows(&mut text, "imports", interface_lines(&of_hooks));
        if !wasi.is_empty() {
            let count = wasi.len();
            text += &format!("             {count} of WASI, which give access to nothing\n");
        }
        text + &format!(
            "\nThe minimal operator's policy that it needs:\n\n{}",
            self.policy.yaml()
        )
    }
}

fn interface_lines(interfaces: &[InterfaceReport]) -> impl Iterator<Item = String> {
    interfaces.iter().map(|interface| {
        let functions = interface.functions.join(", ");
        let line = format!("{} ({functions})", interface.name).replace(" ()", "");
        TerminalEscaped(&line).to_string()
    })
}

/// Appends a title with its first row, and the other rows below.
fn rows(text: &mut String, title: &str, rows: impl Iterator<Item = String>) {
    let mut title = title;
    for row in rows {
        *text += &format!("{title:<12} {row}\n");
        title = "";
    }
    if !title.is_empty() {
        *text += &format!("{title:<12} none\n");
    }
}

/// The content of `allow` in an operator's policy.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MinimalPolicy {
    paths: Vec<ConditionedPath>,
    dangerous: Vec<ConditionedPath>,
    dirs: Vec<String>,
    config: Vec<String>,
    hook_points: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    migration: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pod: Vec<String>,
}

impl MinimalPolicy {
    pub(crate) fn for_module(description: &Description) -> Self {
        let wishes = description.wishes.clone().unwrap_or_default();
        // Every value of these paths is dangerous. A path with only some dangerous values is in `paths`, which grants
        // its other values.
        let is_always_dangerous = |path: &ConditionedPath| {
            names_dangerous(&path.pattern) && dangerous_values(&path.pattern).is_empty()
        };
        let (dangerous, paths): (Vec<_>, Vec<_>) = with_attributes(&wishes.paths)
            .into_iter()
            .partition(is_always_dangerous);
        let points = description.hook_points.iter();
        Self {
            paths,
            dangerous,
            dirs: wishes
                .dirs
                .iter()
                .map(|dir| dir.display().to_string())
                .collect(),
            config: wishes.config,
            hook_points: points
                .map(|subscription| subscription.point.name().to_owned())
                .collect(),
            migration: wishes.migration.iter().map(ToString::to_string).collect(),
            pod: wishes.pod.iter().map(ToString::to_string).collect(),
        }
    }

    /// The dangerous paths and the directories, which a module gets only if the operator's policy names them.
    pub(crate) fn dangerous_and_dirs(&self) -> Vec<String> {
        let dangerous = self.dangerous.iter().map(ToString::to_string);
        dangerous.chain(self.dirs.iter().cloned()).collect()
    }

    /// As [`Self::dangerous_and_dirs`], with the facts about the pod, which also need a policy.
    pub(crate) fn only_by_operator(&self) -> Vec<String> {
        let texts = self.dangerous_and_dirs().into_iter();
        texts.chain(self.pod.iter().cloned()).collect()
    }

    /// The policy as a YAML file. An absent `paths`, `config` or `hookPoints` does not narrow anything, so an empty list is
    /// written. `dangerous` and `dirs` are written empty for the reader. `pod` and `migration` are left out if empty: a
    /// module that declares none gets none.
    pub(crate) fn yaml(&self) -> String {
        let mut text = "allow:\n".to_owned();
        for (name, list) in [("paths", &self.paths), ("dangerous", &self.dangerous)] {
            if list.is_empty() {
                text += &format!("  {name}: []\n");
                continue;
            }
            text += &format!("  {name}:\n");
            for path in list {
                if name == "paths" {
                    text += &note_on_values(path);
                }
                if let Some(unknown) = UnknownPath::of(path.path()) {
                    text += &format!("    # {unknown}\n");
                }
                text += &list_item(path);
            }
        }
        let lists = [
            ("dirs", &self.dirs),
            ("config", &self.config),
            ("hookPoints", &self.hook_points),
        ];
        for (name, list) in lists {
            if list.is_empty() {
                text += &format!("  {name}: []\n");
                continue;
            }
            text += &format!("  {name}:\n");
            for item in list {
                text += &format!("    - {}\n", scalar(item));
            }
        }
        if !self.pod.is_empty() {
            text += "  pod:\n";
            text.extend(
                self.pod
                    .iter()
                    .map(|item| format!("    - {}\n", scalar(item))),
            );
        }
        if !self.migration.is_empty() {
            text += &format!("  migration: [{}]\n", self.migration.join(", "));
        }
        text
    }
}

/// The wishes, and after each for an element that of its own attributes, which a policy has to name. Elements that have
/// none in libvirt are left alone.
fn with_attributes(wishes: &[ConditionedPath]) -> Vec<ConditionedPath> {
    let wishes = wishes.iter().flat_map(|wish| {
        let attributes = wish.own_attributes();
        let attributes = attributes.filter(|_| may_have_attributes(wish.path()));
        [wish.clone()].into_iter().chain(attributes)
    });
    let mut all: Vec<ConditionedPath> = Vec::new();
    for wish in wishes {
        if !all.contains(&wish) {
            all.push(wish);
        }
    }
    all
}

/// A path as an item of a list: alone, or a mapping with its condition.
fn list_item(path: &ConditionedPath) -> String {
    let Ok(Value::Object(fields)) = serde_json::to_value(path) else {
        return format!("    - {}\n", scalar(path.path()));
    };
    let mut text = String::new();
    for (key, value) in &fields {
        let mark = if text.is_empty() { "    - " } else { "      " };
        let value = match value {
            Value::String(text) => scalar(text),
            // Lists and numbers are YAML as in JSON.
            other => other.to_string(),
        };
        text += &format!("{mark}{key}: {value}\n");
    }
    text
}

/// A YAML comment above a path of which some values are dangerous.
fn note_on_values(path: &ConditionedPath) -> String {
    let kinds = dangerous_values(&path.pattern);
    let notes = kinds.iter().map(|kind| {
        format!(
            "    # `dangerous` too, if it sets a value that {kind} ({})\n",
            kind.name()
        )
    });
    notes.collect()
}
