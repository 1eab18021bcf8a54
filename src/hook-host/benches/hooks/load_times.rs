//! Measures the compilation, the loading and the collection of modules.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use hook_host::CollectConfig;
use hook_host::wasm::{CodeOrigin, LoadOptions, precompile};

use crate::result_table::{mb, ms, percentile, row};
use crate::sample_domain_and_hooks::write_copies;
use crate::{Bench, HOOKS, config};

const COMPILATIONS: usize = 9;
const LOADS: usize = 41;
const COLLECTIONS: usize = 21;
const UNTRUSTED_ARTIFACTS: &str = "precompiled artifacts are only used from directories of root on the mount of this program: \
     run this as root in a checkout that root owns";

impl Bench {
    pub(crate) fn compilations(&self) {
        let (mut times, mut peak) = (Vec::new(), None);
        for index in 0..COMPILATIONS {
            let dir = self.base.path().join(format!("cold-{index}"));
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
            &ms(percentile(&mut times, 50)),
            "200 ms",
            "",
        ]);
        row(["  the slowest", &ms(percentile(&mut times, 100)), "", ""]);
        row(["  the child's peak memory", &peak, "", ""]);
    }

    pub(crate) fn loads(&self) {
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
                "{UNTRUSTED_ARTIFACTS}"
            );
            let mut times: Vec<Duration> = (0..LOADS)
                .map(|_| {
                    let started = Instant::now();
                    load();
                    started.elapsed()
                })
                .collect();
            row([name, &ms(percentile(&mut times, 50)), goal, ""]);
        }
    }

    pub(crate) fn collections(&self) {
        let dir = self.base.path().join("collections");
        write_copies(&dir.join("hooks"), &self.module, HOOKS);
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
        assert_eq!(compiled, 0, "{UNTRUSTED_ARTIFACTS}");
        let reference = "308 ms for one more sidecar";
        row([
            "collect with 20 precompiled hooks",
            &ms(percentile(&mut times, 50)),
            "60 ms",
            reference,
        ]);
        row(["  the slowest", &ms(percentile(&mut times, 100)), "", ""]);
    }

    fn precompile(&self, module: &Path, image: &Path) {
        let options = self.options(&self.base.path().join("unused"));
        self.runtime
            .block_on(precompile(module, image, &options))
            .unwrap();
    }
}
