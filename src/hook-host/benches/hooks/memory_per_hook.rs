//! Measures the memory that each further hook takes.

use std::path::Path;
use std::process::Command;

use hook_host::collect;

use crate::result_table::{mb, row};
use crate::sample_domain_and_hooks::{VMI, domain_xml, write_copies};
use crate::{Bench, HOOKS, config, fixture, process_memory, runtime};

/// The first argument with which this program measures its own memory in a fresh process.
pub(crate) const MEMORY_ARG: &str = "__memory";

impl Bench {
    /// Compares fresh processes with 1 hook and with 21 hooks.
    pub(crate) fn memory(&self) {
        let measure = |hooks: usize| {
            let dir = self.base.path().join(format!("memory-{hooks}"));
            write_copies(&dir.join("hooks"), &self.module, hooks);
            drop(self.collect(config(&dir, hooks)));
            ProcessMemory::of_child(&dir, hooks)
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
            "  of which anonymous memory",
            &further(one.anonymous, many.anonymous),
            "",
            "",
        ]);
        row(["  a whole process with one hook", &mb(one.rss), "", ""]);
    }
}

/// The memory of a process in bytes.
struct ProcessMemory {
    rss: u64,
    anonymous: u64,
}

impl ProcessMemory {
    /// The memory of a fresh process that has collected and called its hooks.
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

/// What the child prints: the memory of this process after it has collected and called its hooks.
pub(crate) fn report(base: &Path, hooks: usize) -> String {
    let chain = runtime().block_on(async {
        let chain = collect(config(base, hooks)).await.unwrap();
        let called = chain
            .on_define_domain(&fixture::invocation(), VMI, domain_xml())
            .await;
        assert_eq!(called.unwrap().1.len(), hooks);
        chain
    });
    let status = process_memory::status_fields("self").unwrap();
    let report = format!(
        "{} {}",
        status("VmRSS").unwrap(),
        status("RssAnon").unwrap()
    );
    drop(chain);
    report
}
