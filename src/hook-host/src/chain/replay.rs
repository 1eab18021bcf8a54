//! One recorded run again, outside of any chain.

use std::time::{Duration, Instant};

use super::Hook;
use super::attempt::{Input, Round};
use super::check::Domain;
use super::cloud_init::CloudInit;
use crate::record::{self, Given};
use crate::wasm::Fixed;
use crate::{HookPoint, Invocation, Run};

/// Runs a hook on recorded input. The error says what of the input cannot be used.
pub(crate) async fn again(
    hook: &Hook,
    point: HookPoint,
    invocation: &Invocation,
    input: &record::Input,
    fixed: Option<Fixed>,
) -> Result<(Run, Option<Given>), String> {
    let round = Round {
        limits: &hook.settings.limits,
        point,
        invocation,
        vmi: &input.vmi,
        started: Instant::now(),
        in_sidecars: Duration::ZERO,
        runs: Vec::new(),
        recorder: None,
        keeps_answers: true,
    };
    let (run, _, given) = match point {
        HookPoint::PreStart => round.observe(hook, Input::PreStart, fixed).await,
        HookPoint::Shutdown => round.observe(hook, Input::Shutdown, fixed).await,
        HookPoint::PreCloudInitIso => {
            let documents = input.documents.as_deref().unwrap_or_default();
            let source = input.data_source.as_deref().unwrap_or("noCloud");
            let data = CloudInit::from_documents(source, documents)?;
            round.observe(hook, Input::CloudInit(&data), fixed).await
        }
        HookPoint::OnDefineDomain => {
            let xml = input.domain_xml.as_deref().ok_or("it has no domain XML")?;
            let domain = Domain::parse(xml)?;
            let input = Input::Domain {
                domain: &domain,
                xml,
            };
            round.observe(hook, input, fixed).await
        }
    };
    Ok((run, given))
}
