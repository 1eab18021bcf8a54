//! What WASM hooks cost: a call, a compilation, a collection, memory.
//!
//! `cargo bench -p hook-host` prints one table beside the goals and what KubeVirt takes on
//! comparable hardware; nothing is asserted. All of it is the smbios example hook, or another
//! build of it: `cargo bench -p hook-host -- PATH.wasm`.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

#[path = "../tests/fixture/mod.rs"]
mod fixture;
#[path = "hooks/process_memory.rs"]
mod process_memory;
#[path = "hooks/sample_domain_and_hooks.rs"]
mod sample_domain_and_hooks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use hook_host::record::RecordConfig;
use hook_host::wasm::{CodeOrigin, LoadOptions, Module, precompile};
use hook_host::{Chain, CollectConfig, Compiler, collect, compile_child};
use sample_domain_and_hooks::{MANUFACTURER, VMI, copies, domain_xml};
use tokio::runtime::Runtime;

/// The first argument with which this program measures its own memory in a fresh process.
const MEMORY_ARG: &str = "__memory";
const CALLS: usize = 4000;
/// Every call writes a file.
const RECORDED_CALLS: usize = 1000;
const WARM_UP: usize = 200;
const COMPILATIONS: usize = 9;
const LOADS: usize = 41;
const COLLECTIONS: usize = 21;
const HOOKS: usize = 20;
const NOT_OF_AN_IMAGE: &str =
    "artifacts are an image's only in a checkout that is root's: run this as root in such a one";

fn main() -> ExitCode {
    if let Some(code) = compile_child() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, base, hooks] = &arguments[..]
        && first == MEMORY_ARG
    {
        println!("{}", memory_here(Path::new(base), hooks.parse().unwrap()));
        return ExitCode::SUCCESS;
    }
    Bench::new().run();
    ExitCode::SUCCESS
}

