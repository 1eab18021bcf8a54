//! Runs a hook as its users will: the built module, under the real host, within its limits.
//!
//! ```no_run
//! let hook = hooks_sdk::testing::module!();
//! let defined = hook.on_define_domain(r#"{"metadata":{"name":"vm"}}"#, "<domain><name>vm</name></domain>").ok();
//! assert!(defined.changes.is_empty());
//! ```

mod build;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain_xml::{Change, Document, diff};
use hook_host::wasm::{Answer, Call, CallError, Context, Description, LoadError, Module, Options};
use hook_host::{Invocation, LogLine};

pub use build::BuildError;
use build::Part;
pub use hook_host;

/// The hook of the crate that is being tested, built once per process. Panics with what went
/// wrong when there is none to test.
#[macro_export]
#[doc(hidden)]
macro_rules! __testing_module {
    () => {
        match $crate::testing::Hook::build(env!("CARGO_MANIFEST_DIR")) {
            Ok(hook) => hook,
            Err(error) => panic!("{error}"),
        }
    };
}

#[doc(inline)]
pub use crate::__testing_module as module;

/// A built hook, loaded into the real host.
pub struct Hook {
    module: Module,
    path: PathBuf,
    context: Context,
}

/// Why there is no hook to test.
#[derive(Debug)]
pub enum Error {
    /// It was not built.
    Build(BuildError),
    /// The host does not take it.
    Load(LoadError),
    /// No runtime for the host.
    Runtime(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Build(error) => error.fmt(f),
            Error::Load(error) => error.fmt(f),
            Error::Runtime(error) => write!(f, "no runtime for the hook host: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// How a call of a hook went.
#[derive(Debug, Clone)]
pub struct Ran<T> {
    /// What the hook gave, or why it gave nothing.
    pub result: Result<T, Refusal>,
    /// What it logged, its standard streams included.
    pub log: Vec<LogLine>,
    /// How long it took.
    pub duration: Duration,
    /// Of all its memories together, in bytes.
    pub peak_memory: usize,
}

/// Why a hook gave nothing that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It says no.
    Veto(String),
    /// It failed, crashed or ran into a limit, in the host's words.
    Failure(String),
    /// What it gave cannot be used.
    BadOutput(String),
}

/// A domain as a hook left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defined {
    /// The whole XML.
    pub xml: String,
    /// What the hook changed.
    pub changes: Vec<Change>,
}

/// By crate and part: the module and its path.
type Loaded = HashMap<(PathBuf, Part), (Module, PathBuf)>;

static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

impl Hook {
    /// Builds the crate in `manifest_dir` for wasm32-wasip2 with profile `hook`, in a target
    /// directory of its own, and loads it. Once per process.
    pub fn build(manifest_dir: impl AsRef<Path>) -> Result<Hook, Error> {
        Hook::build_part(manifest_dir.as_ref(), Part::Library)
    }

    /// The same for an example of that crate, which must be a `cdylib`.
    pub fn build_example(manifest_dir: impl AsRef<Path>, name: &str) -> Result<Hook, Error> {
        Hook::build_part(manifest_dir.as_ref(), Part::Example(name.to_owned()))
    }

    fn build_part(dir: &Path, part: Part) -> Result<Hook, Error> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = loaded.get_or_insert_default();
        let key = (dir.to_owned(), part);
        if let Some((module, path)) = loaded.get(&key) {
            return Ok(Hook {
                module: module.clone(),
                path: path.clone(),
                context: Context::default(),
            });
        }
        let path = build::build(dir, &key.1).map_err(Error::Build)?;
        let hook = Hook::load(&path)?;
        loaded.insert(key, (hook.module.clone(), path));
        Ok(hook)
    }

    /// Loads a module that is already built.
    pub fn load(path: impl AsRef<Path>) -> Result<Hook, Error> {
        let path = path.as_ref();
        let loading = Module::load(path, Options::default());
        let module = block_on(loading)
            .map_err(Error::Runtime)?
            .map_err(Error::Load)?;
        Ok(Hook {
            module,
            path: path.to_owned(),
            context: Context::default(),
        })
    }

