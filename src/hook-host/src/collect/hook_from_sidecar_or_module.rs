//! Builds a `Hook` from a sidecar that answered Info, or from a loaded module.

use std::time::Duration;

use super::hook_file::HookId;
use crate::hook::{Hook, HookInfo, HookKind};
use crate::policy::EffectiveSettings;
use crate::sidecar::Sidecar;
use crate::wasm::{CodeOrigin, Module};

pub(super) fn from_sidecar(id: &HookId, sidecar: Sidecar, settings: EffectiveSettings) -> Hook {
    let info = HookInfo {
        hook: id.directory.clone(),
        name: sidecar.name.clone(),
        version: String::new(),
        directory: id.directory.clone(),
        file: id.file.clone(),
        kind: HookKind::Sidecar {
            version: sidecar.version.name().to_owned(),
        },
        hook_points: settings.hook_points.clone(),
        uncalled_points: Vec::new(),
        is_final: false,
        compile_time: None,
        ready_after: Duration::ZERO,
    };
    Hook {
        info,
        settings,
        body: Box::new(sidecar),
    }
}

pub(super) fn from_module(id: &HookId, module: Module, settings: EffectiveSettings) -> Hook {
    let description = module.description().clone();
    let stem = id.file.strip_suffix(".wasm").unwrap_or(&id.file);
    let name = if description.name.is_empty() {
        stem.to_owned()
    } else {
        description.name
    };
    let info = HookInfo {
        hook: id.directory.clone(),
        name,
        version: description.version,
        directory: id.directory.clone(),
        file: id.file.clone(),
        kind: HookKind::Wasm {
            digest: module.digest().to_owned(),
        },
        hook_points: settings.hook_points.clone(),
        uncalled_points: Vec::new(),
        is_final: settings.final_rule.is_some(),
        compile_time: match module.code_origin() {
            CodeOrigin::Compiled { took, .. } => Some(*took),
            CodeOrigin::Precompiled { .. } | CodeOrigin::Cached => None,
        },
        ready_after: Duration::ZERO,
    };
    Hook {
        info,
        settings,
        body: Box::new(module),
    }
}
