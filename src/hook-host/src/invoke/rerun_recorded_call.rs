//! Calls a hook again with the input of a recorded call, for a replay.

use std::sync::Arc;

use super::hook_point_run::HookPointRun;
use super::input_and_verified_output::Input;
use super::verify_device::AttachedDevice;
use super::verify_domain::Domain;
use crate::cloud_init::CloudInit;
use crate::hook::Hook;
use crate::pod_facts::PodFactSource;
use crate::record::{self, HookPayload};
use crate::{HookPoint, Invocation, MigrationParameters, Run};

/// Calls a hook once with recorded input. The error names the invalid part of the input.
pub(crate) async fn rerun(
    hook: &Hook,
    point: HookPoint,
    invocation: &Invocation,
    input: &record::Input,
) -> Result<(Run, Option<HookPayload>), String> {
    let limits = &hook.settings.limits;
    // The replayed module takes facts about the pod from the record.
    let pod = PodFactSource::None;
    let mut run = HookPointRun::new(limits, point, invocation, &input.vmi, None, &pod, None);
    run.keeps_payload = true;
    input.seals().for_each(|seal| run.seals.add(seal));
    if input.arrives {
        run.set_arriving();
    }
    let (run, _, payload, _) = match point {
        HookPoint::PreStart => run.call_body(hook, Input::PreStart, None).await,
        HookPoint::Shutdown => run.call_body(hook, Input::Shutdown, None).await,
        HookPoint::PreCloudInitIso => {
            let documents = input.documents.as_deref().unwrap_or_default();
            let source = input.data_source.as_deref().unwrap_or("noCloud");
            let data = CloudInit::from_documents(source, documents)?;
            run.call_body(hook, Input::CloudInit(&data), None).await
        }
        HookPoint::OnDefineDomain => {
            let xml = input.domain_xml.as_deref().ok_or("it has no domain XML")?;
            let domain = Arc::new(Domain::parse(xml)?);
            let input = Input::Domain {
                domain: &domain,
                xml,
            };
            run.call_body(hook, input, None).await
        }
        HookPoint::PreMigrationSource => {
            let texts = input.parameters.as_deref().unwrap_or_default();
            let parameters = MigrationParameters::from_recorded_texts(texts)
                .map_err(|error| error.to_string())?;
            run.call_body(hook, Input::Migration(&parameters), None)
                .await
        }
        HookPoint::OnAttachDevice => {
            let xml = input.device_xml.as_deref().ok_or("it has no device XML")?;
            let device = AttachedDevice::parse(xml).map_err(|error| error.to_string())?;
            let device = Arc::new(device);
            let input = Input::Device {
                device: &device,
                xml,
            };
            run.call_body(hook, input, None).await
        }
    };
    Ok((run, payload))
}
