//! Passes a device that is about to be attached through the hooks of OnAttachDevice.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::chain::{Chain, bad_input};
use super::input_and_output::{Input, Output};
use super::verify_device::AttachedDevice;
use super::work_within_budget;
use crate::{HookError, HookPoint, Invocation, Limits, Run};

/// The time budget of hooks for all devices that one request attaches.
#[derive(Debug)]
pub struct AttachTime {
    limit: Duration,
    /// When the hooks must end, because the request needs the rest of its time for other work.
    end: Option<Instant>,
    spent: Mutex<Duration>,
}

impl Default for AttachTime {
    fn default() -> Self {
        Self::new(Limits::default().attach_deadline)
    }
}

impl AttachTime {
    /// A budget of `limit` for one request.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            end: None,
            spent: Mutex::default(),
        }
    }

    /// The same budget, which also ends at `end`.
    #[must_use]
    pub fn until(self, end: Instant) -> Self {
        let until_end = end.saturating_duration_since(Instant::now());
        Self {
            limit: self.limit.min(until_end),
            end: Some(end),
            ..self
        }
    }

    /// The remaining time.
    #[must_use]
    pub fn left(&self) -> Duration {
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let until_end = self.end.map_or(Duration::MAX, |end| {
            end.saturating_duration_since(Instant::now())
        });
        self.limit.saturating_sub(spent).min(until_end)
    }

    fn spend(&self, time: Duration) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }
}

impl Chain {
    /// The time budget for one request, from the chain's limits.
    #[must_use]
    pub fn attach_time(&self) -> AttachTime {
        AttachTime::new(self.config.limits.attach_deadline)
    }

    /// Passes the XML of one device that is about to be attached through the hooks that subscribe to OnAttachDevice.
    /// All devices of a request share `time`. The output of each hook must be the same device.
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
        (run.deadline, run.spent) = (time.limit, time.limit - time.left());
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
                Ok(_) => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        time.spend(started.elapsed().saturating_sub(run.excluded));
        result.map(|()| (xml, run.runs))
    }
}
