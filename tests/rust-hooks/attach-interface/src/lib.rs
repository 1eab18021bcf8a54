//! A hook for interfaces that are attached to the running VM: it sets the size of their receive queues, and refuses the
//! interface that an annotation names.

use hooks_sdk::{Context, Description, Device, Hook, HookPoint, Result, Vmi, log, veto};

/// The annotation with the size of receive queues.
const QUEUE_SIZE: &str = "nic.example.com/rx-queue-size";
/// The annotation with the name of the interface that is refused.
const REFUSED_INTERFACE: &str = "nic.example.com/refused";

/// The hook.
#[derive(Debug, Default)]
pub struct AttachInterface;

impl Hook for AttachInterface {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnAttachDevice];

    fn describe(description: Description) -> Description {
        description.with_paths(["/domain/devices/interface/driver/**"])
    }

    fn on_attach_device(&self, vmi: &Vmi, device: &mut Device) -> Result {
        if !device.is("interface") {
            return Ok(());
        }
        let alias = device
            .value("alias/@name")?
            .context("an interface without an alias")?;
        log::info(format!("asked for {alias}"));
        if vmi.annotation(REFUSED_INTERFACE) == Some(alias.trim_start_matches("ua-")) {
            return Err(veto(format!("no {alias} today")));
        }
        if let Some(size) = vmi.annotation(QUEUE_SIZE) {
            let driver = device.ensure_child("driver");
            driver.set_attr("rx_queue_size", size);
        }
        Ok(())
    }
}

hooks_sdk::export!(AttachInterface);
