//! The host facts that conversion needs, probed on this machine or fixed.

use std::fs::OpenOptions;
use std::path::Path;

use anyhow::anyhow;
use domain::driver_modes::{DirectIoProbe, ProbeError};
use domain::host_facts::{HostFacts, go_architecture};
use serde_json::{Map, Value};

use super::input_file;
use super::similar_name::similar;
use crate::exit_codes::Failure;

/// Where distributions keep UEFI firmware; KubeVirt's path comes first.
const FIRMWARE: [&str; 4] = [
    "/usr/share/edk2/ovmf",
    "/usr/share/OVMF",
    "/usr/share/AAVMF",
    "/usr/share/edk2/aarch64",
];
/// The kernel's own limit of an affinity mask, as rustix has it.
const MAX_CPUS: u32 = 1024;

/// Probes this machine. Emulation is allowed, since nothing is started.
pub(super) fn probe() -> HostFacts {
    let defaults = HostFacts::default();
    let firmware = FIRMWARE.into_iter().find(|path| Path::new(path).is_dir());
    HostFacts {
        architecture: go_architecture(std::env::consts::ARCH).to_owned(),
        allow_emulation: true,
        kvm_available: OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/kvm")
            .is_ok(),
        cpuset: cpuset(),
        ovmf_path: firmware.map_or(defaults.ovmf_path, str::to_owned),
        ..HostFacts::default()
    }
}

/// The facts of a file, of which every one is known: a misspelt one would leave KubeVirt's default in force.
pub(super) fn read(path: &Path) -> Result<HostFacts, Failure> {
    let given: Map<String, Value> = input_file::json(path)?;
    let wrong = |why: String| Failure::usage(anyhow!("{}: {why}", input_file::name(path)));
    let known = serde_json::to_value(HostFacts::default()).map_err(Failure::machine)?;
    let known = || known.as_object().into_iter().flat_map(Map::keys);
    if let Some(name) = given.keys().find(|name| !known().any(|one| one == *name)) {
        let known = similar(name, known().map(String::as_str));
        let known = known.map_or(String::new(), |known| format!(": is it {known}?"));
        return Err(wrong(format!("there is no host fact {name}{known}")));
    }
    serde_json::from_value(given.into()).map_err(|error| wrong(format!("a host fact: {error}")))
}

/// The same facts on any machine: KubeVirt's defaults, two processors, emulation.
pub(super) fn on_any_node() -> HostFacts {
    HostFacts {
        allow_emulation: true,
        kvm_available: false,
        cpuset: vec![0, 1],
        ..HostFacts::default()
    }
}

fn cpuset() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..MAX_CPUS)
        .filter(|cpu| set.is_set(*cpu as usize))
        .collect()
}

/// Answers from host facts for all images, which do not exist here. None is preallocated.
pub(super) struct FixedProbe {
    pub(super) direct_io: bool,
}

impl DirectIoProbe for FixedProbe {
    fn block_device(&self, _path: &str) -> Result<bool, ProbeError> {
        Ok(self.direct_io)
    }

    fn file(&self, _path: &str) -> Result<bool, ProbeError> {
        Ok(self.direct_io)
    }

    fn preallocated(&self, _path: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_an_architecture_and_processors() {
        let facts = probe();
        assert!(!facts.architecture.is_empty() && !facts.cpuset.is_empty());
        assert_eq!(go_architecture("x86_64"), "amd64");
    }
}
