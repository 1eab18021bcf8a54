//! Verifies the output of a hook: parses it, finds its changes, and checks them against the hook's grant.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use domain_xml::host::{Budget, Change};

use super::hook_point_run::HookPointRun;
use super::input_and_verified_output::{Input, Output};
use super::verify_device::AttachedDevice;
use super::verify_domain::{Domain, Rejection};
use super::work_within_budget::{self, BudgetError};
use crate::cloud_init::{CloudInit, CloudInitAnswer};
use crate::hook::Hook;
use crate::hook_body::{BodyError, HookOutput};
use crate::policy::{GrantRefusal, NotGranted};
use crate::printable::{MAX_MESSAGE, printable};
use crate::record::HookPayload;
use crate::sealed_changes::Seal;
use crate::{HookError, MigrationParameters};

/// Maximum size of what a module adds to a document besides its changes, in bytes.
const MAX_PADDING: usize = 64 << 10;

/// The verified output of a hook and its changes.
pub(super) type CallResult = Result<(Output, Vec<Change>), HookError>;

impl HookPointRun<'_> {
    /// Verifies an output until `deadline`. Also returns the output before verification, if it is kept.
    pub(super) async fn verify(
        &self,
        hook: &Hook,
        input: Input<'_>,
        output: HookOutput,
        deadline: Instant,
    ) -> (CallResult, Option<HookPayload>) {
        match (input, output) {
            (Input::CloudInit(before), HookOutput::CloudInit(answer)) => {
                self.verify_cloud_init(hook, before, answer, deadline).await
            }
            (
                Input::Domain {
                    domain,
                    xml: before,
                },
                HookOutput::DomainXml(xml),
            ) => {
                let payload = self.keep_payload(|| HookPayload::DomainXml(xml.clone()));
                let added = xml.len().saturating_sub(before.len());
                let verified = self.verify_domain(hook, domain, xml, deadline).await;
                (self.limit_padding(hook, added, verified), payload)
            }
            (
                Input::Device {
                    device,
                    xml: before,
                },
                HookOutput::DeviceXml(xml),
            ) => {
                let payload = self.keep_payload(|| HookPayload::DeviceXml(xml.clone()));
                let added = xml.len().saturating_sub(before.len());
                let verified = self.verify_device(hook, device, xml, deadline).await;
                (self.limit_padding(hook, added, verified), payload)
            }
            (Input::Migration(before), HookOutput::Parameters(texts)) => {
                let payload = self.keep_payload(|| HookPayload::Parameters(texts.clone()));
                (self.verify_migration(hook, before, &texts), payload)
            }
            _ => (Ok((Output::Nothing, Vec::new())), None),
        }
    }

    async fn verify_cloud_init(
        &self,
        hook: &Hook,
        before: &CloudInit,
        answer: CloudInitAnswer,
        deadline: Instant,
    ) -> (CallResult, Option<HookPayload>) {
        let answer = Arc::new(answer);
        let work = {
            let (before, answer) = (before.clone(), Arc::clone(&answer));
            move |budget: &Rc<Budget<'static>>| before.apply(&answer, budget)
        };
        let applied = work_within_budget::run(deadline, answer.len(), work).await;
        let applied = applied.map_err(|budget_error| budget_error.to_string());
        let applied = applied.and_then(|applied| applied);
        let documents = || match (Arc::unwrap_or_clone(answer), &applied) {
            (CloudInitAnswer::Documents(documents), _) => Some(documents),
            (CloudInitAnswer::Json { .. }, Ok((after, _))) => Some(after.documents()),
            (CloudInitAnswer::Json { .. }, Err(_)) => None,
        };
        let payload = match self.keeps_payload {
            true => documents().map(HookPayload::Documents),
            false => None,
        };
        let result = match applied {
            Ok((after, changes)) => Ok((Output::CloudInit(after), changes)),
            Err(message) => Err(self.bad_output(hook, message)),
        };
        (result, payload)
    }

    async fn verify_domain(
        &self,
        hook: &Hook,
        before: &Arc<Domain>,
        xml: String,
        deadline: Instant,
    ) -> CallResult {
        let (before, grant) = (Arc::clone(before), hook.settings.grant.clone());
        let arrives = self.arrives;
        let check = move |xml: &str, budget: &Rc<Budget<'static>>| {
            before.verify(xml, &grant, arrives, budget)
        };
        let (domain, xml, changes) = self.verify_xml(hook, xml, deadline, check).await?;
        Ok((Output::Domain { domain, xml }, changes))
    }

    async fn verify_device(
        &self,
        hook: &Hook,
        before: &Arc<AttachedDevice>,
        xml: String,
        deadline: Instant,
    ) -> CallResult {
        let (before, grant) = (Arc::clone(before), hook.settings.grant.clone());
        let check =
            move |xml: &str, budget: &Rc<Budget<'static>>| before.verify(xml, &grant, budget);
        let (device, xml, changes) = self.verify_xml(hook, xml, deadline, check).await?;
        Ok((Output::Device { device, xml }, changes))
    }

    /// Parses and checks XML within the host's budget. Returns the parsed domain or device, the text, and the changes.
    async fn verify_xml<T: Send + 'static>(
        &self,
        hook: &Hook,
        xml: String,
        deadline: Instant,
        check: impl Fn(&str, &Rc<Budget<'static>>) -> Result<(T, Vec<Change>), Rejection>
        + Send
        + 'static,
    ) -> Result<(Arc<T>, String, Vec<Change>), HookError> {
        let xml = Arc::new(xml);
        let work = {
            let xml = Arc::clone(&xml);
            move |budget: &Rc<Budget<'static>>| check(&xml, budget)
        };
        let verified = work_within_budget::run(deadline, xml.len(), work).await;
        let (parsed, changes) = self.check_result(hook, verified)?;
        Ok((Arc::new(parsed), Arc::unwrap_or_clone(xml), changes))
    }

    /// Limits what a module adds besides its changes, such as comments: such text is dropped if there are no changes,
    /// and limited in size otherwise, because no grant covers it, and it could make the next hook exceed its limits. A
    /// sidecar or plugin, which writes the whole document anew, is not limited.
    fn limit_padding(&self, hook: &Hook, added: usize, verified: CallResult) -> CallResult {
        let (output, changes) = verified?;
        if hook.body.rewrites_document() {
            return Ok((output, changes));
        }
        if changes.is_empty() {
            return Ok((Output::Nothing, changes));
        }
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let changed: usize = changes.iter().map(|change| length(&change.after)).sum();
        // Layout and escapes may double the text of the changes.
        if added > MAX_PADDING + 2 * changed {
            let message = format!(
                "{added} bytes more than its input, of which {changed} are changes: a module may add {MAX_PADDING} bytes \
                 besides its changes, such as comments and indentation"
            );
            return Err(self.bad_output(hook, message));
        }
        Ok((output, changes))
    }

    fn verify_migration(
        &self,
        hook: &Hook,
        before: &MigrationParameters,
        texts: &[(String, String)],
    ) -> CallResult {
        let after = before.with_texts(texts);
        let after = after.map_err(|error| self.bad_output(hook, error.to_string()))?;
        let granted = &hook.settings.migration;
        let differences = before.differences(&after);
        let refused = differences
            .into_iter()
            .find(|(parameter, ..)| !granted.contains(parameter));
        if let Some((parameter, before, after)) = refused {
            return Err(self.denied(
                hook,
                GrantRefusal {
                    path: format!("the migration's {parameter}"),
                    before: Some(before),
                    after: Some(after),
                    remedy: format!(
                        "the module does not declare it: add {parameter:?} to wishes.migration in its description",
                        parameter = parameter.name()
                    ),
                },
            ));
        }
        let changes = before.changes(&after);
        Ok((Output::Migration(after), changes))
    }

    /// Converts the error of a check of XML to the error of the hook.
    fn check_result<T>(
        &self,
        hook: &Hook,
        verified: Result<Result<T, Rejection>, BudgetError>,
    ) -> Result<T, HookError> {
        let not_finished =
            |budget_error: BudgetError| self.bad_output(hook, budget_error.to_string());
        match verified.map_err(not_finished)? {
            Ok(verified) => Ok(verified),
            Err(Rejection::Invalid(message)) => Err(self.bad_output(hook, message)),
            Err(Rejection::NotGranted(NotGranted::Refused(refused))) => {
                Err(self.denied(hook, refused))
            }
            Err(Rejection::NotGranted(NotGranted::CheckBudgetExhausted)) => {
                Err(not_finished(BudgetError::Steps))
            }
        }
    }

    /// Refuses a change of what another, final hook has changed.
    pub(super) fn check_seals(&self, hook: &Hook, changes: &[Change]) -> Result<(), HookError> {
        let Some((seal, change)) = self.seals.first_broken(&hook.info.hook, changes) else {
            return Ok(());
        };
        let Seal {
            hook: final_hook,
            rule,
            path,
            ..
        } = seal;
        let sealed = match *path == change.path {
            true => "it".to_owned(),
            false => path.clone(),
        };
        Err(self.denied(
            hook,
            GrantRefusal {
                path: change.path.clone(),
                before: change.before.clone(),
                after: change.after.clone(),
                remedy: format!(
                    "the final hook {final_hook} changed {sealed}, which is sealed for the hooks after it, as {rule} says: \
                     let one of the two hooks change it"
                ),
            },
        ))
    }

    /// The output before verification, which is copied only if a record or a replay needs it.
    fn keep_payload(&self, payload: impl FnOnce() -> HookPayload) -> Option<HookPayload> {
        self.keeps_payload.then(payload)
    }

    fn bad_output(&self, hook: &Hook, message: String) -> HookError {
        self.error(hook, BodyError::BadOutput(message))
    }

    fn denied(&self, hook: &Hook, refused: GrantRefusal) -> HookError {
        HookError::Denied {
            hook: hook.info.hook.clone(),
            point: self.point,
            path: printable(&refused.path, MAX_MESSAGE),
            before: refused.before,
            after: refused.after,
            remedy: printable(&refused.remedy, MAX_MESSAGE),
        }
    }
}