    /// Configures the hook as whoever deploys it would.
    #[must_use]
    pub fn with_config(mut self, key: &str, value: &str) -> Hook {
        self.context.config.insert(key.to_owned(), value.to_owned());
        self
    }

    /// For whom, and why, the hook is called.
    #[must_use]
    pub fn with_invocation(mut self, invocation: Invocation) -> Hook {
        self.context.invocation = invocation;
        self
    }

    /// What the hook says of itself.
    pub fn description(&self) -> &Description {
        self.module.description()
    }

    /// The built module.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `pre-start`.
    pub fn pre_start(&self, vmi: &str) -> Ran<()> {
        self.call(&Call::PreStart { vmi }, |_| Ok(()))
    }

    /// Calls `pre-cloud-init-iso` with these documents; gives all of them back by name.
    pub fn pre_cloud_init_iso(
        &self,
        vmi: &str,
        data_source: &str,
        documents: &[(&str, &str)],
    ) -> Ran<BTreeMap<String, String>> {
        let documents: Vec<(String, String)> = documents
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        self.call(
            &Call::PreCloudInitIso {
                vmi,
                data_source,
                documents: &documents,
            },
            |answer| match answer {
                Answer::Documents(documents) => Ok(documents.into_iter().collect()),
                other => Err(Refusal::BadOutput(format!("no documents but {other:?}"))),
            },
        )
    }

    /// Calls `on-define-domain`.
    pub fn on_define_domain(&self, vmi: &str, domain_xml: &str) -> Ran<Defined> {
        self.call(
            &Call::OnDefineDomain { vmi, domain_xml },
            |answer| match answer {
                Answer::DomainXml(xml) => defined(domain_xml, xml),
                other => Err(Refusal::BadOutput(format!("no domain XML but {other:?}"))),
            },
        )
    }

    /// Calls `shutdown`.
    pub fn shutdown(&self) -> Ran<()> {
        self.call(&Call::Shutdown, |_| Ok(()))
    }

    fn call<T>(&self, call: &Call<'_>, read: impl FnOnce(Answer) -> Result<T, Refusal>) -> Ran<T> {
        match block_on(self.module.call(&self.context, call)) {
            Ok(called) => Ran {
                result: called.result.map_err(Refusal::from).and_then(read),
                log: called.log,
                duration: called.duration,
                peak_memory: called.peak_memory,
            },
            Err(error) => Ran {
                result: Err(Refusal::Failure(Error::Runtime(error).to_string())),
                log: Vec::new(),
                duration: Duration::ZERO,
                peak_memory: 0,
            },
        }
    }
}

fn defined(before: &str, xml: String) -> Result<Defined, Refusal> {
    let parse =
        |xml: &str| Document::parse(xml).map_err(|error| Refusal::BadOutput(error.to_string()));
    let changes = diff(&parse(before)?, &parse(&xml)?);
    Ok(Defined { xml, changes })
}

fn block_on<F: Future>(work: F) -> std::io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(work))
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Refusal {
        match error {
            CallError::Veto(text) => Refusal::Veto(text),
            other => Refusal::Failure(other.to_string()),
        }
    }
}

impl<T: fmt::Debug> Ran<T> {
    /// What the hook gave. Panics with its refusal and its log when it gave nothing.
    #[track_caller]
    pub fn ok(self) -> T {
        match self.result {
            Ok(value) => value,
            Err(refusal) => panic!(
                "the hook gave nothing: {refusal:?}; it logged {:?}",
                self.log
            ),
        }
    }

    /// The text of its veto. Panics when it did anything else.
    #[track_caller]
    pub fn veto(self) -> String {
        match self.result {
            Err(Refusal::Veto(text)) => text,
            other => panic!(
                "the hook did not say no: {other:?}; it logged {:?}",
                self.log
            ),
        }
    }

    /// The text of its failure, crash or limit. Panics when it did anything else.
    #[track_caller]
    pub fn failure(self) -> String {
        match self.result {
            Err(Refusal::Failure(text)) => text,
            other => panic!("the hook did not fail: {other:?}; it logged {:?}", self.log),
        }
    }
}
