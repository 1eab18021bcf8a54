//! Loads module files: check, compile, link, describe.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::OFlags;
use tokio::sync::OnceCell;
use wasmtime::component::{Component, Linker};

use super::Compiler;
use super::artifact_cache::{self, ArtifactCache, ArtifactError, artifact_name};
use super::compile_module::{self, CompileError, CompileJob};
use super::engine_config::{self, EngineRole, TargetMachine};
use super::epoch_thread::EpochTicker;
use super::error::LoadError;
use super::function_code_cache::FunctionFiles;
use super::guest_call;
use super::loaded_module::{CodeOrigin, Module, ModuleInfo};
use super::module_file::ModuleFile;
use super::precompiled_dirs::PrecompiledDirs;
use super::sealed_module::SealedModule;
use super::shared_engine::EngineHost;
use super::store_state::StoreState;
use super::wit_versions::{self, HookBinding};
use crate::description::Description;
use crate::digest_pin::DigestPin;
use crate::{Limits, LogLine};

/// How modules are loaded.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Limits of a module.
    pub limits: Limits,
    /// Which process compiles.
    pub compiler: Compiler,
    /// The directory of compiled modules: created with mode 0700, refused if other users can write
    /// there. `None`: compiled modules are not kept.
    pub artifacts_dir: Option<PathBuf>,
    /// Where a compile child keeps the code of functions for the next compilation of the same module file, in
    /// [`functions_file`](super::functions_file): for the machines of authors. A directory like that of artifacts.
    pub functions_dir: Option<PathBuf>,
    /// Directories of the image with artifacts that [`precompile`](super::precompile) wrote, in
    /// order. An artifact is skipped with a log line unless it is as well protected as the image's
    /// programs (owned by root, writable by root only, on the program's mount) and matches.
    pub precompiled_dirs: Vec<PathBuf>,
    /// Name and version of the host for hooks that query it, such as `virt-launcher/0.1.0`.
    pub host_name: String,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            compiler: Compiler::InProcess,
            artifacts_dir: None,
            functions_dir: None,
            precompiled_dirs: Vec::new(),
            host_name: concat!("hook-host/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// Loads modules, several at a time, into one engine.
#[derive(Clone)]
pub struct Loader(Arc<LoaderState>);

struct LoaderState {
    options: LoadOptions,
    machine: TargetMachine,
    precompiled: OnceCell<PrecompiledDirs>,
    artifacts: OnceCell<ArtifactCache>,
    load_context: OnceCell<LoadContext>,
}

/// The engine and the linker. Only loading needs the linker, so it is dropped with the loader.
struct LoadContext {
    host: Arc<EngineHost>,
    linker: Linker<StoreState>,
}

/// The machine code of a module.
struct LoadedCode {
    digest: String,
    component: Component,
    code: CodeOrigin,
}

impl Loader {
    /// Creates nothing on disk; the engine is created with the first module.
    #[must_use]
    pub fn new(options: LoadOptions) -> Self {
        Self::with(options, TargetMachine::This)
    }

    /// A loader that compiles every module itself, in the directory `dir`, into code that runs on any
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

    /// The same loader, with a [`LoadOptions::functions_dir`].
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
            options,
            machine,
            precompiled: OnceCell::new(),
            artifacts: OnceCell::new(),
            load_context: OnceCell::new(),
        }))
    }

    /// Loads the module at `path`. The hook reads `name` as its own name.
    pub async fn load(&self, path: &Path, name: &str) -> Result<Module, LoadError> {
        // Do not block on a pipe without a writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let opened = File::options().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(|source| LoadError::Read {
            path: path.into(),
            source,
        })?;
        self.load_file(&file, path, name).await
    }

    /// Loads a module from an open file. Errors name it `path`.
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
        let source = ModuleFile::checked(file, path, pin, self.max_size()).await?;
        self.load_module(&source, name).await
    }

    /// Copies a module file, if it has a module's size, for [`Loader::load_sealed`].
    pub(crate) async fn seal(&self, file: &File, path: &Path) -> Result<SealedModule, LoadError> {
        let source = ModuleFile::sized(file, path, self.max_size()).await?;
        source.seal(self.max_size()).await
    }

    /// Loads a module from its copy. Errors name it `path`.
    pub(crate) async fn load_sealed(
        &self,
        sealed: &SealedModule,
        path: &Path,
        name: &str,
        pin: Option<&DigestPin>,
    ) -> Result<Module, LoadError> {
        let mut source = ModuleFile::checked(sealed.file(), path, pin, self.max_size()).await?;
        source.sealed = Some(sealed);
        self.load_module(&source, name).await
    }

    fn max_size(&self) -> u64 {
        self.0.options.limits.module as u64
    }

    async fn load_module(&self, source: &ModuleFile<'_>, name: &str) -> Result<Module, LoadError> {
        let path = source.path;
        let LoadedCode {
            digest,
            component,
            code,
        } = self.component(source).await?;
        let LoadContext { host, linker } = self.load_context(path).await?;
        let hook = wit_versions::link(&host.engine, linker, &component).map_err(|error| {
            LoadError::WrongWorld {
                path: path.to_owned(),
                size: source.size,
                source: error,
            }
        })?;
        let (description, log) = describe(host, &hook, source).await?;
        source.has_interfaces(&hook, &description)?;
        let info = ModuleInfo {
            name: name.to_owned(),
            digest,
            code,
            description,
            log,
        };
        Ok(Module {
            host: Arc::clone(host),
            hook,
            info: Arc::new(info),
        })
    }

    /// The module's code: precompiled in the image, cached, or compiled now.
    async fn component(&self, source: &ModuleFile<'_>) -> Result<LoadedCode, LoadError> {
        let digest = source.digest().await?;
        // Checked before the compilation, and again for the bytes that are compiled.
        source.is_pinned(&digest)?;
        let precompiled = self
            .0
            .precompiled
            .get_or_init(|| async { PrecompiledDirs::open(&self.0.options.precompiled_dirs) });
        let precompiled = precompiled.await;
        if !precompiled.is_empty() {
            let engine = &self.load_context(source.path).await?.host.engine;
            if let Some((component, artifact)) = precompiled.find(engine, &digest, source.path) {
                let code = CodeOrigin::Precompiled { artifact };
                return Ok(LoadedCode {
                    digest,
                    component,
                    code,
                });
            }
        }
        if matches!(self.0.options.compiler, Compiler::None) {
            return Err(LoadError::Compile {
                path: source.path.to_owned(),
                size: source.size,
                source: CompileError::NotCompiledAhead,
            });
        }
        let artifacts = self.artifacts().await?;
        if artifacts.has_module(&digest) {
            let host = &self.load_context(source.path).await?.host;
            let name = artifact_name(&digest, &host.engine);
            let kept = artifacts.artifact(&name).ok();
            if let Some(Ok(component)) = kept.map(|file| artifact_cache::load(&host.engine, &file))
            {
                let code = CodeOrigin::Cached;
                return Ok(LoadedCode {
                    digest,
                    component,
                    code,
                });
            }
        }
        self.compiled(source, artifacts).await
    }

    /// Compiles the module. The engine is created while the child compiles.
    async fn compiled(
        &self,
        source: &ModuleFile<'_>,
        artifacts: &ArtifactCache,
    ) -> Result<LoadedCode, LoadError> {
        let partial = artifacts.new_partial()?;
        let options = &self.0.options;
        let sealed = source.seal(self.max_size()).await?;
        source.is_pinned(sealed.digest())?;
        let functions = self.function_files(source.path);
        let job = CompileJob {
            module: sealed.file(),
            artifact: &partial.file,
            machine: self.0.machine,
            functions: functions.as_ref(),
        };
        let started = Instant::now();
        let compiling = async {
            let compiled = compile_module::compile(&options.compiler, job, &options.limits).await;
            (compiled, started.elapsed())
        };
        let ((compiled, took), load_context) =
            tokio::join!(compiling, self.load_context(source.path));
        match (&functions, &compiled) {
            (Some(files), Ok(_)) => log_not_kept(source.path, files.commit()),
            (Some(files), Err(_)) => files.discard(),
            (None, _) => {}
        }
        let compiled = compiled.map_err(|error| LoadError::Compile {
            path: source.path.to_owned(),
            size: source.size,
            source: error,
        })?;
        let host = &load_context?.host;
        partial.publish(&artifact_name(sealed.digest(), &host.engine))?;
        let component = artifact_cache::load(&host.engine, &partial.file).map_err(|error| {
            LoadError::Engine {
                path: source.path.to_owned(),
                message: format!("{error:#}"),
            }
        })?;
        let peak_memory = compiled.peak_memory;
        tracing::info!(module = %source.path.display(), ?took, peak_memory, "a module was compiled");
        let code = CodeOrigin::Compiled {
            took,
            peak_memory,
            reused_functions: compiled.reused_functions,
        };
        Ok(LoadedCode {
            digest: sealed.digest().to_owned(),
            component,
            code,
        })
    }

    fn function_files(&self, module: &Path) -> Option<FunctionFiles> {
        let dir = self.0.options.functions_dir.as_ref()?;
        let files = FunctionFiles::of(dir, module);
        files
            .inspect_err(|error| log_not_kept(module, Err(error)))
            .ok()
    }

    /// The path of the artifact of a module that this loader compiled.
    pub(super) async fn artifact(&self, module: &Module) -> Result<PathBuf, LoadError> {
        let name = artifact_name(module.digest(), module.engine());
        Ok(self.artifacts().await?.path_of(&name))
    }

    async fn artifacts(&self) -> Result<&ArtifactCache, ArtifactError> {
        let dir = self.0.options.artifacts_dir.as_deref();
        self.0
            .artifacts
            .get_or_try_init(|| async { ArtifactCache::open(dir) })
            .await
    }

    async fn load_context(&self, path: &Path) -> Result<&LoadContext, LoadError> {
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
            ticker: EpochTicker::new(engine.clone()),
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

/// Without its functions, the next build of a module takes longer to compile, and that is all.
fn log_not_kept(module: &Path, kept: Result<(), impl std::fmt::Display>) {
    if let Err(reason) = kept {
        tracing::info!(module = %module.display(), %reason, "the code of its functions is not kept");
    }
}

async fn describe(
    host: &EngineHost,
    hook: &HookBinding,
    source: &ModuleFile<'_>,
) -> Result<(Description, Vec<LogLine>), LoadError> {
    let (path, size) = (source.path.to_owned(), source.size);
    let (text, log) = guest_call::describe(host, hook).await;
    let (repeated, _) = guest_call::describe(host, hook).await;
    let text = match (text, repeated) {
        (Ok(text), Ok(repeated)) if text == repeated => text,
        (Ok(_), Ok(_)) => return Err(LoadError::UnstableDescription { path, size }),
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
    /// Loads one module with its own loader.
    pub async fn load(path: &Path, options: LoadOptions) -> Result<Self, LoadError> {
        let name = path
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into());
        Loader::new(options).load(path, &name).await
    }

    /// Loads one module from memory.
    pub async fn from_bytes(
        bytes: &[u8],
        name: &str,
        options: LoadOptions,
    ) -> Result<Self, LoadError> {
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
}
