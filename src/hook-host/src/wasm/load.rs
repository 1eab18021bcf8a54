//! From a file to a module that can be called.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::OnceCell;
use wasmtime::Engine;
use wasmtime::component::Linker;

use super::artifact::{self, ArtifactError, Artifacts};
use super::call::{self, Call, CallError, Called, Context};
use super::compile::{self, CompileError};
use super::describe::{Description, DescriptionError};
use super::engine::{self, Role};
use super::preflight::{self, Flaw};
use super::state::State;
use super::ticker::Ticker;
use super::{Compiler, v0_1};
use crate::{Limits, LogLine};

/// How modules are loaded.
#[derive(Debug, Clone)]
pub struct Options {
    /// What a module may use.
    pub limits: Limits,
    /// Who compiles.
    pub compiler: Compiler,
    /// Where compiled modules are kept: created with mode 0700, refused when others can write
    /// there. `None`: nothing is kept.
    pub artifacts_dir: Option<PathBuf>,
    /// What hooks are told of the host, as `virt-launcher/0.1.0`.
    pub host_name: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            compiler: Compiler::InProcess,
            artifacts_dir: None,
            host_name: concat!("hook-host/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// A file that did not become a module.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is larger than a module may be.
    #[error("{path}: it has {size} bytes, more than the {limit} a module may have")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// It is no whole component.
    #[error("{path} ({size} bytes): {flaw}")]
    Flawed {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// What is wrong.
        flaw: Flaw,
    },
    /// It did not compile.
    #[error("{path} ({size} bytes): {source}")]
    Compile {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// Why.
        source: CompileError,
    },
    /// It is a component, but not a hook.
    #[error("{path} ({size} bytes): it is not a kubevirt:hooks@0.1 component: {message}")]
    WrongWorld {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// Which export or import does not fit.
        message: String,
    },
    /// It did not say what it is.
    #[error("{path} ({size} bytes): asked to describe itself, {source}")]
    Describe {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// What happened.
        source: CallError,
    },
    /// What it says of itself cannot be used.
    #[error("{path} ({size} bytes): {source}")]
    Description {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// What is wrong.
        source: DescriptionError,
    },
    /// It says something else of itself each time.
    #[error("{path} ({size} bytes): it describes itself differently each time it is asked")]
    Fickle {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
    },
    /// It is another module than the one that was pinned.
    #[error("{path} ({size} bytes): it has the sha256 {found}, not {expected} as {place} says")]
    Digest {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// What it has.
        found: String,
        /// The pin.
        expected: String,
        /// Where the pin stands.
        place: String,
    },
    /// The directory of compiled modules cannot be used.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
    /// The engine could not be made, or does not load what was compiled for it.
    #[error("{path}: the WASM engine: {message}")]
    Engine {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

impl LoadError {
    /// Whether another file in its place could help; otherwise the fault is the host's.
    #[must_use]
    pub fn blames_the_file(&self) -> bool {
        match self {
            Self::Artifacts(_) | Self::Engine { .. } => false,
            Self::Compile { source, .. } => {
                matches!(source, CompileError::Refused(_) | CompileError::TooMuch(_))
            }
            _ => true,
        }
    }
}

/// What all modules of one process share.
pub(super) struct Host {
    pub(super) engine: Engine,
    pub(super) ticker: Ticker,
    pub(super) limits: Limits,
    pub(super) name: String,
}

/// Loads modules, several at a time, onto one engine.
#[derive(Clone)]
pub struct Loader(Arc<Shared>);

struct Shared {
    options: Options,
    artifacts: OnceCell<Artifacts>,
    workshop: OnceCell<Workshop>,
}

/// The engine, and what only loading needs: it goes with the loader.
struct Workshop {
    host: Arc<Host>,
    linker: Linker<State>,
}

/// A loaded hook: compiled, checked and described. Cheap to clone.
#[derive(Clone)]
pub struct Module {
    host: Arc<Host>,
    hook: v0_1::Hook,
    about: Arc<About>,
}

struct About {
    name: String,
    digest: String,
    description: Description,
    log: Vec<LogLine>,
}

/// A file on its way to become a module.
struct Source<'a> {
    file: &'a File,
    path: &'a Path,
    size: u64,
    pin: Option<&'a Pin>,
}

/// The digest that a module must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// In lower-case hexadecimal.
    pub sha256: String,
    /// Where it stands, for errors.
    pub place: String,
}

impl Loader {
    /// Nothing is created yet; the engine comes with the first module.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Shared {
            options,
            artifacts: OnceCell::new(),
            workshop: OnceCell::new(),
        }))
    }

    /// Loads the module at `path`. `name` is what the hook is told it is called.
    pub async fn load(&self, path: &Path, name: &str) -> Result<Module, LoadError> {
        let file = File::open(path).map_err(|source| LoadError::Read {
            path: path.into(),
            source,
        })?;
        self.load_file(&file, path, name).await
    }

    /// Loads a module that is already open; `path` is what errors call it.
    pub async fn load_file(
        &self,
        file: &File,
        path: &Path,
        name: &str,
    ) -> Result<Module, LoadError> {
        self.load_pinned(file, path, name, None).await
    }

    /// The same for a module that must have a digest: what is run is what was pinned, whatever
    /// happens to the file meanwhile.
    pub async fn load_pinned(
        &self,
        file: &File,
        path: &Path,
        name: &str,
        pin: Option<&Pin>,
    ) -> Result<Module, LoadError> {
        let read = |source| LoadError::Read {
            path: path.to_owned(),
            source,
        };
        let size = file.metadata().map_err(read)?.len();
        let source = Source {
            file,
            path,
            size,
            pin,
        };
        let limit = self.0.options.limits.module as u64;
        if size > limit {
            return Err(LoadError::TooLarge {
                path: path.to_owned(),
                size,
                limit,
            });
        }
        if let Some(flaw) = preflight::inspect(file, size).map_err(read)? {
            return Err(LoadError::Flawed {
                path: path.to_owned(),
                size,
                flaw,
            });
        }
        let (digest, component) = self.component(&source).await?;
        let Workshop { host, linker } = self.workshop(path).await?;
        let hook = v0_1::Hook::new(&host.engine, linker, &component).map_err(|message| {
            LoadError::WrongWorld {
                path: path.to_owned(),
                size,
                message,
            }
        })?;
        let (description, log) = describe(host, &hook, &source).await?;
        let about = About {
            name: name.to_owned(),
            digest,
            description,
            log,
        };
        Ok(Module {
            host: Arc::clone(host),
            hook,
            about: Arc::new(about),
        })
    }

    /// Compiles, unless this very module was compiled here before. The engine is made while the
    /// child compiles.
    async fn component(
        &self,
        source: &Source<'_>,
    ) -> Result<(String, wasmtime::component::Component), LoadError> {
        let read = |error| LoadError::Read {
            path: source.path.to_owned(),
            source: error,
        };
        let digest = artifact::digest(source.file).map_err(read)?;
        // Before it is compiled, and again for what was compiled.
        source.is_pinned(&digest)?;
        let artifacts = self.artifacts().await?;
        if artifacts.knows(&digest) {
            let host = &self.workshop(source.path).await?.host;
            let path = artifacts.path(&digest, &artifact::compatibility(&host.engine));
            if let Ok(component) = artifact::load(&host.engine, &path) {
                return Ok((digest, component));
            }
        }
        let scratch = artifacts.scratch()?;
        let options = &self.0.options;
        let compiling = compile::compile(
            &options.compiler,
            source.file,
            &scratch.file,
            &options.limits,
        );
        let (compiled, workshop) = tokio::join!(compiling, self.workshop(source.path));
        let digest = compiled.map_err(|error| LoadError::Compile {
            path: source.path.to_owned(),
            size: source.size,
            source: error,
        })?;
        source.is_pinned(&digest)?;
        let host = &workshop?.host;
        let path = artifacts.path(&digest, &artifact::compatibility(&host.engine));
        scratch.keep(&path)?;
        let component = artifact::load(&host.engine, &path).map_err(|error| LoadError::Engine {
            path: source.path.to_owned(),
            message: format!("{error:#}"),
        })?;
        Ok((digest, component))
    }

    async fn artifacts(&self) -> Result<&Artifacts, ArtifactError> {
        let dir = self.0.options.artifacts_dir.as_deref();
        self.0
            .artifacts
            .get_or_try_init(|| async { Artifacts::open(dir) })
            .await
    }

    async fn workshop(&self, path: &Path) -> Result<&Workshop, LoadError> {
        let options = &self.0.options;
        let workshop = self
            .0
            .workshop
            .get_or_try_init(|| async { Workshop::new(options) });
        workshop.await.map_err(|error| LoadError::Engine {
            path: path.to_owned(),
            message: format!("{error:#}"),
        })
    }
}

