//! Compiles modules with the user's cache: unchanged modules, and unchanged functions of a module file that was built
//! again, are not compiled.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use hook_host::wasm::{CodeOrigin, LoadError, LoadOptions, Loader, Module};

use crate::compiled_module_cache::{CompiledModuleCache, make_private};
use crate::hook_module::HookModule;
use crate::interactive_compile;
use crate::interactive_compile::ModuleCompileCost;
use crate::tokio_runtime::runtime;
use crate::verb_failure::Failure;

/// The private directory of a run for compiled modules, with the user's cache. A collection of hooks finds the code
/// there.
pub(crate) struct CachedCompilation {
    cache: Option<CompiledModuleCache>,
    compiled: PathBuf,
}

impl CachedCompilation {
    /// Creates the directory `compiled`. Without a cache, every module is compiled.
    pub(crate) fn new(
        cache: Option<CompiledModuleCache>,
        compiled: PathBuf,
    ) -> Result<Self, Failure> {
        make_private(&compiled)
            .with_context(|| compiled.display().to_string())
            .map_err(Failure::Internal)?;
        Ok(Self { cache, compiled })
    }

    /// The user's cache, if there can be one.
    fn for_user(compiled: &Path) -> Result<Self, Failure> {
        Self::new(CompiledModuleCache::for_user(), compiled.to_owned())
    }

    /// Compiles each module from the file that it is paired with; errors name the caller's file. Returns the modules
    /// that had to be compiled, with the durations.
    pub(crate) async fn run<'a>(
        &self,
        loader: &Loader,
        files: Vec<(&'a HookModule, PathBuf)>,
    ) -> Result<Vec<(&'a HookModule, Duration)>, Failure> {
        let loader = match self.functions() {
            Some(functions) => loader.with_functions_dir(functions),
            None => loader.clone(),
        };
        let mut times = Vec::new();
        let mut result = Ok(());
        for (hook, file) in files {
            self.fetch(&hook.module, &file);
            match compile(&loader, hook, &file).await {
                Ok(module) => {
                    self.store_cost(&module, &hook.module);
                    if let CodeOrigin::Compiled { took, .. } = module.code_origin() {
                        times.push((hook, *took));
                    }
                }
                Err(failure) => {
                    result = Err(failure);
                    break;
                }
            }
        }
        self.store();
        result.map(|()| times)
    }

    /// Options with which a loader finds and leaves code in the directory.
    fn options(&self) -> Result<LoadOptions, Failure> {
        Ok(LoadOptions {
            functions_dir: self.functions(),
            ..interactive_compile::options(Some(self.compiled.clone()))?
        })
    }

    fn functions(&self) -> Option<PathBuf> {
        self.cache.as_ref()?;
        Some(self.compiled.join("functions"))
    }

    /// Copies the cached code of the module at `path`, or else its cached functions. The module's bytes are in `file`.
    fn fetch(&self, path: &Path, file: &Path) {
        if let (Some(cache), Some(functions)) = (&self.cache, self.functions())
            && !cache.fetch(file, &self.compiled)
        {
            cache.fetch_functions(path, &functions);
        }
    }

    /// Stores in the cache what was compiled.
    fn store(&self) {
        if let (Some(cache), Some(functions)) = (&self.cache, self.functions()) {
            cache.store(&self.compiled);
            // Without this directory, nothing had to be compiled.
            if functions.is_dir() {
                cache.store_functions(&functions);
            }
        }
    }

    fn store_cost(&self, module: &Module, path: &Path) -> ModuleCompileCost {
        ModuleCompileCost::for_module(module, path, self.cache.clone())
    }

    async fn load(&self, path: &Path) -> Result<Result<Module, LoadError>, Failure> {
        self.fetch(path, path);
        let loaded = interactive_compile::load_with(path, self.options()?).await;
        self.store();
        Ok(loaded)
    }
}

/// Loads one module, with the user's cache. Its code is in the directory `compiled` afterwards.
pub(crate) fn load(path: &Path, compiled: &Path) -> Result<Result<Module, LoadError>, Failure> {
    Ok(load_with_cost(path, compiled)?.map(|(module, _)| module))
}

/// Like [`load`], with the cost of compiling the whole module. Compiles it once more if that cost is not known.
pub(crate) fn load_measured(
    path: &Path,
    compiled: &Path,
) -> Result<Result<(Module, ModuleCompileCost), LoadError>, Failure> {
    let (module, cost) = match load_with_cost(path, compiled)? {
        Ok(loaded) => loaded,
        Err(error) => return Ok(Err(error)),
    };
    if cost.cost.is_some() {
        return Ok(Ok((module, cost)));
    }
    // Beside the other directory, where no code of the module is yet.
    let options = interactive_compile::options(Some(compiled.with_extension("measured")))?;
    let measured = runtime()?.block_on(interactive_compile::load_with(path, options));
    Ok(measured.map(|measured| {
        let cost = ModuleCompileCost::for_module(&measured, path, CompiledModuleCache::for_user());
        (module, cost)
    }))
}

fn load_with_cost(
    path: &Path,
    compiled: &Path,
) -> Result<Result<(Module, ModuleCompileCost), LoadError>, Failure> {
    let compilation = CachedCompilation::for_user(compiled)?;
    let loaded = runtime()?.block_on(compilation.load(path))?;
    Ok(loaded.map(|module| {
        let cost = compilation.store_cost(&module, path);
        (module, cost)
    }))
}

/// Compiles modules, with the user's cache, into a directory that several collections share.
pub(crate) fn compile_once(modules: &[HookModule], compiled: &Path) -> Result<(), Failure> {
    let compilation = CachedCompilation::for_user(compiled)?;
    let options = LoadOptions {
        functions_dir: None,
        ..compilation.options()?
    };
    let limits = options.limits.clone();
    let files = modules.iter().map(|hook| (hook, hook.module.clone()));
    let run = runtime()?.block_on(compilation.run(&Loader::new(options), files.collect()));
    let times = run.map_err(|failure| failure.map(interactive_compile::explain_any))?;
    if !times.is_empty() {
        interactive_compile::warn_of_compiling(&limits);
    }
    Ok(())
}

/// Compiles a module from a file.
async fn compile(loader: &Loader, hook: &HookModule, path: &Path) -> Result<Module, Failure> {
    let file = File::open(path).with_context(|| hook.module.display().to_string());
    let file = file.map_err(Failure::Usage)?;
    let loaded = loader.load_file(&file, &hook.module, &hook.directory);
    let module = interactive_compile::with_progress(&hook.module, loaded).await;
    module.map_err(Failure::from_load_error)
}
