//! Checks of the module alone.

use std::path::Path;

use hook_host::Description;

use super::check_finding::{CheckVerdict, Finding};
use crate::collected_hooks::LIST_HOOK_POINT_ADVICE;
use crate::hook_limits_from_cgroup::smallest_limits;
use crate::verb_failure::Failure;
use crate::verbs::inspect::{InterfaceReport, MinimalPolicy, ModuleReport};

/// Kubernetes' limit for the total size of a ConfigMap's values, in bytes.
const MAX_CONFIG_MAP: u64 = 1 << 20;
/// Kubernetes' limit for annotations, in bytes. `kubectl apply` copies the whole object into one.
const MAX_ANNOTATIONS: u64 = 256 << 10;
const HOOK_YAML: &str = "hook.yaml";
const HOST_INTERFACE_PREFIX: &str = "virt-hook:hooks/host@0.1.";
const POD_INTERFACE_PREFIX: &str = "virt-hook:hooks/pod@0.1.";
const PREOPENS_PREFIX: &str = "wasi:filesystem/preopens@";
/// A name that componentize-py writes into every module.
const PYTHON_RUNTIME: &[u8] = b"libcomponentize_py_runtime.so";

/// Checks that a ConfigMap can hold the module and its hook.yaml.
pub(super) fn fits_config_map(path: &Path, bytes: u64) -> Finding {
    let settings = path.with_file_name(HOOK_YAML).metadata();
    let all = bytes + settings.map_or(0, |settings| settings.len());
    let name = "size";
    if all > MAX_CONFIG_MAP {
        let message = format!(
            "{all} bytes are more than the {MAX_CONFIG_MAP} of a ConfigMap: bring it in an image or on \
             a volume"
        );
        return Finding::new(name, CheckVerdict::Doubtful, message);
    }
    let encoded = bytes.div_ceil(3) * 4;
    let advice = if encoded > MAX_ANNOTATIONS {
        "; `kubectl create configmap` or `kubectl apply --server-side`, since plain apply keeps a \
         copy in an annotation"
    } else {
        ""
    };
    let message = format!("{all} bytes, which fit into a ConfigMap{advice}");
    Finding::new(name, CheckVerdict::Passed, message)
}

/// The findings about the module file at `path`; `compiling` is the finding of [`compiling`].
pub(super) fn findings(module: &ModuleReport, compiling: Finding, path: &Path) -> Vec<Finding> {
    vec![
        world(module),
        compiling,
        hook_points(module),
        imports(module, || is_python(path)),
    ]
}

/// Whether componentize-py made the module. Such a module imports every function of its world, used or not.
fn is_python(path: &Path) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    bytes
        .windows(PYTHON_RUNTIME.len())
        .any(|window| window == PYTHON_RUNTIME)
}

fn world(module: &ModuleReport) -> Finding {
    let interfaces = module.exports.iter().chain(&module.imports);
    let names: Vec<&str> = interfaces
        .map(|interface| interface.name.as_str())
        .filter(|name| !name.starts_with("wasi:"))
        .collect();
    let message = format!("a hook of virt-hook:hooks@0.1 ({})", names.join(", "));
    Finding::new("world", CheckVerdict::Passed, message)
}

/// Checks that the module can be compiled in the sidecar of a guaranteed VM.
///
/// The peak on this machine includes pages of the compiler's own program and the memory of all its
/// threads, so a peak above that sidecar's memory proves nothing: `refused_in_smallest_sidecar` then compiles within
/// the sidecar's limits and gives the limit that did not suffice. `peak` is in bytes; `measured` says when both were
/// measured.
pub(super) fn compiling(
    millis: u64,
    peak: u64,
    measured: &str,
    refused_in_smallest_sidecar: impl FnOnce() -> Result<Option<String>, Failure>,
) -> Result<Finding, Failure> {
    let cost_text = format!("{millis} ms and {} MiB of memory{measured}", peak >> 20);
    let name = "compiling";
    let refused = match peak <= smallest_limits().compile_memory as u64 {
        true => None,
        false => refused_in_smallest_sidecar()?,
    };
    Ok(match refused {
        None => Finding::new(
            name,
            CheckVerdict::Passed,
            format!("{cost_text}; the sidecar of a guaranteed VM suffices"),
        ),
        Some(why) => Finding::new(
            name,
            CheckVerdict::Doubtful,
            format!(
                "{cost_text}, but not in the sidecar of a guaranteed VM ({why}): `virt-hook compile` does \
                 it ahead, for an image"
            ),
        ),
    })
}

fn hook_points(module: &ModuleReport) -> Finding {
    let points = module.hook_points.iter();
    let points: Vec<String> = points
        .map(|point| format!("{} with priority {}", point.name, point.priority))
        .collect();
    let name = "hook points";
    if points.is_empty() {
        let message = format!("the hook is called at no hook point: {LIST_HOOK_POINT_ADVICE}");
        return Finding::new(name, CheckVerdict::Failed, message);
    }
    if module.name.is_empty() {
        let message = "it has no name: logs and sidecar announcements will not name it";
        return Finding::new(name, CheckVerdict::Doubtful, message);
    }
    Finding::new(name, CheckVerdict::Passed, points.join(", "))
}