impl Source<'_> {
    fn is_pinned(&self, digest: &str) -> Result<(), LoadError> {
        match self.pin {
            Some(pin) if pin.sha256 != digest => Err(LoadError::Digest {
                path: self.path.to_owned(),
                size: self.size,
                found: digest.to_owned(),
                expected: pin.sha256.clone(),
                place: pin.place.clone(),
            }),
            _ => Ok(()),
        }
    }
}

impl Workshop {
    fn new(options: &Options) -> wasmtime::Result<Self> {
        let engine = engine::engine(Role::Run)?;
        let linker = engine::linker(&engine)?;
        let host = Host {
            ticker: Ticker::new(engine.clone()),
            engine,
            limits: options.limits.clone(),
            name: options.host_name.clone(),
        };
        Ok(Self {
            host: Arc::new(host),
            linker,
        })
    }
}

async fn describe(
    host: &Host,
    hook: &v0_1::Hook,
    source: &Source<'_>,
) -> Result<(Description, Vec<LogLine>), LoadError> {
    let (path, size) = (source.path.to_owned(), source.size);
    let (text, log) = call::describe(host, hook).await;
    let (again, _) = call::describe(host, hook).await;
    let text = match (text, again) {
        (Ok(text), Ok(again)) if text == again => text,
        (Ok(_), Ok(_)) => return Err(LoadError::Fickle { path, size }),
        (Err(source), _) | (_, Err(source)) => {
            return Err(LoadError::Describe { path, size, source });
        }
    };
    match Description::parse(&text) {
        Ok(description) => Ok((description, log)),
        Err(source) => Err(LoadError::Description { path, size, source }),
    }
}

