//! The core of both front ends: a launcher's calls, as calls of the chain.

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::{Mutex, OnceCell, watch};
use tonic::Status;

use super::{cloud_init, status, subject};
use crate::{Chain, HookPoint, Invocation, Outcome, Reason};

/// What KubeVirt's launcher takes in at once: gRPC's own limit.
const MAX_ANSWER: usize = 4 << 20;
/// What wraps the texts of an answer.
const WRAPPING: usize = 64;

/// Calls of a chain, one at a time: two at once would need twice the memory.
#[derive(Clone)]
pub(super) struct Calls(Arc<Shared>);

struct Shared {
    chain: Chain,
    limit: usize,
    turn: Mutex<()>,
    /// Whose hooks ran last: Shutdown does not say.
    last: RwLock<Invocation>,
    shut_down: OnceCell<()>,
    ended: watch::Sender<bool>,
}

impl Calls {
    pub(super) fn new(chain: Chain, output: usize) -> Self {
        Self(Arc::new(Shared {
            chain,
            limit: output.min(MAX_ANSWER),
            turn: Mutex::new(()),
            last: RwLock::default(),
            shut_down: OnceCell::new(),
            ended: watch::Sender::new(false),
        }))
    }

    /// Hook points that any module wants, with the highest priority among them.
    pub(super) fn hook_points(&self) -> Vec<(HookPoint, i32)> {
        let hooks = self.0.chain.hooks();
        let highest = |point| hooks.iter().filter_map(|hook| hook.priority(point)).max();
        let points = HookPoint::ALL.into_iter();
        points
            .filter_map(|point| Some((point, highest(point)?)))
            .collect()
    }

    /// The domain XML through all hooks. `reason` is what the launcher said, if it did.
    pub(super) async fn define(
        &self,
        reason: Option<Reason>,
        vmi: Vec<u8>,
        xml: Vec<u8>,
    ) -> Result<Vec<u8>, Status> {
        let (vmi, xml) = (text(vmi, "VMI")?, text(xml, "domain XML")?);
        let (invocation, _turn) = self.begin(&vmi, reason).await?;
        let chain = &self.0.chain;
        let (xml, _) = chain
            .on_define_domain(&invocation, &vmi, xml)
            .await
            .map_err(|error| status::of(&error))?;
        self.fits(&[xml.as_bytes()])?;
        Ok(xml.into_bytes())
    }

    /// `CloudInitData` and `CloudInitNoCloudSource` through all hooks.
    pub(super) async fn cloud_init(
        &self,
        vmi: Vec<u8>,
        data: &[u8],
        no_cloud: &[u8],
    ) -> Result<(Vec<u8>, Vec<u8>), Status> {
        let vmi = text(vmi, "VMI")?;
        let documents = cloud_init::decode(data, no_cloud).map_err(status::invalid)?;
        let (invocation, _turn) = self.begin(&vmi, None).await?;
        let chain = &self.0.chain;
        let (documents, _) = chain
            .pre_cloud_init_iso(&invocation, &vmi, documents)
            .await
            .map_err(|error| status::of(&error))?;
        let (data, source) = cloud_init::encode(documents).map_err(Status::internal)?;
        self.fits(&[&data, &source])?;
        Ok((data, source))
    }

    /// Shutdown hooks, once however often it is asked for, and then the end of serving. What goes
    /// wrong is logged and no more: KubeVirt's launcher would leave the sidecars that come after
    /// this one without their Shutdown.
    pub(super) async fn shutdown(&self) {
        self.0.shut_down.get_or_init(|| self.run_shutdown()).await;
        self.0.ended.send_replace(true);
    }

    async fn run_shutdown(&self) {
        let invocation = Invocation {
            reason: Reason::Shutdown,
            ..self.last()
        };
        let runs = self.0.chain.shutdown(&invocation).await;
        let failed = runs.iter().filter(|run| run.outcome != Outcome::Ok).count();
        tracing::info!(hooks = runs.len(), failed, "hooks were shut down");
    }

    fn last(&self) -> Invocation {
        let last = self.0.last.read();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Done when shutdown hooks are.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let mut ended = self.0.ended.subscribe();
        async move {
            // The sender lives as long as the calls do; without it, it is over too.
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    /// This call's turn, once the hooks that KubeVirt does not know to call agree.
    async fn begin(
        &self,
        vmi: &str,
        reason: Option<Reason>,
    ) -> Result<(Invocation, tokio::sync::MutexGuard<'_, ()>), Status> {
        let invocation = subject::subject(vmi, reason).map_err(status::invalid)?;
        let turn = self.0.turn.lock().await;
        invocation.clone_into(&mut self.0.last.write().unwrap_or_else(PoisonError::into_inner));
        let agreed = self.0.chain.pre_start(&invocation, vmi).await;
        agreed.map_err(|error| status::of(&error))?;
        Ok((invocation, turn))
    }

    fn fits(&self, texts: &[&[u8]]) -> Result<(), Status> {
        let size = texts.iter().map(|text| text.len()).sum::<usize>() + WRAPPING;
        if size <= self.0.limit {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!(
            "the hooks made an answer of {size} bytes, more than the {} a launcher takes",
            self.0.limit
        )))
    }
}

fn text(bytes: Vec<u8>, what: &str) -> Result<String, Status> {
    String::from_utf8(bytes).map_err(|error| status::invalid(format!("the {what}: {error}")))
}
