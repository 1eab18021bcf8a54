//! The task that runs the state machine of the safety thaw.

use std::sync::atomic::Ordering;

use tokio::sync::mpsc;

use super::Freezer;
use super::safety_thaw_state_machine::{Input, SafetyThaw, Step};
use crate::named_timers::NamedTimers;

/// The state of the safety thaw's task. It is kept when the task is started again.
pub(super) struct SafetyThawState {
    policy: SafetyThaw,
    timers: NamedTimers<()>,
    /// The number of the freeze to thaw.
    freeze: u64,
    received: mpsc::UnboundedReceiver<(u64, Input)>,
}

impl SafetyThawState {
    /// The state before the first freeze; `received` are the inputs, each with the number of its freeze.
    pub(super) fn new(received: mpsc::UnboundedReceiver<(u64, Input)>) -> SafetyThawState {
        SafetyThawState {
            policy: SafetyThaw::default(),
            timers: NamedTimers::default(),
            freeze: 0,
            received,
        }
    }
}

impl Freezer {
    /// Passes an input to the task, with the number of its freeze.
    pub(super) fn inform_safety_thaw(&self, number: u64, input: Input) {
        // Cannot fail: `self` holds the receiver.
        let _ = self.0.safety_thaw_inputs.send((number, input));
    }

    /// Runs the safety thaw; never ends by itself.
    pub(crate) async fn run_safety_thaw(&self) {
        let mut state = self.0.safety_thaw.lock().await;
        let SafetyThawState {
            policy,
            timers,
            freeze,
            received,
        } = &mut *state;
        loop {
            let mut input = tokio::select! {
                // Never `None`: `self` holds a sender.
                Some((number, input)) = received.recv() => {
                    *freeze = number;
                    input
                }
                () = timers.expired() => Input::Expired,
            };
            loop {
                match policy.observe(input) {
                    Step::Arm(after) => timers.arm((), after),
                    Step::Disarm => timers.disarm(&()),
                    Step::Thaw => {
                        input = self.attempt_thaw(*freeze).await;
                        continue;
                    }
                }
                break;
            }
        }
    }

    /// Tries once to thaw the guest, and returns the result as input to the policy.
    async fn attempt_thaw(&self, freeze: u64) -> Input {
        let _operation = self.0.operation.lock().await;
        if self.0.freeze_count.load(Ordering::Relaxed) != freeze {
            // The guest was frozen again. The input for the new freeze is in the channel.
            return Input::Thawed;
        }
        if self.has_ended().await {
            return Input::Ended;
        }
        tracing::warn!("the guest was not thawed in time, or a thaw failed: it is thawed now");
        let result = self.thaw_domain().await;
        match &result {
            Ok(_) => tracing::info!("the guest is thawed"),
            Err(error) => tracing::warn!(reason = %error, "the guest could not be thawed"),
        }
        self.input_after_thaw(&result)
    }

    /// Whether libvirt reports that the guest does not run any more; false when libvirt cannot be reached.
    async fn has_ended(&self) -> bool {
        let domain = match self.0.client.lookup().await {
            Ok(domain) => domain,
            Err(_) => return false,
        };
        let Some(domain) = domain else { return true };
        let state = self.0.client.state_of(&domain).await;
        state.is_ok_and(|state| state.is_down())
    }
}