/// Checks that the wishes match the imported interfaces. A module in Python imports every function, used or not.
fn imports(module: &ModuleReport, is_python: impl FnOnce() -> bool) -> Finding {
    let imports_function = |interface: &InterfaceReport, function: &str| {
        interface.name.starts_with(HOST_INTERFACE_PREFIX)
            && interface.functions.iter().any(|name| name == function)
    };
    let reads_config = module
        .imports
        .iter()
        .any(|import| imports_function(import, "config"));
    let imports_preopens = |import: &InterfaceReport| import.name.starts_with(PREOPENS_PREFIX);
    let mut details = Vec::new();
    if let Some(wishes) = &module.wishes {
        if !wishes.config.is_empty() && !reads_config {
            let keys = wishes.config.join(", ");
            details.push(format!(
                "it declares the configuration [{keys}] but never reads any"
            ));
        }
        if wishes.config.is_empty() && reads_config && !is_python() {
            details.push("it can read configuration but declares no key, so it gets none".into());
        }
        if !wishes.dirs.is_empty() && !module.imports.iter().any(imports_preopens) {
            details.push(
                "it declares directories but cannot open any: it imports no function for that"
                    .into(),
            );
        }
    }
    let pod = module.wishes.as_ref().map_or(&[][..], |wishes| &wishes.pod);
    details.extend(pod_mismatch(pod, &module.imports));
    Finding::from_details(
        "wishes and imports",
        details,
        CheckVerdict::Doubtful,
        "they match",
        "they do not match",
    )
}

/// The mismatch between the facts about the pod that a module declares and its imports, if there is one.
fn pod_mismatch(declared: &[String], imports: &[InterfaceReport]) -> Option<String> {
    let imports_pod = imports
        .iter()
        .any(|import| import.name.starts_with(POD_INTERFACE_PREFIX));
    match (declared.is_empty(), imports_pod) {
        (false, false) => Some(format!(
            "it declares facts about the pod [{}] but cannot read any: it does not import virt-hook:hooks/pod",
            declared.join(", ")
        )),
        (true, true) => {
            Some("it can read facts about the pod but declares none, so it gets none".to_owned())
        }
        (false, true) | (true, false) => None,
    }
}

/// The finding, if the operator has to grant something: without the grant, the hook is refused in the cluster.
pub(super) fn operator_grants_finding(description: &Description) -> Option<Finding> {
    let policy = MinimalPolicy::for_module(description);
    let needed = policy.only_by_operator();
    (!needed.is_empty()).then(|| {
        let message = format!(
            "the operator has to grant {}: `virt-hook inspect MODULE --policy-only` prints the policy",
            needed.join(", ")
        );
        Finding::new("operator", CheckVerdict::Passed, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_peak_alone_is_not_a_finding() {
        let limit = smallest_limits().compile_memory as u64;
        let text = |peak, why: Option<&str>| {
            let refused = || Ok(why.map(str::to_owned));
            let finding = compiling(240, peak, "", refused).ok();
            finding.map(|finding| finding.text(crate::output::Style::default()))
        };
        let small = text(limit, Some("not asked")).unwrap_or_default();
        assert!(small.starts_with("ok"), "{small}");
        assert_eq!(text(limit + 1, None).unwrap_or_default(), small);
        let refused = text(limit + 1, Some("it takes more than 37 MiB of memory"));
        let refused = refused.unwrap_or_default();
        assert!(
            refused.starts_with("doubtful")
                && refused.contains("it takes more than 37 MiB of memory"),
            "{refused}"
        );
    }

    #[test]
    fn pod_facts_without_import_and_import_without_pod_facts_are_mismatches() {
        let imports = |name: &str| {
            vec![InterfaceReport {
                name: name.to_owned(),
                functions: Vec::new(),
            }]
        };
        let (host, pod) = (
            imports("virt-hook:hooks/host@0.1.0"),
            imports("virt-hook:hooks/pod@0.1.1"),
        );
        let declared = ["network-info".to_owned()];
        assert_eq!(pod_mismatch(&declared, &pod), None);
        assert_eq!(pod_mismatch(&[], &host), None);
        let lacks_import = pod_mismatch(&declared, &host).unwrap_or_default();
        assert!(lacks_import.contains("[network-info]"), "{lacks_import}");
        let lacks_wish = pod_mismatch(&[], &pod).unwrap_or_default();
        assert!(lacks_wish.contains("declares none"), "{lacks_wish}");
    }

    #[test]
    fn a_config_map_holds_one_mebibyte() {
        let verdict = |bytes| fits_config_map(Path::new("/nowhere/x.wasm"), bytes);
        assert!(
            verdict(MAX_CONFIG_MAP)
                .text(crate::output::Style::default())
                .starts_with("ok")
        );
        let large = verdict(MAX_CONFIG_MAP + 1).text(crate::output::Style::default());
        assert!(
            large.starts_with("doubtful") && large.contains("image"),
            "{large}"
        );
        assert!(!large.contains("apply"));
    }
}
