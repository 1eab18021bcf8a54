//! The part that both front ends share: passes a launcher's gRPC calls to the chain.

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};

use domain_xml::Document;
use tokio::sync::{Mutex, OnceCell, watch};
use tonic::Status;

use super::elements_lost_by_launcher::ForeignElements;
use super::invocation_from_vmi::invocation_from_vmi;
use super::{grpc_status, sidecar_cloud_init_fields};
use crate::printable::utf8;
use crate::{Chain, HookPoint, Invocation, Outcome, Reason};

/// Maximum size of a message that KubeVirt's launcher accepts, in bytes: gRPC's default limit.
const MAX_ANSWER_BYTES: usize = 4 << 20;
/// Maximum size of the protobuf encoding around the texts of an answer, in bytes.
const PROTOBUF_OVERHEAD: usize = 64;

/// A chain that serves one request at a time, because two at once would need twice the memory.
#[derive(Clone)]
pub(super) struct ChainService(Arc<ServedChain>);

struct ServedChain {
    chain: Chain,
    /// Maximum size of an answer in bytes.
    max_answer: usize,
    /// The only namespace that is served; `None` if the chain's grants do not depend on the namespace.
    namespace: Option<String>,
    /// Held during a request.
    request_lock: Mutex<()>,
    /// The invocation of the last request, for Shutdown, whose request has no VMI.
    last_invocation: RwLock<Invocation>,
    foreign_elements: std::sync::Mutex<ForeignElements>,
    shut_down: OnceCell<()>,
    /// Whether the hooks of Shutdown have run.
    stopped: watch::Sender<bool>,
}

impl ChainService {
    pub(super) fn new(chain: Chain, output: usize, namespace: Option<String>) -> Self {
        Self(Arc::new(ServedChain {
            chain,
            max_answer: output.min(MAX_ANSWER_BYTES),
            namespace,
            request_lock: Mutex::new(()),
            last_invocation: RwLock::default(),
            foreign_elements: std::sync::Mutex::default(),
            shut_down: OnceCell::new(),
            stopped: watch::Sender::new(false),
        }))
    }

    /// The hook points that at least one hook subscribes to, each with the highest priority.
    pub(super) fn hook_points(&self) -> Vec<(HookPoint, i32)> {
        let hooks = self.0.chain.hooks();
        let highest_priority = |point| hooks.iter().filter_map(|hook| hook.priority(point)).max();
        let points = HookPoint::ALL.into_iter();
        points
            .filter_map(|point| Some((point, highest_priority(point)?)))
            .collect()
    }

    /// Passes the domain XML through the hooks of OnDefineDomain. `reason` is the reason that the launcher sent, if
    /// any.
    pub(super) async fn on_define_domain(
        &self,
        reason: Option<Reason>,
        vmi: Vec<u8>,
        xml: Vec<u8>,
    ) -> Result<Vec<u8>, Status> {
        let (vmi, xml) = (decode_text(vmi, "VMI")?, decode_text(xml, "domain XML")?);
        let (invocation, _lock) = self.begin_request(&vmi, reason).await?;
        let chain = &self.0.chain;
        let (xml, _) = chain
            .on_observed_domain(&invocation, &vmi, xml, |domain| {
                self.warn_of_lost_elements(&invocation, domain);
            })
            .await
            .map_err(|error| grpc_status::from_hook_error(&error))?;
        self.check_size(&[xml.as_bytes()])?;
        Ok(xml.into_bytes())
    }

    /// Passes `CloudInitData` and `CloudInitNoCloudSource` through the hooks of PreCloudInitIso.
    pub(super) async fn cloud_init(
        &self,
        vmi: Vec<u8>,
        data: &[u8],
        no_cloud: &[u8],
    ) -> Result<(Vec<u8>, Vec<u8>), Status> {
        let vmi = decode_text(vmi, "VMI")?;
        let documents = sidecar_cloud_init_fields::decode(data, no_cloud)
            .map_err(grpc_status::invalid_request)?;
        let (invocation, _lock) = self.begin_request(&vmi, None).await?;
        let chain = &self.0.chain;
        let (documents, _) = chain
            .pre_cloud_init_iso(&invocation, &vmi, documents)
            .await
            .map_err(|error| grpc_status::from_hook_error(&error))?;
        let (data, source) =
            sidecar_cloud_init_fields::encode(documents).map_err(Status::internal)?;
        self.check_size(&[&data, &source])?;
        Ok((data, source))
    }

