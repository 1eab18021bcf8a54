//! Conversions between the entries of a record and the host's own types.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::read_record_file::RecordReadError;
use super::record_json_format::{
    GrantEntry, HookEntry, HookPayload, Input, InvocationEntry, LimitsUsed, LogEntry, MAX_LAYERS,
    MAX_PATTERNS, Output, Record,
};
use crate::fixed_clock_and_random::Determinism;
use crate::hook::{HookInfo, HookKind};
use crate::pod_facts::PodGrant;
use crate::policy::permission::DangerKind;
use crate::policy::{
    EffectiveSettings, Grant, Layer, MAX_DEADLINE, MAX_LOG, MAX_MEMORY, MAX_OUTPUT,
};
use crate::sealed_changes::Seal;
use crate::{
    ConditionedPath, FailurePolicy, Invocation, Limits, LogLevel, LogLine, MigrationParameter,
    Reason,
};

impl From<HookPayload> for Output {
    fn from(payload: HookPayload) -> Self {
        match payload {
            HookPayload::DomainXml(xml) => Self {
                domain_xml: Some(xml),
                ..Self::default()
            },
            HookPayload::DeviceXml(xml) => Self {
                device_xml: Some(xml),
                ..Self::default()
            },
            HookPayload::Parameters(parameters) => Self {
                parameters: Some(parameters),
                ..Self::default()
            },
            HookPayload::Documents(documents) => Self {
                documents: Some(documents),
                ..Self::default()
            },
        }
    }
}

impl Record {
    /// The recorded random numbers and time, if the run had any.
    pub(crate) fn determinism(&self) -> Option<Determinism> {
        let digits = self.seed.as_deref()?;
        let mut seed = [0; 32];
        for (index, byte) in seed.iter_mut().enumerate() {
            let pair = digits.get(2 * index..2 * index + 2)?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        let time = Duration::from_nanos(self.time_ns?);
        Some(Determinism { seed, time })
    }

    /// The settings of the recorded hook. The error names the invalid member.
    pub(crate) fn settings(&self, base: &Limits) -> Result<EffectiveSettings, RecordReadError> {
        let layer = |entry: &GrantEntry| -> Result<Layer, RecordReadError> {
            // A record can come from an untrusted source, so its patterns have the limits of all other patterns.
            let paths = entry.patterns.iter();
            let paths = paths.map(ConditionedPath::deserialize);
            let kinds = entry.kinds.iter().map(|kind| kind.parse::<DangerKind>());
            let paths = paths
                .collect::<Result<_, _>>()
                .map_err(|error| RecordReadError::NotARecord(error.to_string()))?;
            let kinds = kinds
                .collect::<Result<_, _>>()
                .map_err(|error| RecordReadError::NotARecord(error.to_string()))?;
            let layer = Layer::new(paths, &*entry.origin).with_kinds(kinds);
            Ok(match &entry.dangerous_origin {
                Some(origin) => layer.with_dangerous_origin(&**origin),
                None => layer,
            })
        };
        let layers = self.grant.as_deref().unwrap_or_default();
        for (what, count, max) in [
            ("layers of grants", layers.len(), MAX_LAYERS),
            (
                "paths in a layer of grants",
                layers
                    .iter()
                    .map(|layer| layer.patterns.len())
                    .max()
                    .unwrap_or(0),
                MAX_PATTERNS,
            ),
        ] {
            if count > max {
                let reason = format!("{count} {what}, and {max} is the most");
                return Err(RecordReadError::NotARecord(reason));
            }
        }
        let is_below_a_root =
            |dir: &&PathBuf| self.dir_roots.iter().any(|root| dir.starts_with(root));
        if let Some(dir) = self.dirs.iter().find(|dir| !is_below_a_root(dir)) {
            let reason = format!(
                "the hook could read {}, and the record does not tell which directory of the operator's policy contains it; a record \
                 of this version does",
                dir.display()
            );
            return Err(RecordReadError::NotARecord(reason));
        }
        let grant = match &self.grant {
            Some(layers) => Grant::new(layers.iter().map(layer).collect::<Result<_, _>>()?),
            None => Grant::unlimited(),
        };
        Ok(EffectiveSettings {
            hook_points: Vec::new(),
            failure_policy: FailurePolicy::Fail,
            final_rule: self.hook.final_rule.clone(),
            limits: self.limits.to_limits(base)?,
            config: self.config.clone(),
            dirs: self.dirs.clone(),
            dir_roots: self.dir_roots.clone(),
            migration: self
                .migration
                .iter()
                .map(|name| MigrationParameter::from_name(name))
                .collect::<Result<_, _>>()
                .map_err(|error| RecordReadError::NotARecord(error.to_string()))?,
            // A replay answers questions from the record and needs no grant.
            pod: Arc::new(PodGrant::default()),
            grant,
        })
    }
}

impl Input {
    /// What final hooks had changed before.
    pub(crate) fn seals(&self) -> impl Iterator<Item = Seal> {
        self.sealed.iter().map(|entry| Seal {
            hook: entry.hook.clone(),
            rule: entry.rule.clone(),
            path: entry.path.clone(),
            kind: entry.kind.into(),
        })
    }
}

impl InvocationEntry {
    pub(super) fn of(invocation: &Invocation) -> Self {
        Self {
            reason: invocation.reason.name().to_owned(),
            namespace: invocation.namespace.clone(),
            name: invocation.name.clone(),
            uid: invocation.uid.clone(),
            domain: invocation.domain.clone(),
        }
    }

