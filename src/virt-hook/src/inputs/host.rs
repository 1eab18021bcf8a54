//! The node: this machine, as far as conversion asks.

use std::fs::OpenOptions;
use std::path::Path;

use domain::host::HostFacts;
use domain::prepare::DirectIoProbe;

/// Where distributions keep UEFI firmware; KubeVirt's place comes first.
const FIRMWARE: [&str; 4] = [
    "/usr/share/edk2/ovmf",
    "/usr/share/OVMF",
    "/usr/share/AAVMF",
    "/usr/share/edk2/aarch64",
];
/// The kernel's own limit of an affinity mask, as rustix has it.
const MAX_CPUS: u32 = 1024;

/// Looks at this machine. Emulation is allowed: what counts here is the XML, not its speed.
pub(super) fn probe() -> HostFacts {
    let defaults = HostFacts::default();
    let firmware = FIRMWARE.into_iter().find(|path| Path::new(path).is_dir());
    HostFacts {
        architecture: architecture(std::env::consts::ARCH).to_owned(),
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

/// A node that is the same everywhere: KubeVirt's defaults, two processors, emulation.
pub(super) fn anywhere() -> HostFacts {
    HostFacts {
        allow_emulation: true,
        kvm_available: false,
        cpuset: vec![0, 1],
        ..HostFacts::default()
    }
}

/// Go's name, which Kubernetes uses.
fn architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
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

/// What the host facts say of every image, none of which is preallocated: the images are not here.
pub(super) struct AsTold {
    pub(super) direct_io: bool,
}

impl DirectIoProbe for AsTold {
    fn block_device(&self, _path: &str) -> Result<bool, String> {
        Ok(self.direct_io)
    }

    fn file(&self, _path: &str) -> Result<bool, String> {
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
        assert_eq!(architecture("x86_64"), "amd64");
    }
}
