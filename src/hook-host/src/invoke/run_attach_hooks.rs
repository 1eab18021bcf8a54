//! Passes a device that is about to be attached through the hooks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::hook_point_run::{Input, Output};
use super::verify_device::AttachedDevice;
use super::{Chain, bad_input, work_within_budget};
use crate::{HookError, HookPoint, Invocation, Limits, Run};

/// The time that hooks have at the attaches of one request together.
#[derive(Debug)]
pub struct AttachTime {
    limit: Duration,
    /// When the request needs the rest of its time for other work.
    end: Option<Instant>,
    spent: Mutex<Duration>,
}

impl Default for AttachTime {
    fn default() -> Self {
        Self::new(Limits::default().attach_deadline)
    }
}

impl AttachTime {
    /// Time for one request.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            end: None,
            spent: Mutex::default(),
        }
    }

    /// The same time, which also ends at `end`.
    #[must_use]
    pub fn until(self, end: Instant) -> Self {
        let left = end.saturating_duration_since(Instant::now());
        Self {
            limit: self.limit.min(left),
            end: Some(end),
            ..self
        }
    }

    /// The time that hooks still have.
    #[must_use]
    pub fn left(&self) -> Duration {
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.end.map_or(Duration::MAX, |end| {
            end.saturating_duration_since(Instant::now())
        });
        self.limit.saturating_sub(spent).min(left)
    }

    fn add(&self, time: Duration) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }
}

impl Chain {
    /// The time that hooks have at the attaches of one request, by the chain's limits.
    #[must_use]
    pub fn attach_time(&self) -> AttachTime {
        AttachTime::new(self.config.limits.attach_deadline)
    }

    /// Passes the XML of one device that is about to be attached through the modules that subscribe to OnAttachDevice.
    /// `time` is shared by all devices of a request. After each hook it must be the same device.
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
        let parsed = parsing.await.map_err(|unfinished| unfinished.to_string());
        let device = parsed.and_then(|parsed| parsed.map_err(|error| error.to_string()));
        let mut device = Arc::new(device.map_err(|error| bad_input(first, point, error))?);
        let mut run = self.begin(point, invocation, vmi);
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
        time.add(started.elapsed().saturating_sub(run.excluded));
        result.map(|()| (xml, run.runs))
    }
}
