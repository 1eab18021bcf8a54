//! `virt-hook inspect`: what a module says of itself, and what can be seen of it.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use hook_host::wasm::{Code, Interface, Module, World};
use serde::Serialize;

use crate::compiling;
use crate::failure::Failure;
use crate::hooks::runtime;
use crate::modules;
use crate::output::{Plain, Report, Style};

pub(crate) const HELP: &str = "\
Examples:
  virt-hook inspect smbios.wasm
  virt-hook inspect smbios.wasm --json | jq -r .result.sha256

Exit codes:
  0  it is a hook; standard output says which
  1  it is no hook that the host takes; standard error says why
  2  the command line, or the file that it names, cannot be used
  3  this machine could not do it";

/// What `inspect` is given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The module
    #[arg(value_name = "WASM")]
    module: PathBuf,
}

/// A module.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Inspected {
    /// What it calls itself.
    pub(crate) name: String,
    /// Its own version; empty when it does not say.
    pub(crate) version: String,
    /// Where it wants to be called.
    pub(crate) hook_points: Vec<Point>,
    /// What it will do; none when it does not say, and then it may change nothing of the domain.
    pub(crate) wishes: Option<WishReport>,
    /// Of the file, in hexadecimal: what policies pin.
    pub(crate) sha256: String,
    /// Of the file.
    pub(crate) bytes: u64,
    /// What it can ask the host.
    pub(crate) imports: Vec<InterfaceReport>,
    /// What the host can call.
    pub(crate) exports: Vec<InterfaceReport>,
    /// What compiling it took, the start of the child included.
    pub(crate) compile_millis: Option<u64>,
    /// The most memory that the child which compiled it had, in bytes.
    pub(crate) compile_peak_memory: Option<u64>,
}

/// A hook point and the place in its order.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Point {
    pub(crate) name: &'static str,
    pub(crate) priority: i32,
}

/// What a module declares.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WishReport {
    /// What it will change of the domain.
    pub(crate) paths: Vec<String>,
    /// The configuration keys that it reads.
    pub(crate) config: Vec<String>,
    /// The directories that it reads.
    pub(crate) dirs: Vec<PathBuf>,
}

/// An interface and its functions.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct InterfaceReport {
    pub(crate) name: String,
    pub(crate) functions: Vec<String>,
}

/// Loads the module as a launcher would, and looks.
pub(crate) fn run(arguments: &Arguments) -> Result<Inspected, Failure> {
    let path = &arguments.module;
    let size = modules::size(path).map_err(Failure::Usage)?;
    let place = tempfile::tempdir()
        .context("making a temporary directory")
        .map_err(Failure::Machine)?;
    let loaded = runtime()?.block_on(modules::load(path, &place.path().join("compiled")));
    let loaded = loaded.map_err(Failure::Machine)?;
    let module = loaded.map_err(|error| Failure::Refused(compiling::explain(error)))?;
    Ok(Inspected::of(&module, size))
}

impl Inspected {
    pub(crate) fn of(module: &Module, bytes: u64) -> Self {
        let description = module.description();
        let World { imports, exports } = module.world();
        let (took, peak) = match module.code() {
            Code::Compiled { took, peak_memory } => (Some(*took), *peak_memory),
            Code::Kept | Code::Baked { .. } => (None, None),
        };
        let points = description.hook_points.iter().map(|subscription| Point {
            name: subscription.point.name(),
            priority: subscription.priority,
        });
        let wishes = description.wishes.as_ref().map(|wishes| WishReport {
            paths: wishes
                .paths
                .iter()
                .map(|path| path.as_str().to_owned())
                .collect(),
            config: wishes.config.clone(),
            dirs: wishes.dirs.clone(),
        });
        Self {
            name: description.name.clone(),
            version: description.version.clone(),
            hook_points: points.collect(),
            wishes,
            sha256: module.digest().to_owned(),
            bytes,
            imports: imports.into_iter().map(InterfaceReport::from).collect(),
            exports: exports.into_iter().map(InterfaceReport::from).collect(),
            compile_millis: took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            compile_peak_memory: peak,
        }
    }

    fn wishes(&self, text: &mut String) {
        let Some(wishes) = &self.wishes else {
            *text += "wishes       none declared: it may change nothing of the domain\n";
            return;
        };
        let dirs = wishes.dirs.iter().map(|dir| dir.display().to_string());
        let lists = [
            ("changes", wishes.paths.clone()),
            ("config", wishes.config.clone()),
            ("reads", dirs.collect()),
        ];
        for (title, list) in lists {
            rows(text, title, list.iter().map(|item| Plain(item).to_string()));
        }
    }
}

impl From<Interface> for InterfaceReport {
    fn from(interface: Interface) -> Self {
        let Interface { name, functions } = interface;
        Self { name, functions }
    }
}

impl Report for Inspected {
    fn text(&self, style: Style) -> String {
        let name = format!("{} {}", Plain(&self.name), Plain(&self.version));
        let mut text = format!("{}\n", style.strong(name.trim()));
        let points = self.hook_points.iter();
        let points = points.map(|point| format!("{} (priority {})", point.name, point.priority));
        rows(&mut text, "hook points", points);
        self.wishes(&mut text);
        text += &format!("sha256       {}\n", self.sha256);
        text += &format!("size         {} bytes\n", self.bytes);
        if let Some(millis) = self.compile_millis {
            let peak = self.compile_peak_memory;
            let peak = peak.map_or(String::new(), |peak| {
                format!(", {} MiB at most", peak >> 20)
            });
            text += &format!("compiled in  {millis} ms{peak}\n");
        }
        rows(&mut text, "exports", named(&self.exports));
        let (ours, wasi): (Vec<_>, Vec<_>) = self
            .imports
            .iter()
            .cloned()
            .partition(|import| !import.name.starts_with("wasi:"));
        rows(&mut text, "imports", named(&ours));
        if !wasi.is_empty() {
            let count = wasi.len();
            text += &format!("             {count} of WASI, behind which there is nothing\n");
        }
        text
    }
}

fn named(interfaces: &[InterfaceReport]) -> impl Iterator<Item = String> {
    interfaces.iter().map(|interface| {
        let functions = interface.functions.join(", ");
        format!("{} ({functions})", interface.name).replace(" ()", "")
    })
}

/// A title with its first row, and the others below.
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
