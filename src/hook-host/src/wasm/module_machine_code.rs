//! Gets the machine code of a module: precompiled in the image, cached, or compiled now.

use std::io::Seek;
use std::path::{Path, PathBuf};
use std::time::Instant;

use wasmtime::component::Component;

use super::Compiler;
use super::artifact_cache::{self, ArtifactCache, ArtifactError, artifact_name};
use super::compile_error::{CompileError, CompileLimit};
use super::compile_job::{CompileJob, CompileOutcome};
use super::compile_memory::CompileMemoryShare;
use super::compile_module;
use super::function_code_cache::FunctionFiles;
use super::load_error::LoadError;
use super::loaded_module::{CodeOrigin, Module};
use super::module_file_checks::ModuleFile;
use super::module_loader::Loader;
use super::precompiled_dirs::PrecompiledDirs;
use crate::Limits;

/// The machine code of a module, with the module's digest.
pub(super) struct LoadedCode {
    pub(super) digest: String,
    pub(super) component: Component,
    pub(super) origin: CodeOrigin,
}

impl Loader {
    /// The machine code of a module: precompiled in the image, cached, or compiled now.
    pub(super) async fn module_code(
        &self,
        source: &ModuleFile<'_>,
    ) -> Result<LoadedCode, LoadError> {
        let digest = source.digest().await?;
        // The pin is checked before the compilation, and again for the bytes that are compiled.
        source.check_pin(&digest)?;
        let precompiled = self
            .0
            .precompiled
            .get_or_init(|| async { PrecompiledDirs::open(&self.0.options.precompiled_dirs) });
        let precompiled = precompiled.await;
        if !precompiled.is_empty() {
            let engine = &self.load_context(source.path).await?.host.engine;
            if let Some((component, artifact)) = precompiled.find(engine, &digest, source.path) {
                let origin = CodeOrigin::Precompiled { artifact };
                return Ok(LoadedCode {
                    digest,
                    component,
                    origin,
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
        let lock = self.lock_of_modules(&digest);
        let _compiling = lock.lock().await;
        if artifacts.has_module(&digest) {
            let host = &self.load_context(source.path).await?.host;
            let name = artifact_name(&digest, &host.engine);
            let artifact = artifacts.open_artifact(&name).ok();
            if let Some(Ok(component)) =
                artifact.map(|file| artifact_cache::load(&host.engine, &file))
            {
                let origin = CodeOrigin::Cached;
                return Ok(LoadedCode {
                    digest,
                    component,
                    origin,
                });
            }
        }
        self.compile(source, artifacts).await
    }

    /// Compiles the module. The engine is created while the child compiles.
    async fn compile(
        &self,
        source: &ModuleFile<'_>,
        artifacts: &ArtifactCache,
    ) -> Result<LoadedCode, LoadError> {
        let partial = artifacts.create_partial()?;
        let sealed = source.seal(self.max_size()).await?;
        source.check_pin(sealed.digest())?;
        let functions = self.function_files(source.path);
        let job = CompileJob {
            module: sealed.file(),
            artifact: &partial.file,
            machine: self.0.machine,
            functions: functions.as_ref(),
        };
        let started = Instant::now();
        let compiling = async {
            let compiled = self.compile_in_shared_memory(job, source.size).await;
            (compiled, started.elapsed())
        };
        let ((compiled, took), load_context) =
            tokio::join!(compiling, self.load_context(source.path));
        match (&functions, &compiled) {
            (Some(files), Ok(_)) => log_if_not_kept(source.path, files.commit()),
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
        let origin = CodeOrigin::Compiled {
            took,
            peak_memory,
            reused_functions: compiled.reused_functions,
        };
        Ok(LoadedCode {
            digest: sealed.digest().to_owned(),
            component,
            origin,
        })
    }

    /// Compiles a module of `size` bytes with its share of the memory. If that is not enough, compiles it again with all
    /// of the memory, so that what can be compiled does not depend on other modules.
    async fn compile_in_shared_memory(
        &self,
        job: CompileJob<'_>,
        size: u64,
    ) -> Result<CompileOutcome, CompileError> {
        let (compiler, limits) = (&self.0.options.compiler, &self.0.options.limits);
        let within = |share: &CompileMemoryShare<'_>| Limits {
            compile_memory: share.bytes,
            ..limits.clone()
        };
        let share = self.0.compile_memory.share(size).await;
        let compiled = compile_module::compile(compiler, job, &within(&share)).await;
        let needs_more = matches!(
            compiled,
            Err(CompileError::LimitExceeded(CompileLimit::Memory(_)))
        );
        if share.is_whole || !needs_more {
            return compiled;
        }
        drop(share);
        let whole = self.0.compile_memory.whole().await;
        let emptied = job.artifact.set_len(0);
        let emptied = emptied.and_then(|()| (&*job.artifact).rewind());
        emptied.map_err(|error| CompileError::NotWritten(error.to_string()))?;
        compile_module::compile(compiler, job, &within(&whole)).await
    }

    fn function_files(&self, module: &Path) -> Option<FunctionFiles> {
        let dir = self.0.options.functions_dir.as_ref()?;
        let files = FunctionFiles::in_directory(dir, module);
        files
            .inspect_err(|error| log_if_not_kept(module, Err(error)))
            .ok()
    }

    /// The path of the artifact of a module that this loader has compiled.
    pub(super) async fn artifact_path(&self, module: &Module) -> Result<PathBuf, LoadError> {
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
}

/// Logs that the code of a module's functions could not be kept. The only effect is that the next compilation takes
/// longer.
fn log_if_not_kept(module: &Path, kept: Result<(), impl std::fmt::Display>) {
    if let Err(reason) = kept {
        tracing::info!(module = %module.display(), %reason, "the code of its functions is not kept");
    }
}
