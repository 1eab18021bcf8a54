//! From a file to a module that can be called.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use tokio::sync::OnceCell;
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

use super::artifact::{self, ArtifactError, Artifacts};
use super::baked::Shelves;
use super::call::{self, Call, Called, Context};
use super::compile::{self, Job};
use super::describe::Description;
use super::engine::{self, Machine, Role};
use super::error::LoadError;
use super::preflight::{self, Flaw};
use super::state::State;
use super::ticker::Ticker;
use super::world::World;
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
    /// Directories of the image with artifacts that [`bake`](super::bake) wrote, in order. What does
    /// not lie there as the image's programs do (root's, for nobody else to write, on the program's
    /// own mount), or does not fit, is left alone and logged.
    pub baked_dirs: Vec<PathBuf>,
    /// What hooks are told of the host, as `virt-launcher/0.1.0`.
    pub host_name: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            compiler: Compiler::InProcess,
            artifacts_dir: None,
            baked_dirs: Vec::new(),
            host_name: concat!("hook-host/", env!("CARGO_PKG_VERSION")).to_owned(),
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
    machine: Machine,
    shelves: OnceCell<Shelves>,
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

/// Where the machine code of a module came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// From an artifact that came with the image.
    Baked {
        /// The artifact.
        artifact: PathBuf,
    },
    /// From the private directory: it was compiled before.
    Kept,
    /// It was compiled now.
    Compiled {
        /// How long that took, the start of the child included.
        took: Duration,
        /// The most memory that the child had at a time, in bytes; `None` for
        /// [`Compiler::InProcess`], and where the system does not tell.
        peak_memory: Option<u64>,
    },
}

struct About {
    name: String,
    digest: String,
    code: Code,
    description: Description,
    log: Vec<LogLine>,
}

/// The code of a module.
struct Found {
    digest: String,
    component: Component,
    code: Code,
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
        Self::with(options, Machine::This)
    }

    /// One that compiles everything itself, in this directory, into code that runs on every machine
    /// of this kind.
    pub(super) fn for_any_machine(options: Options, dir: &Path) -> Self {
        let options = Options {
            artifacts_dir: Some(dir.to_owned()),
            baked_dirs: Vec::new(),
            ..options
        };
        Self::with(options, Machine::Any)
    }

    fn with(options: Options, machine: Machine) -> Self {
        Self(Arc::new(Shared {
            options,
            machine,
            shelves: OnceCell::new(),
            artifacts: OnceCell::new(),
            workshop: OnceCell::new(),
        }))
    }

    /// Loads the module at `path`. `name` is what the hook is told it is called.
    pub async fn load(&self, path: &Path, name: &str) -> Result<Module, LoadError> {
        // A pipe that nobody writes to is not waited for.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let opened = File::options().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(|source| LoadError::Read {
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
        let metadata = file.metadata().map_err(read)?;
        let size = metadata.len();
        if !metadata.is_file() {
            return Err(LoadError::Flawed {
                path: path.to_owned(),
                size,
                flaw: Flaw::NoFile,
            });
        }
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
        let Found {
            digest,
            component,
            code,
        } = self.component(&source).await?;
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
            code,
            description,
            log,
        };
        Ok(Module {
            host: Arc::clone(host),
            hook,
            about: Arc::new(about),
        })
    }

    /// From the image, or from an earlier compilation, or compiled.
    async fn component(&self, source: &Source<'_>) -> Result<Found, LoadError> {
        let digest = artifact::digest(source.file).map_err(|error| LoadError::Read {
            path: source.path.to_owned(),
            source: error,
        })?;
        // Before it is compiled, and again for what was compiled.
        source.is_pinned(&digest)?;
        let shelves = self
            .0
            .shelves
            .get_or_init(|| async { Shelves::open(&self.0.options.baked_dirs) });
        let shelves = shelves.await;
        if !shelves.is_empty() {
            let engine = &self.workshop(source.path).await?.host.engine;
            if let Some((component, artifact)) = shelves.find(engine, &digest, source.path) {
                let code = Code::Baked { artifact };
                return Ok(Found {
                    digest,
                    component,
                    code,
                });
            }
        }
        let artifacts = self.artifacts().await?;
        if artifacts.knows(&digest) {
            let host = &self.workshop(source.path).await?.host;
            let path = artifacts.path(&digest, &artifact::compatibility(&host.engine));
            if let Ok(component) = artifact::load(&host.engine, &path) {
                let code = Code::Kept;
                return Ok(Found {
                    digest,
                    component,
                    code,
                });
            }
        }
        self.compiled(source, artifacts).await
    }

    /// The engine is made while the child compiles.
    async fn compiled(
        &self,
        source: &Source<'_>,
        artifacts: &Artifacts,
    ) -> Result<Found, LoadError> {
        let scratch = artifacts.scratch()?;
        let options = &self.0.options;
        let job = Job {
            module: source.file,
            artifact: &scratch.file,
            machine: self.0.machine,
        };
        let started = Instant::now();
        let compiling = async {
            let compiled = compile::compile(&options.compiler, job, &options.limits).await;
            (compiled, started.elapsed())
        };
        let ((compiled, took), workshop) = tokio::join!(compiling, self.workshop(source.path));
        let compiled = compiled.map_err(|error| LoadError::Compile {
            path: source.path.to_owned(),
            size: source.size,
            source: error,
        })?;
        source.is_pinned(&compiled.digest)?;
        let host = &workshop?.host;
        let path = artifacts.path(&compiled.digest, &artifact::compatibility(&host.engine));
        scratch.keep(&path)?;
        let component = artifact::load(&host.engine, &path).map_err(|error| LoadError::Engine {
            path: source.path.to_owned(),
            message: format!("{error:#}"),
        })?;
        let peak_memory = compiled.peak_memory;
        tracing::info!(module = %source.path.display(), ?took, peak_memory, "a module was compiled");
        let code = Code::Compiled { took, peak_memory };
        Ok(Found {
            digest: compiled.digest,
            component,
            code,
        })
    }

    /// Where the code of a module is kept that this loader compiled.
    pub(super) async fn artifact(&self, module: &Module) -> Result<PathBuf, LoadError> {
        let key = artifact::compatibility(&module.host.engine);
        Ok(self.artifacts().await?.path(module.digest(), &key))
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

    /// Where its machine code came from, and what that cost.
    #[must_use]
    pub fn code(&self) -> &Code {
        &self.about.code
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.host.engine
    }

    /// What it imports and exports.
    #[must_use]
    pub fn world(&self) -> World {
        World::of(&self.host.engine, self.hook.component())
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
