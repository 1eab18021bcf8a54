//! The host facts that conversion needs, probed on this machine or fixed.

use std::fs::OpenOptions;
use std::path::Path;

use anyhow::anyhow;
use domain::driver_modes::{DirectIoProbe, ProbeError};
use domain::host_facts::{HostFacts, go_architecture};
use serde_json::{Map, Value};

use super::input_file;
use super::similar_name::similar;
use crate::verb_failure::Failure;

/// The directory of UEFI firmware for arm64 in KubeVirt's image; that of the other architectures is the default.
const ARM64_FIRMWARE_DIR: &str = "/usr/share/AAVMF";
const ARM64: &str = "arm64";
/// The UEFI firmware of amd64 in KubeVirt's image.
const FIRMWARE_FILES: [&str; 7] = [
    "OVMF_CODE.secboot.fd",
    "OVMF_CODE.cc.fd",
    "OVMF_VARS.fd",
    "OVMF_VARS.secboot.fd",
    "OVMF.amdsev.fd",
    "OVMF.inteltdx.fd",
    "OVMF.inteltdx.secboot.fd",
];
/// The number of CPUs in an affinity mask of rustix.
const MAX_CPUS: u32 = 1024;

/// Probes this machine, as a node of this architecture or, without one, of its own. Emulation is allowed, since nothing is
/// started. The firmware is that of the launcher's image.
pub(super) fn probe(architecture: Option<&str>) -> HostFacts {
    HostFacts {
        allow_emulation: true,
        kvm_available: OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/kvm")
            .is_ok(),
        cpuset: cpuset(),
        ..of_image(architecture.unwrap_or(go_architecture(std::env::consts::ARCH)))
    }
}

/// The facts about KubeVirt's image.
fn of_image(architecture: &str) -> HostFacts {
    let defaults = HostFacts::default();
    let files = || FIRMWARE_FILES.map(str::to_owned).to_vec();
    HostFacts {
        architecture: architecture.to_owned(),
        ovmf_path: match architecture {
            ARM64 => ARM64_FIRMWARE_DIR.to_owned(),
            _ => defaults.ovmf_path.clone(),
        },
        firmware_files: (architecture == defaults.architecture).then(files),
        ..defaults
    }
}

/// Reads host facts from a file. Unknown facts are refused: a misspelt one would leave KubeVirt's default in force.
pub(super) fn read(path: &Path) -> Result<HostFacts, Failure> {
    let facts: Map<String, Value> = input_file::json(path)?;
    let invalid = |why: String| Failure::usage(anyhow!("{}: {why}", input_file::name(path)));
    let known = serde_json::to_value(HostFacts::default()).map_err(Failure::internal)?;
    let known = || known.as_object().into_iter().flat_map(Map::keys);
    if let Some(name) = facts
        .keys()
        .find(|name| !known().any(|known| known == *name))
    {
        let known = similar(name, known().map(String::as_str));
        let known = known.map_or(String::new(), |known| format!(": is it {known}?"));
        return Err(invalid(format!("there is no host fact {name}{known}")));
    }
    serde_json::from_value(facts.into()).map_err(|error| invalid(format!("a host fact: {error}")))
}

/// Fixed facts, the same on every machine: KubeVirt's defaults, two CPUs, emulation, and amd64 if there is no other
/// architecture.
pub(super) fn on_any_node(architecture: Option<&str>) -> HostFacts {
    HostFacts {
        allow_emulation: true,
        kvm_available: false,
        cpuset: vec![0, 1],
        ..of_image(architecture.unwrap_or(&HostFacts::default().architecture))
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

/// Answers for all images from the host facts, because the images do not exist here. None is preallocated.
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
    fn this_machine_has_an_architecture_and_cpus() {
        let facts = probe(None);
        assert!(!facts.architecture.is_empty() && !facts.cpuset.is_empty());
        assert_eq!(go_architecture("x86_64"), "amd64");
    }
}