impl Module {
    /// Loads one module by itself.
    pub async fn load(path: &Path, options: Options) -> Result<Self, LoadError> {
        let name = path
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into());
        Loader::new(options).load(path, &name).await
    }

    /// Loads one module from memory.
    pub async fn from_bytes(bytes: &[u8], name: &str, options: Options) -> Result<Self, LoadError> {
        let path = PathBuf::from(format!("{name}.wasm"));
        let read = |source| LoadError::Read {
            path: path.clone(),
            source,
        };
        let mut file = rustix::fs::memfd_create("hook", rustix::fs::MemfdFlags::CLOEXEC)
            .map(File::from)
            .map_err(|errno| read(errno.into()))?;
        file.write_all(bytes).map_err(read)?;
        Loader::new(options).load_file(&file, &path, name).await
    }

    /// What it says of itself.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.about.description
    }

    /// What it logged while it described itself.
    #[must_use]
    pub fn description_log(&self) -> &[LogLine] {
        &self.about.log
    }

    /// The sha256 of the module in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.about.digest
    }

    /// What it is told it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.about.name
    }

    /// Calls one hook point on a fresh instance, whether the module subscribes to it or not.
    /// Needs a tokio runtime with time.
    pub async fn call(&self, context: &Context, call: &Call<'_>) -> Called {
        call::call(&self.host, &self.hook, &self.about.name, context, call).await
    }
}