    /// The invocation; an unknown reason becomes the default one.
    pub(crate) fn to_invocation(&self) -> Invocation {
        let reason = Reason::ALL
            .into_iter()
            .find(|reason| reason.name() == self.reason);
        Invocation {
            reason: reason.unwrap_or_default(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            domain: self.domain.clone(),
        }
    }
}

impl LimitsUsed {
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            deadline_ms: u64::try_from(limits.call_deadline.as_millis()).unwrap_or(u64::MAX),
            memory: limits.memory,
            table_elements: limits.table_elements,
            output: limits.output,
            log: limits.log,
        }
    }

    /// The limits. A record can come from an untrusted source, so they must not exceed what a hook.yaml could set.
    fn to_limits(&self, base: &Limits) -> Result<Limits, RecordReadError> {
        let call_deadline = Duration::from_millis(self.deadline_ms);
        if call_deadline > MAX_DEADLINE {
            let reason =
                format!("a deadline of {call_deadline:?}, and {MAX_DEADLINE:?} is the most");
            return Err(RecordReadError::NotARecord(reason));
        }
        for (name, value, max) in [
            ("memory", self.memory, MAX_MEMORY),
            ("output", self.output, MAX_OUTPUT),
            ("log", self.log, MAX_LOG),
            ("table elements", self.table_elements, base.table_elements),
        ] {
            if value > max {
                let reason = format!("{name} of {value}, and {max} is the most");
                return Err(RecordReadError::NotARecord(reason));
            }
        }
        Ok(Limits {
            call_deadline,
            memory: self.memory,
            table_elements: self.table_elements,
            output: self.output,
            log: self.log,
            ..base.clone()
        })
    }
}

impl LogEntry {
    pub(crate) fn of(line: &LogLine) -> Self {
        let level = match line.level {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        };
        Self {
            level: level.to_owned(),
            message: line.message.clone(),
        }
    }
}

impl HookEntry {
    pub(super) fn of(info: &HookInfo, final_rule: Option<&str>) -> Self {
        let (digest, sidecar) = match &info.kind {
            HookKind::Wasm { digest } => (Some(digest.clone()), None),
            HookKind::Sidecar { version } => (None, Some(version.clone())),
        };
        Self {
            hook: info.hook.clone(),
            name: info.name.clone(),
            version: info.version.clone(),
            directory: info.directory.clone(),
            file: info.file.clone(),
            digest,
            sidecar,
            uncalled_points: info.uncalled_points.clone(),
            final_rule: final_rule.map(str::to_owned),
        }
    }
}

impl GrantEntry {
    /// One entry per layer; `None` if everything is permitted.
    pub(super) fn all(grant: &Grant) -> Option<Vec<Self>> {
        let entry = |layer: &Layer| Self {
            origin: layer.origin.clone(),
            dangerous_origin: layer.dangerous_origin.clone(),
            patterns: layer.paths.iter().map(|path| json!(path)).collect(),
            kinds: layer
                .granted_dangers
                .iter()
                .map(|kind| kind.name().to_owned())
                .collect(),
        };
        grant
            .layers()
            .map(|layers| layers.iter().map(entry).collect())
    }
}
