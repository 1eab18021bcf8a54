//! Memory hotplug: attaches or updates the virtio-mem device of a running domain.

use domain_xml::Element;
use kubevirt_api::vmi::{Quantity, Vmi};

use super::live_domain::LiveDomain;
use crate::memory_amount::memory_amount;

const MODEL: &str = "virtio-mem";
/// The annotation with which KubeVirt's functional tests let the change fail.
const FAIL_ANNOTATION: &str = "kubevirt.io/func-test-memory-hotplug-fail";
/// The unit in which the guest plugs memory, in bytes, without huge pages of 1 GiB.
const BLOCK_SIZE: u64 = 2 << 20;
/// The unit in which the guest plugs memory, in bytes, with huge pages of 1 GiB.
const HUGE_BLOCK_SIZE: u64 = 1 << 30;

/// A change of the guest's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryChange {
    /// Attach the memory device with this XML.
    Attach(String),
    /// Update the memory device with this XML, which has another requested size.
    Update(String),
}

/// Why the guest's memory cannot be changed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MemoryChangeError {
    /// A size is missing in the VMI.
    #[error("the VMI's field {0} is missing, so that the guest's memory cannot be changed")]
    Missing(&'static str),
    /// A size is smaller than the guest's memory at boot.
    #[error(
        "the VMI's field {field} is {bytes} bytes, less than the {at_boot} bytes with which the guest was started"
    )]
    BelowBoot {
        /// The field.
        field: &'static str,
        /// The size in bytes.
        bytes: i64,
        /// `status.memory.guestAtBoot` in bytes.
        at_boot: i64,
    },
    /// The VM was started without room for more memory.
    #[error(
        "memory cannot be plugged into the running VM, since it was started without more in \
         spec.domain.memory.maxGuest than in spec.domain.memory.guest; restart the VM"
    )]
    NotPluggable,
    /// The annotation of KubeVirt's functional tests is set. The message is the annotation's name.
    #[error("{FAIL_ANNOTATION}")]
    Annotation,
}

/// The change to the memory size in the VMI; `None` if that size is already requested.
///
/// # Errors
/// [`MemoryChangeError`], which names the field.
pub fn memory_change(
    vmi: &Vmi,
    live: &LiveDomain,
) -> Result<Option<MemoryChange>, MemoryChangeError> {
    if vmi.annotation(FAIL_ANNOTATION).is_some() {
        return Err(MemoryChangeError::Annotation);
    }
    let DeviceSizes {
        max_pluggable,
        requested,
    } = DeviceSizes::from_vmi(vmi)?;
    let device = live
        .elements("memory")
        .find(|device| is_virtio_mem(device))
        .cloned();
    let Some(mut device) = device else {
        if !live.has_max_memory() {
            return Err(MemoryChangeError::NotPluggable);
        }
        let xml = new_device(max_pluggable, requested, block_size(vmi)).render();
        return Ok(Some(MemoryChange::Attach(xml)));
    };
    let size = device.ensure_child("target").ensure_child("requested");
    if memory_amount(size) == Some(requested.into()) {
        return Ok(None);
    }
    size.set_attr("unit", "b").set_text(requested.to_string());
    Ok(Some(MemoryChange::Update(device.render())))
}

/// Sizes of the memory device in bytes.
struct DeviceSizes {
    max_pluggable: u64,
    requested: u64,
}

impl DeviceSizes {
    fn from_vmi(vmi: &Vmi) -> Result<DeviceSizes, MemoryChangeError> {
        const MAX_GUEST_FIELD: &str = "spec.domain.memory.maxGuest";
        const GUEST_FIELD: &str = "spec.domain.memory.guest";
        let value = |field, quantity: Option<&Quantity>| {
            let quantity = quantity.ok_or(MemoryChangeError::Missing(field))?;
            Ok(quantity.value())
        };
        let memory = vmi.spec.domain.memory.as_ref();
        let status = vmi.status.memory.as_ref();
        let at_boot = value(
            "status.memory.guestAtBoot",
            status.and_then(|status| status.guest_at_boot.as_ref()),
        )?;
        let above_boot = |field, quantity: Option<&Quantity>| {
            let bytes: i64 = value(field, quantity)?;
            let above_boot = bytes.checked_sub(at_boot).unwrap_or(-1);
            u64::try_from(above_boot).map_err(|_| MemoryChangeError::BelowBoot {
                field,
                bytes,
                at_boot,
            })
        };
        Ok(DeviceSizes {
            max_pluggable: above_boot(
                MAX_GUEST_FIELD,
                memory.and_then(|memory| memory.max_guest.as_ref()),
            )?,
            requested: above_boot(GUEST_FIELD, memory.and_then(|memory| memory.guest.as_ref()))?,
        })
    }
}

