//! The plugin front end: DomainHookService.

use proto::hooks::plugins::v1alpha1::domain_hook_service_server::DomainHookService;
use proto::hooks::plugins::v1alpha1::{MutateDomainRequest, MutateDomainResponse};
use tonic::{Request, Response, Status, async_trait};

use super::chain_service::ChainService;
use super::grpc_status;
use crate::Reason;

/// The only domain type that KubeVirt v1.9 sends.
const LIBVIRT: &str = "libvirt";

/// A chain as a plugin's sidecar.
pub(super) struct Plugin {
    chain: ChainService,
}

impl Plugin {
    pub(super) fn new(chain: ChainService) -> Self {
        Self { chain }
    }
}

#[async_trait]
impl DomainHookService for Plugin {
    async fn mutate_domain(
        &self,
        request: Request<MutateDomainRequest>,
    ) -> Result<Response<MutateDomainResponse>, Status> {
        let MutateDomainRequest {
            domain_type,
            domain,
            vmi,
            sidecar_context,
        } = request.into_inner();
        if domain_type != LIBVIRT {
            let what = format!("a domain of type {domain_type:?}; hooks here know {LIBVIRT:?}");
            return Err(grpc_status::invalid(what));
        }
        let context = sidecar_context.unwrap_or_default().invocation_context;
        let reason = reason(&context).map_err(grpc_status::invalid)?;
        let domain = self.chain.define(reason, vmi, domain).await?;
        Ok(Response::new(MutateDomainResponse { domain }))
    }
}

/// Parses KubeVirt's `InvocationContext`; an unknown one is refused.
fn reason(context: &str) -> Result<Option<Reason>, String> {
    match context {
        "" => Ok(None),
        "Boot" => Ok(Some(Reason::Boot)),
        "MigrationTarget" => Ok(Some(Reason::MigrationTarget)),
        other => Err(format!(
            "an invocation context {other:?}; hooks here know Boot and MigrationTarget"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_kubevirts() {
        assert_eq!(reason("Boot"), Ok(Some(Reason::Boot)));
        assert_eq!(reason("MigrationTarget"), Ok(Some(Reason::MigrationTarget)));
        assert_eq!(reason(""), Ok(None));
        assert!(reason("MigrationSource").is_err());
    }
}