/// As in the launcher.
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
        // The log line of each run is part of its price; where it goes to is not.
        tracing_subscriber::fmt()
            .with_writer(std::io::sink)
            .with_ansi(false)
            .init();
        let another = std::env::args().find(|argument| argument.ends_with(".wasm"));
        let path = another.map_or_else(|| fixture::rust_hook("smbios-hook"), PathBuf::from);
        Self {
            runtime: runtime(),
            module: fs::read(&path).unwrap(),
            path,
            // Artifacts are an image's only where this program is.
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

    fn calls(&self) {
        let dir = self.base.path().join("calls");
        copies(&dir.join("hooks"), &self.module, 1);
        let chain = self.collect(config(&dir, 1));
        let mut times = self.time_calls(&chain, CALLS);
        let reference = "1050 us sidecar, 1100 us CEL, 6700 us shim";
        row([
            "OnDefineDomain, p50",
            &us(at(&mut times, 50)),
            "250 us",
            reference,
        ]);
        row(["OnDefineDomain, p99", &us(at(&mut times, 99)), "600 us", ""]);
        // What is left when nobody else wants the processor.
        row(["  the fastest", &us(at(&mut times, 0)), "", ""]);
        self.parts();

        let record = RecordConfig {
            dir: dir.join("record"),
            secrets: false,
        };
        let recording = self.collect(CollectConfig {
            record: Some(record),
            ..config(&dir, 1)
        });
        let mut times = self.time_calls(&recording, RECORDED_CALLS);
        row([
            "the same with --hook-record, p50",
            &us(at(&mut times, 50)),
            "",
            "",
        ]);
    }

    fn time_calls(&self, chain: &Chain, calls: usize) -> Vec<Duration> {
        let invocation = fixture::invocation();
        let call = || async {
            let xml = self.xml.clone();
            let started = Instant::now();
            let (xml, runs) = chain.on_define_domain(&invocation, VMI, xml).await.unwrap();
            let took = started.elapsed();
            assert!(xml.contains(MANUFACTURER) && runs.len() == 1 && !runs[0].changes.is_empty());
            took
        };
        self.runtime.block_on(async {
            for _ in 0..WARM_UP {
                call().await;
            }
            let mut times = Vec::with_capacity(calls);
            for _ in 0..calls {
                times.push(call().await);
            }
            times
        })
    }

    /// What of a call is the sandbox, and what the hook's own work.
    fn parts(&self) {
        use hook_host::wasm::{Call, CallContext};
        let module = self.load(self.options(&self.base.path().join("parts")));
        let define = Call::OnDefineDomain {
            vmi: VMI,
            domain_xml: &self.xml,
        };
        for (name, call) in [
            ("  of it: an instance", Call::Shutdown),
            ("  of it: the instance and the hook's work", define),
        ] {
            let mut times: Vec<Duration> = (0..CALLS / 4)
                .map(|_| {
                    let called = self
                        .runtime
                        .block_on(module.call(&CallContext::default(), &call));
                    called.result.unwrap();
                    called.duration
                })
                .collect();
            row([name, &us(at(&mut times, 50)), "", ""]);
        }
    }

    fn compilations(&self) {
        let (mut times, mut peak) = (Vec::new(), None);
        for turn in 0..COMPILATIONS {
            let dir = self.base.path().join(format!("cold-{turn}"));
            let started = Instant::now();
            let module = self.load(self.options(&dir));
            times.push(started.elapsed());
            if let CodeOrigin::Compiled { peak_memory, .. } = module.code_origin() {
                peak = peak.max(*peak_memory);
            }
        }
        let peak = peak.map_or("not known".to_owned(), mb);
        row([
            "cold compile in the child, load included",
            &ms(at(&mut times, 50)),
            "200 ms",
            "",
        ]);
        row(["  the slowest", &ms(at(&mut times, 100)), "", ""]);
        row(["  the child's peak memory", &peak, "", ""]);
    }

    fn loads(&self) {
        let dir = self.base.path().join("loads");
        self.precompile(&self.path, &dir.join("image"));
        for (name, goal, precompiled_dirs) in [
            (
                "load of an image's artifact, with the engine",
                "5 ms",
                vec![dir.join("image")],
            ),
            ("  of what was compiled here before", "", Vec::new()),
        ] {
            let load = || {
                self.load(LoadOptions {
                    precompiled_dirs: precompiled_dirs.clone(),
                    ..self.options(&dir.join("artifacts"))
                })
            };
            let from_image = matches!(load().code_origin(), CodeOrigin::Precompiled { .. });
            assert_eq!(
                from_image,
                !precompiled_dirs.is_empty(),
                "{NOT_OF_AN_IMAGE}"
            );
            let mut times: Vec<Duration> = (0..LOADS)
                .map(|_| {
                    let started = Instant::now();
                    load();
                    started.elapsed()
                })
                .collect();
            row([name, &ms(at(&mut times, 50)), goal, ""]);
        }
    }

    fn collections(&self) {
        let dir = self.base.path().join("collections");
        copies(&dir.join("hooks"), &self.module, HOOKS);
        for hook in fs::read_dir(dir.join("hooks")).unwrap() {
            let module = hook.unwrap().path().join("smbios.wasm");
            self.precompile(&module, &dir.join("image"));
        }
        let config = CollectConfig {
            precompiled_dirs: vec![dir.join("image")],
            ..config(&dir, HOOKS)
        };
        let mut times: Vec<Duration> = (0..COLLECTIONS)
            .map(|_| {
                let started = Instant::now();
                let chain = self.collect(config.clone());
                let took = started.elapsed();
                assert_eq!(chain.hooks().len(), HOOKS);
                took
            })
            .collect();
        let compiled = fs::read_dir(&config.artifacts_dir);
        let compiled = compiled.map_or(0, Iterator::count);
        assert_eq!(compiled, 0, "{NOT_OF_AN_IMAGE}");
        let reference = "308 ms for one more sidecar";
        row([
            "collect with 20 precompiled hooks",
            &ms(at(&mut times, 50)),
            "60 ms",
            reference,
        ]);
        row(["  the slowest", &ms(at(&mut times, 100)), "", ""]);
    }

    fn precompile(&self, module: &Path, image: &Path) {
        let options = self.options(&self.base.path().join("unused"));
        self.runtime
            .block_on(precompile(module, image, &options))
            .unwrap();
    }

    /// Processes that did nothing else, with 1 hook and with 21.
    fn memory(&self) {
        let measure = |hooks: usize| {
            let dir = self.base.path().join(format!("memory-{hooks}"));
            copies(&dir.join("hooks"), &self.module, hooks);
            drop(self.collect(config(&dir, hooks)));
            Memory::of_child(&dir, hooks)
        };
        let (one, many) = (measure(1), measure(HOOKS + 1));
        let further = |one: u64, many: u64| mb(many.saturating_sub(one) / HOOKS as u64);
        row([
            "memory per further hook, after a call",
            &further(one.rss, many.rss),
            "1.2 MB",
            "18-24 MB",
        ]);
        row([
            "  anonymous of it",
            &further(one.anonymous, many.anonymous),
            "",
            "",
        ]);
        row(["  a process with one hook, all of it", &mb(one.rss), "", ""]);
    }

    fn options(&self, artifacts_dir: &Path) -> LoadOptions {
        LoadOptions {
            compiler: own_compiler(),
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

fn own_compiler() -> Compiler {
    Compiler::Child {
        program: std::env::current_exe().unwrap(),
    }
}

fn config(base: &Path, expected: usize) -> CollectConfig {
    CollectConfig {
        hooks_dir: base.join("hooks"),
        expected,
        artifacts_dir: base.join("artifacts"),
        compiler: own_compiler(),
        ..CollectConfig::default()
    }
}

/// In bytes.
struct Memory {
    rss: u64,
    anonymous: u64,
}

impl Memory {
    fn of_child(base: &Path, hooks: usize) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program);
        child.arg(MEMORY_ARG).arg(base).arg(hooks.to_string());
        let output = child.output().unwrap();
        assert!(output.status.success());
        let report = String::from_utf8(output.stdout).unwrap();
        let mut numbers = report.split_whitespace().map(|word| word.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        Self {
            rss: next(),
            anonymous: next(),
        }
    }
}

/// The child's side: what this process takes once it has collected and called its hooks.
fn memory_here(base: &Path, hooks: usize) -> String {
    let chain = runtime().block_on(async {
        let chain = collect(config(base, hooks)).await.unwrap();
        let called = chain
            .on_define_domain(&fixture::invocation(), VMI, domain_xml())
            .await;
        assert_eq!(called.unwrap().1.len(), hooks);
        chain
    });
    let status = process_memory::of("self").unwrap();
    let report = format!(
        "{} {}",
        status("VmRSS").unwrap(),
        status("RssAnon").unwrap()
    );
    drop(chain);
    report
}

fn row(cells: [&str; 4]) {
    let [what, measured, goal, reference] = cells;
    println!("| {what:<42} | {measured:>10} | {goal:>7} | {reference:<42} |");
}

/// A percentile, the last one being the worst.
fn at(times: &mut [Duration], percentile: usize) -> Duration {
    times.sort();
    times[((times.len() - 1) * percentile).div_ceil(100)]
}

fn us(time: Duration) -> String {
    format!("{} us", time.as_micros())
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn mb(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}