fn block_size(vmi: &Vmi) -> u64 {
    let memory = vmi.spec.domain.memory.as_ref();
    let pages = memory.and_then(|memory| memory.hugepages.as_ref());
    match pages.is_some_and(|pages| pages.page_size == "1Gi") {
        true => HUGE_BLOCK_SIZE,
        false => BLOCK_SIZE,
    }
}

fn is_virtio_mem(device: &Element) -> bool {
    device.attr("model").is_some_and(|model| model == MODEL)
}

fn new_device(max_pluggable: u64, requested: u64, block: u64) -> Element {
    let amount = |name: &str, bytes: u64| {
        Element::new(name)
            .with_attr("unit", "b")
            .with_text(bytes.to_string())
    };
    let target = Element::new("target")
        .with_child(amount("size", max_pluggable))
        .with_child(Element::new("node").with_text("0"))
        .with_child(amount("block", block))
        .with_child(amount("requested", requested));
    Element::new("memory")
        .with_attr("model", MODEL)
        .with_child(target)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const LIVE: &str = "<memory model='virtio-mem'><target><size unit='KiB'>786432</size><node>0</node>\
        <block unit='KiB'>2048</block><requested unit='KiB'>262144</requested><current unit='KiB'>131072</current>\
        </target><alias name='virtiomem0'/></memory>";

    fn vmi(memory: Value, at_boot: Value) -> Vmi {
        let vmi = json!({
            "metadata": {"name": "vm1", "namespace": "default", "uid": "1"},
            "spec": {"domain": {"memory": memory}},
            "status": {"memory": {"guestAtBoot": at_boot}},
        });
        Vmi::from_json(vmi.to_string().as_bytes()).unwrap()
    }

    fn change(guest: &str, devices: &str) -> Result<Option<MemoryChange>, MemoryChangeError> {
        let vmi = vmi(json!({"guest": guest, "maxGuest": "1Gi"}), json!("256Mi"));
        let xml = format!(
            "<domain id='1'><maxMemory unit='KiB'>1048576</maxMemory><devices>{devices}</devices></domain>"
        );
        memory_change(&vmi, &LiveDomain::parse(xml).unwrap())
    }

    #[test]
    fn first_change_attaches_a_device_for_all_pluggable_memory() {
        let attach = "<memory model='virtio-mem'><target><size unit='b'>805306368</size><node>0</node>\
            <block unit='b'>2097152</block><requested unit='b'>268435456</requested></target></memory>";
        for devices in ["", "<memory model='nvdimm'/>"] {
            let Some(MemoryChange::Attach(xml)) = change("512Mi", devices).unwrap() else {
                panic!("no attachment to {devices}");
            };
            assert_eq!(xml.lines().map(str::trim).collect::<String>(), attach);
        }
    }

    #[test]
    fn later_changes_update_the_requested_size_of_the_live_device() {
        assert_eq!(change("512Mi", LIVE).unwrap(), None);
        let Some(MemoryChange::Update(xml)) = change("768Mi", LIVE).unwrap() else {
            panic!("no update");
        };
        let requested = "<requested unit='b'>536870912</requested>";
        let expected = LIVE.replace("<requested unit='KiB'>262144</requested>", requested);
        assert_eq!(xml, expected);
        assert!(
            change("256Mi", LIVE).unwrap().is_some(),
            "all plugged memory is unplugged"
        );
    }

    #[test]
    fn error_of_an_invalid_size_names_the_field() {
        let error = change("128Mi", "").unwrap_err().to_string();
        assert!(
            error.contains("spec.domain.memory.guest is 134217728"),
            "{error}"
        );
        let live = LiveDomain::parse("<domain id='1'/>".into()).unwrap();
        let missing = |memory, at_boot| {
            memory_change(&vmi(memory, at_boot), &live)
                .unwrap_err()
                .to_string()
        };
        let sizes = json!({"guest": "1Gi"});
        assert!(missing(sizes.clone(), json!("1Gi")).contains("maxGuest"));
        assert!(missing(sizes, Value::Null).contains("guestAtBoot"));
    }

    #[test]
    fn memory_is_not_plugged_into_a_vm_that_was_started_without_room_for_it() {
        let vmi = vmi(json!({"guest": "512Mi", "maxGuest": "1Gi"}), json!("256Mi"));
        let live = LiveDomain::parse("<domain id='1'/>".into()).unwrap();
        let error = memory_change(&vmi, &live).unwrap_err();
        assert_eq!(error, MemoryChangeError::NotPluggable);
    }

    #[test]
    fn annotation_of_kubevirts_tests_is_an_error() {
        let vmi = json!({"metadata": {"name": "vm1", "namespace": "default", "uid": "1",
            "annotations": {FAIL_ANNOTATION: ""}}});
        let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
        let live = LiveDomain::parse("<domain id='1'/>".into()).unwrap();
        assert_eq!(
            memory_change(&vmi, &live).unwrap_err().to_string(),
            FAIL_ANNOTATION
        );
    }
}