    /// Calls the hooks of Shutdown once, however often a launcher calls this, and then ends serving. Failures are
    /// only logged: after an error, KubeVirt's launcher would not call Shutdown of the following
    /// sidecars.
    pub(super) async fn shutdown(&self) {
        self.0.shut_down.get_or_init(|| self.run_shutdown()).await;
        self.0.stopped.send_replace(true);
    }

    async fn run_shutdown(&self) {
        let runs = self.0.chain.shutdown(&self.last_invocation()).await;
        let failed = runs.iter().filter(|run| run.outcome != Outcome::Ok).count();
        tracing::info!(hooks = runs.len(), failed, "hooks were shut down");
    }

    fn last_invocation(&self) -> Invocation {
        let last = self.0.last_invocation.read();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Completes when the hooks of Shutdown have run.
    pub(super) fn stopped(&self) -> impl Future<Output = ()> + use<> {
        let mut stopped = self.0.stopped.subscribe();
        async move {
            // An error means that the sender, and with it the service, was dropped, which also ends serving.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        }
    }

    /// Waits until no other request is served, and calls the hooks of PreStart, which KubeVirt does not call. Returns
    /// the invocation, and the lock that the request holds. After Shutdown, requests are refused.
    async fn begin_request(
        &self,
        vmi: &str,
        reason: Option<Reason>,
    ) -> Result<(Invocation, tokio::sync::MutexGuard<'_, ()>), Status> {
        let invocation = invocation_from_vmi(vmi, reason).map_err(grpc_status::invalid_request)?;
        self.check_namespace(&invocation.namespace)?;
        let lock = self.0.request_lock.lock().await;
        if *self.0.stopped.borrow() {
            // Of the requests that wait at the end, none is begun.
            return Err(Status::unavailable("the hooks were shut down"));
        }
        invocation.clone_into(
            &mut self
                .0
                .last_invocation
                .write()
                .unwrap_or_else(PoisonError::into_inner),
        );
        let pre_start = self.0.chain.pre_start(&invocation, vmi).await;
        pre_start.map_err(|error| grpc_status::from_hook_error(&error))?;
        Ok((invocation, lock))
    }

    fn check_namespace(&self, namespace: &str) -> Result<(), Status> {
        match &self.0.namespace {
            Some(served) if served != namespace => Err(grpc_status::invalid_request(format!(
                "a VMI of the namespace {namespace:?}; this serves the namespace {served:?}, whose rules of the policy \
                 it was started with"
            ))),
            _ => Ok(()),
        }
    }

    fn warn_of_lost_elements(&self, invocation: &Invocation, domain: &Document) {
        let elements = self.0.foreign_elements.lock();
        let lost = elements
            .unwrap_or_else(PoisonError::into_inner)
            .lost(domain);
        for element in lost {
            tracing::warn!(
                domain = invocation.domain,
                element,
                "the launcher has lost an element that the domain had at an earlier call; \
                 KubeVirt does so with its own qemu:commandline when a VM has any hook"
            );
        }
    }

    fn check_size(&self, texts: &[&[u8]]) -> Result<(), Status> {
        let size = texts.iter().map(|text| text.len()).sum::<usize>() + PROTOBUF_OVERHEAD;
        if size <= self.0.max_answer {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!(
            "the hooks made an answer of {size} bytes, more than the {} a launcher takes",
            self.0.max_answer
        )))
    }
}

fn decode_text(bytes: Vec<u8>, what: &str) -> Result<String, Status> {
    utf8(bytes).map_err(|error| grpc_status::invalid_request(format!("the {what}: {error}")))
}
