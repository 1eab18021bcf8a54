//! Fields that a VMI may use but that nothing here handles yet. Better a refusal than a VM that
//! lacks what was asked for. A feature that learns to convert takes its line out.

use serde_json::Value;

use super::{Context, ConvertError};
use crate::spec::DomainSpec;

/// `[]` stands for every element of a list.
const FIELDS: &[&str] = &[
    "spec.accessCredentials",
    "spec.domain.cpu.dedicatedCpuPlacement",
    "spec.domain.cpu.isolateEmulatorThread",
    "spec.domain.cpu.numa.guestMappingPassthrough",
    "spec.domain.cpu.realtime",
    "spec.domain.devices.disks[].changedBlockTracking",
    "spec.domain.devices.downwardMetrics",
    "spec.domain.devices.gpus",
    "spec.domain.devices.hostDevices",
    "spec.domain.devices.interfaces[].sriov",
    "spec.domain.launchSecurity",
    "spec.resourceClaims",
];

const PLACE_ON_ROOT: &str = "kubevirt.io/placePCIDevicesOnRootComplex";

pub(super) fn refuse(context: &Context<'_>, _spec: &mut DomainSpec) -> Result<(), ConvertError> {
    architecture(context)?;
    for field in FIELDS {
        if let Some(found) = find(context.vmi.value(), field, String::new()) {
            return Err(ConvertError::unsupported(found));
        }
    }
    if context.vmi.annotation(PLACE_ON_ROOT) == Some("true") {
        return Err(ConvertError::unsupported(format!(
            "the annotation {PLACE_ON_ROOT}"
        )));
    }
    match_volume(context)?;
    plain_directories(context)
}

fn architecture(context: &Context<'_>) -> Result<(), ConvertError> {
    let guest = match context.vmi.spec.architecture.as_str() {
        "" => &context.host.architecture,
        guest => guest,
    };
    if guest == "amd64" && context.host.architecture == "amd64" {
        return Ok(());
    }
    Err(ConvertError::unsupported(format!(
        "spec.architecture {guest} on {}",
        context.host.architecture
    )))
}

/// The path of the field where it asks for something.
pub(super) fn find(value: &Value, field: &str, mut path: String) -> Option<String> {
    let (segment, rest) = field
        .split_once('.')
        .map_or((field, None), |(segment, rest)| (segment, Some(rest)));
    let name = segment.trim_end_matches("[]");
    let value = value.get(name)?;
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
    let descend = |value: &Value, path: String| match rest {
        Some(rest) => find(value, rest, path),
        None => asks(value).then_some(path),
    };
    if name.len() == segment.len() {
        return descend(value, path);
    }
    let elements = value.as_array()?.iter().enumerate();
    elements
        .into_iter()
        .find_map(|(place, element)| descend(element, format!("{path}[{place}]")))
}

fn asks(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        _ => true,
    }
}

/// Block sizes that follow the volume need a look at the device.
fn match_volume(context: &Context<'_>) -> Result<(), ConvertError> {
    let matches = |disk: &crate::vmi::Disk| {
        disk.block_size.as_ref().is_some_and(|size| {
            size.custom.is_none()
                && size
                    .match_volume
                    .as_ref()
                    .is_some_and(crate::vmi::FeatureState::is_enabled)
        })
    };
    match context.devices().disks.iter().position(matches) {
        Some(place) => Err(ConvertError::unsupported(format!(
            "spec.domain.devices.disks[{place}].blockSize.matchVolume"
        ))),
        None => Ok(()),
    }
}

fn plain_directories(context: &Context<'_>) -> Result<(), ConvertError> {
    let other = context
        .devices()
        .filesystems
        .iter()
        .position(|filesystem| filesystem.virtiofs.is_none());
    other.map_or(Ok(()), |place| {
        Err(ConvertError::unsupported(format!(
            "spec.domain.devices.filesystems[{place}] without virtiofs"
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_fields_that_ask_for_something_are_found() {
        let value = json!({"a": {"b": [{"c": false}, {"c": {}}], "d": [], "e": null}});
        assert_eq!(
            find(&value, "a.b[].c", String::new()).as_deref(),
            Some("a.b[1].c")
        );
        for field in ["a.d", "a.e", "a.x", "a.b[].x", "a.b.c", "a.d[].c"] {
            assert_eq!(find(&value, field, String::new()), None, "{field}");
        }
    }
}
