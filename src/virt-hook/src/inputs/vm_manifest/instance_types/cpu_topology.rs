//! How a preference spreads the processors of an instance type over sockets, cores and threads, and what it requires
//! (`pkg/instancetype/apply/cpu.go`, `pkg/instancetype/preference`).

use kubevirt_api::vmi::Quantity;
use serde_json::Value;

use super::Object;
use crate::inputs::vm_manifest::manifest_error::ManifestError;

const DEFAULT_RATIO: u64 = 2;
const THREADS_PER_CORE: u64 = 2;

/// Numbers of sockets, cores and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuTopology {
    pub(super) sockets: u64,
    pub(super) cores: u64,
    pub(super) threads: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Across {
    SocketsCores,
    CoresThreads,
    SocketsCoresThreads,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preferred {
    Sockets,
    Cores,
    Threads,
    Any,
    Spread(Across, u64),
}

fn preferred(preference: Option<&Object>) -> Preferred {
    let text = |path: &str| pointer(preference?, path)?.as_str();
    match text("/cpu/preferredCPUTopology") {
        Some("cores" | "preferCores") => Preferred::Cores,
        Some("threads" | "preferThreads") => Preferred::Threads,
        Some("any" | "preferAny") => Preferred::Any,
        Some("spread" | "preferSpread") => {
            let number = |path: &str| pointer(preference?, path)?.as_u64();
            let ratio = number("/cpu/spreadOptions/ratio")
                .or_else(|| number("/preferSpreadSocketToCoreRatio"))
                .filter(|ratio| *ratio > 0);
            let across = match text("/cpu/spreadOptions/across") {
                Some("CoresThreads") => Across::CoresThreads,
                Some("SocketsCoresThreads") => Across::SocketsCoresThreads,
                _ => Across::SocketsCores,
            };
            Preferred::Spread(across, ratio.unwrap_or(DEFAULT_RATIO))
        }
        _ => Preferred::Sockets,
    }
}

/// The topology of an instance type's processors.
pub(super) fn topology(
    vcpus: u64,
    preference: Option<&Object>,
) -> Result<CpuTopology, ManifestError> {
    let mut topology = CpuTopology {
        sockets: 1,
        cores: 1,
        threads: 1,
    };
    let preferred = preferred(preference);
    let divisor = match preferred {
        Preferred::Spread(Across::SocketsCoresThreads, ratio) => {
            ratio.saturating_mul(THREADS_PER_CORE)
        }
        Preferred::Spread(_, ratio) => ratio,
        _ => 1,
    };
    if !vcpus.is_multiple_of(divisor) {
        return Err(ManifestError::InstanceType(format!(
            "its instance type has {vcpus} vCPUs, which its preference cannot spread: they are no multiple of {divisor}"
        )));
    }
    if vcpus == 1 {
        return Ok(topology);
    }
    match preferred {
        Preferred::Cores => topology.cores = vcpus,
        Preferred::Threads => topology.threads = vcpus,
        Preferred::Sockets | Preferred::Any => topology.sockets = vcpus,
        Preferred::Spread(Across::SocketsCores, ratio) => {
            topology.cores = ratio;
            topology.sockets = vcpus / ratio;
        }
        Preferred::Spread(Across::CoresThreads, ratio) => {
            topology.threads = ratio;
            topology.cores = vcpus / ratio;
        }
        Preferred::Spread(Across::SocketsCoresThreads, ratio) => {
            topology.threads = THREADS_PER_CORE;
            topology.cores = ratio;
            topology.sockets = vcpus / THREADS_PER_CORE / ratio;
        }
    }
    Ok(topology)
}

/// Refuses a VM with less than its preference requires.
pub(super) fn check_requirements(
    preference: &Object,
    instance_type: Option<&Object>,
    spec: &Object,
) -> Result<(), ManifestError> {
    let Some(requirements) = preference.get("requirements") else {
        return Ok(());
    };
    let refused = |reason: String| Err(ManifestError::InstanceType(reason));
    let wants = |what: &str| format!("its preference requires {what}");
    if let Some(required) = requirements.pointer("/cpu/guest").and_then(Value::as_u64) {
        let vcpus = match instance_type {
            Some(instance_type) => pointer(instance_type, "/cpu/guest").and_then(Value::as_u64),
            None => Some(vcpus_of_vm(preference, spec)),
        };
        let vcpus = vcpus.unwrap_or(0);
        if vcpus < required {
            let wants = wants(&format!("{required} vCPUs"));
            return refused(format!("{wants}, and the VM has {vcpus}"));
        }
    }
    let quantity = |value: &Value| serde_json::from_value::<Quantity>(value.clone()).ok();
    if let Some(required) = requirements.pointer("/memory/guest").and_then(quantity) {
        let of_vm = pointer(spec, "/domain/memory/guest").and_then(quantity);
        let of_type = || pointer(instance_type?, "/memory/guest").and_then(quantity);
        let memory = of_vm.or_else(of_type).unwrap_or_default();
        if memory.value() < required.value() {
            let wants = wants(&format!("{required} of memory"));
            return refused(format!("{wants}, and the VM has {memory}"));
        }
    }
    if let Some(required) = requirements.get("architecture").and_then(Value::as_str) {
        let architecture = spec.get("architecture").and_then(Value::as_str);
        let architecture = architecture.unwrap_or_default();
        if architecture != required {
            let wants = wants(&format!("the architecture {required}"));
            return refused(format!("{wants}, and the VM has {architecture}"));
        }
    }
    Ok(())
}

/// The processors that a VM without an instance type has in the places that the preference wants.
fn vcpus_of_vm(preference: &Object, spec: &Object) -> u64 {
    let count = |field: &str| {
        pointer(spec, &format!("/domain/cpu/{field}"))
            .and_then(Value::as_u64)
            .unwrap_or(0)
    };
    let product = |fields: &[&str]| {
        let counts = fields.iter().map(|field| count(field));
        counts.fold(1, u64::saturating_mul)
    };
    match preferred(Some(preference)) {
        Preferred::Sockets => count("sockets"),
        Preferred::Cores => count("cores"),
        Preferred::Threads => count("threads"),
        Preferred::Spread(Across::SocketsCores, _) => product(&["sockets", "cores"]),
        Preferred::Spread(Across::CoresThreads, _) => product(&["cores", "threads"]),
        Preferred::Any | Preferred::Spread(Across::SocketsCoresThreads, _) => {
            product(&["sockets", "cores", "threads"])
        }
    }
}

/// The value at a JSON pointer in an object.
pub(super) fn pointer<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    let (first, rest) = match path[1..].split_once('/') {
        Some((first, rest)) => (first, format!("/{rest}")),
        None => (&path[1..], String::new()),
    };
    object.get(first)?.pointer(&rest)
}
