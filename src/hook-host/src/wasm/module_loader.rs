//! Loads modules: checks, compiles, links and describes them.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;
use tokio::sync::OnceCell;
use wasmtime::component::Linker;

use super::artifact_cache::ArtifactCache;
use super::compile_memory::CompileMemory;
use super::engine_config::{self, EngineRole, TargetMachine};
use super::engine_host::EngineHost;
use super::epoch_thread::EpochThread;
use super::guest_call;
use super::load_error::LoadError;
use super::load_options::LoadOptions;
use super::loaded_module::{Module, ModuleInfo};
use super::module_file_checks::ModuleFile;
use super::precompiled_dirs::PrecompiledDirs;
use super::sealed_module::SealedModule;
use super::store_state::StoreState;
use super::wit_versions::{self, HookBinding};
use crate::digest_pin::DigestPin;
use crate::module_description::Description;

/// Loads modules into one engine, also several at the same time.
#[derive(Clone)]
pub struct Loader(pub(super) Arc<LoaderState>);

/// The options of a loader, and what it has created so far.
pub(super) struct LoaderState {
    pub(super) options: LoadOptions,
    pub(super) machine: TargetMachine,
    pub(super) precompiled: OnceCell<PrecompiledDirs>,
    pub(super) artifacts: OnceCell<ArtifactCache>,
    pub(super) compile_memory: CompileMemory,
    /// A lock for each digest whose code is being got, so that equal modules are compiled once.
    modules: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    load_context: OnceCell<LoadContext>,
}

/// The engine, and the linker. Only loading needs the linker, so it is dropped with the loader.
pub(super) struct LoadContext {
    pub(super) host: Arc<EngineHost>,
    linker: Linker<StoreState>,
}

impl Loader {
    /// Creates a loader. Nothing is created on disk, and the engine is created with the first module.
    #[must_use]
    pub fn new(options: LoadOptions) -> Self {
        Self::with(options, TargetMachine::This)
    }

    /// A loader that uses no existing code, and compiles modules in the directory `dir` to code that runs on any
    /// machine of this architecture.
    pub(super) fn for_any_machine(options: LoadOptions, dir: &Path) -> Self {
        let options = LoadOptions {
            artifacts_dir: Some(dir.to_owned()),
            functions_dir: None,
            precompiled_dirs: Vec::new(),
            ..options
        };
        Self::with(options, TargetMachine::Any)
    }

    /// A loader with the same options and this [`LoadOptions::functions_dir`].
    #[must_use]
    pub fn with_functions_dir(&self, dir: PathBuf) -> Self {
        let options = LoadOptions {
            functions_dir: Some(dir),
            ..self.0.options.clone()
        };
        Self::with(options, self.0.machine)
    }

    fn with(options: LoadOptions, machine: TargetMachine) -> Self {
        Self(Arc::new(LoaderState {
            compile_memory: CompileMemory::new(options.limits.compile_memory),
            modules: Mutex::default(),
            options,
            machine,
            precompiled: OnceCell::new(),
            artifacts: OnceCell::new(),
            load_context: OnceCell::new(),
        }))
    }

    /// Loads the module at `path`. The hook can query `name` as its own name.
    pub async fn load(&self, path: &Path, name: &str) -> Result<Module, LoadError> {
        // `O_NONBLOCK` does not wait for the writer of a FIFO.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let opened = File::options().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(|source| LoadError::Read {
            path: path.into(),
            source,
        })?;
        self.load_file(&file, path, name).await
    }

    /// Loads a module from an open file. Errors name the file `path`.
    pub async fn load_file(
        &self,
        file: &File,
        path: &Path,
        name: &str,
    ) -> Result<Module, LoadError> {
        self.load_pinned(file, path, name, None).await
    }

    /// Like [`Loader::load_file`], for a module that must have the pinned digest. The bytes that are
    /// compiled have this digest, even if the file changes meanwhile.
    pub async fn load_pinned(
        &self,
        file: &File,
        path: &Path,
        name: &str,
        pin: Option<&DigestPin>,
    ) -> Result<Module, LoadError> {
        let source = ModuleFile::with_checked_header(file, path, pin, self.max_size()).await?;
        self.load_module(&source, name).await
    }

    /// Copies a module file for [`Loader::load_sealed`], if its size is within the limit.
    pub(crate) async fn seal(&self, file: &File, path: &Path) -> Result<SealedModule, LoadError> {
        let source = ModuleFile::with_checked_size(file, path, self.max_size()).await?;
        source.seal(self.max_size()).await
    }

    /// Loads a module from its sealed copy. Errors name the file `path`.
    pub(crate) async fn load_sealed(
        &self,
        sealed: &SealedModule,
        path: &Path,
        name: &str,
        pin: Option<&DigestPin>,
    ) -> Result<Module, LoadError> {
        let mut source =
            ModuleFile::with_checked_header(sealed.file(), path, pin, self.max_size()).await?;
        source.sealed = Some(sealed);
        self.load_module(&source, name).await
    }

    /// The lock of all modules with this digest.
    pub(super) fn lock_of_modules(&self, digest: &str) -> Arc<tokio::sync::Mutex<()>> {
        let modules = self.0.modules.lock();
        let mut modules = modules.unwrap_or_else(PoisonError::into_inner);
        Arc::clone(modules.entry(digest.to_owned()).or_default())
    }

    pub(super) fn max_size(&self) -> u64 {
        self.0.options.limits.module as u64
    }

    async fn load_module(&self, source: &ModuleFile<'_>, name: &str) -> Result<Module, LoadError> {
        let path = source.path;
        let code = self.module_code(source).await?;
        let LoadContext { host, linker } = self.load_context(path).await?;
        let hook = wit_versions::link(&host.engine, linker, &code.component).map_err(|error| {
            LoadError::WrongWorld {
                path: path.to_owned(),
                size: source.size,
                source: error,
            }
        })?;
        let description = describe(host, &hook, source).await?;
        source.check_interfaces(&hook, &description)?;
        let info = ModuleInfo {
            name: name.to_owned(),
            digest: code.digest,
            code: code.origin,
            description,
        };
        Ok(Module {
            host: Arc::clone(host),
            hook,
            info: Arc::new(info),
        })
    }

    pub(super) async fn load_context(&self, path: &Path) -> Result<&LoadContext, LoadError> {
        let options = &self.0.options;
        let load_context = self
            .0
            .load_context
            .get_or_try_init(|| async { LoadContext::new(options) });
        load_context.await.map_err(|error| LoadError::Engine {
            path: path.to_owned(),
            message: format!("{error:#}"),
        })
    }
}

impl LoadContext {
    fn new(options: &LoadOptions) -> wasmtime::Result<Self> {
        let engine = engine_config::engine(EngineRole::Run)?;
        let linker = wit_versions::linker(&engine)?;
        let host = EngineHost {
            epoch_thread: EpochThread::new(engine.clone()),
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

/// Calls `describe` twice, and parses the description if both texts are equal.
async fn describe(
    host: &EngineHost,
    hook: &HookBinding,
    source: &ModuleFile<'_>,
) -> Result<Description, LoadError> {
    let (path, size) = (source.path.to_owned(), source.size);
    let describe = async || {
        let text = guest_call::describe(host, hook).await;
        text.map_err(|source| LoadError::Describe {
            path: path.clone(),
            size,
            source,
        })
    };
    let text = describe().await?;
    if describe().await? != text {
        return Err(LoadError::UnstableDescription { path, size });
    }
    Description::parse(&text).map_err(|source| LoadError::Description { path, size, source })
}
