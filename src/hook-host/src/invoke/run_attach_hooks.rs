//! Passes a device that is about to be attached through the hooks of OnAttachDevice.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::attach_time::AttachTime;
use super::chain::{Chain, bad_input};
use super::input_and_verified_output::{Input, Output};
use super::verify_device::AttachedDevice;
use super::work_within_budget;
use crate::{HookError, HookPoint, Invocation, Run};

impl Chain {
    /// The time budget for one request, from the chain's limits.
    #[must_use]
    pub fn attach_time(&self) -> AttachTime {
        AttachTime::new(self.config.limits.attach_deadline)
    }

    /// Passes the XML of one device that is about to be attached through the hooks that subscribe to OnAttachDevice.
    /// All devices of a request share `time`. The output of each hook must be the same device. What final hooks changed in
    /// the domain at OnDefineDomain is sealed for the device, too.
    pub async fn on_attach_device(
        &self,
        invocation: &Invocation,
        vmi: &str,
        mut xml: String,
        time: &AttachTime,
    ) -> Result<(String, Vec<Run>), HookError> {
        let point = HookPoint::OnAttachDevice;
        let hooks = self.subscribed(point);
        let Some(first) = hooks.first() else {
            return Ok((xml, Vec::new()));
        };
        let started = Instant::now();
        let text = xml.clone();
        let parsing = work_within_budget::run(
            started + self.config.limits.call_deadline,
            xml.len(),
            move |_| AttachedDevice::parse(&text),
        );
        let parsed = parsing
            .await
            .map_err(|budget_error| budget_error.to_string());
        let device = parsed.and_then(|parsed| parsed.map_err(|error| error.to_string()));
        let mut device = Arc::new(device.map_err(|error| bad_input(first, point, error))?);
        let mut run = self.begin_run(point, invocation, vmi);
        run.seals = (self.seals.lock().unwrap_or_else(PoisonError::into_inner)).clone();
        run.time_budget = time.limit();
        // Computed from `left`, which also counts the request's other work.
        run.spent = time.limit().saturating_sub(time.left());
        let mut result = Ok(());
        for hook in hooks {
            let input = Input::Device {
                device: &device,
                xml: &xml,
            };
            match run.call(hook, input).await {
                Ok(Output::Device {
                    device: next,
                    xml: text,
                }) => (device, xml) = (next, text),
                // A failure that is ignored leaves the device unchanged.
                Ok(_) => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        time.spend(started.elapsed().saturating_sub(run.uncharged_time));
        result.map(|()| (xml, run.runs))
    }
}
