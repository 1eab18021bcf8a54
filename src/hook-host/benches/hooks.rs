//! Measures WASM hooks: calls, compilation, collection, memory.
//!
//! `cargo bench -p hook-host` prints one table beside the goals and what KubeVirt takes on
//! comparable hardware; no result is asserted. The hook is the smbios example hook, or another build of
//! it: `cargo bench -p hook-host -- PATH.wasm`.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

#[path = "hooks/call_times.rs"]
mod call_times;
#[path = "../tests/fixture/mod.rs"]
mod fixture;
#[path = "hooks/load_times.rs"]
mod load_times;
#[path = "hooks/memory_per_hook.rs"]
mod memory_per_hook;
#[path = "hooks/process_memory.rs"]
mod process_memory;
#[path = "hooks/result_table.rs"]
mod result_table;
#[path = "hooks/sample_domain_and_hooks.rs"]
mod sample_domain_and_hooks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hook_host::wasm::{LoadOptions, Module};
use hook_host::{Chain, CollectConfig, Compiler, collect, compile_child};
use memory_per_hook::MEMORY_ARG;
use result_table::row;
use sample_domain_and_hooks::domain_xml;
use tokio::runtime::Runtime;

/// The number of hooks of a collection, and of further hooks whose memory is measured.
const HOOKS: usize = 20;

fn main() -> ExitCode {
    if let Some(code) = compile_child() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, base, hooks] = &arguments[..]
        && first == MEMORY_ARG
    {
        let report = memory_per_hook::report(Path::new(base), hooks.parse().unwrap());
        println!("{report}");
        return ExitCode::SUCCESS;
    }
    Bench::new().run();
    ExitCode::SUCCESS
}

/// A runtime with two worker threads, as in the launcher.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

struct Bench {
    runtime: Runtime,
    module: Vec<u8>,
    path: PathBuf,
    base: tempfile::TempDir,
    xml: String,
}

impl Bench {
    fn new() -> Self {
        // Formatting the log line of each run is measured, and writing it is not.
        tracing_subscriber::fmt()
            .with_writer(std::io::sink)
            .with_ansi(false)
            .init();
        let given_path = std::env::args().find(|argument| argument.ends_with(".wasm"));
        let path = given_path.map_or_else(|| fixture::rust_hook("smbios-hook"), PathBuf::from);
        Self {
            runtime: runtime(),
            module: fs::read(&path).unwrap(),
            path,
            // Precompiled artifacts are only trusted on the mount of this program.
            base: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            xml: domain_xml(),
        }
    }

    fn run(&self) {
        let (module, xml) = (self.module.len(), self.xml.len());
        println!("smbios hook of {module} bytes, domain XML of {xml} bytes\n");
        row(["", "measured", "goal", "reference"]);
        row(["---", "---", "---", "---"]);
        self.calls();
        self.compilations();
        self.loads();
        self.collections();
        self.memory();
        println!(
            "\nA call is Chain::on_define_domain on a fresh instance: grants enforced, changes \
             recorded,\nthe log line written. Its parts follow for scale: the instance alone \
             (Shutdown, which\nthe hook ignores) and the module's call without parsing and \
             comparing.\nPrecompiled: by `virt-hook compile`; each hook is a module of its own, with its \
             own digest\nand its own artifact."
        );
    }

    fn options(&self, artifacts_dir: &Path) -> LoadOptions {
        LoadOptions {
            compiler: this_program_as_compiler(),
            artifacts_dir: Some(artifacts_dir.to_owned()),
            ..LoadOptions::default()
        }
    }

    fn load(&self, options: LoadOptions) -> Module {
        self.runtime
            .block_on(Module::load(&self.path, options))
            .unwrap()
    }

    fn collect(&self, config: CollectConfig) -> Chain {
        self.runtime.block_on(collect(config)).unwrap()
    }
}

fn this_program_as_compiler() -> Compiler {
    Compiler::Child {
        program: std::env::current_exe().unwrap(),
    }
}

fn config(base: &Path, expected_hooks: usize) -> CollectConfig {
    CollectConfig {
        hooks_dir: base.join("hooks"),
        expected: expected_hooks,
        artifacts_dir: base.join("artifacts"),
        compiler: this_program_as_compiler(),
        ..CollectConfig::default()
    }
}
