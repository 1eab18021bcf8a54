//! The gRPC services of the plugin front end: DomainHookService of KubeVirt v1.9, and its new name in v1.10,
//! LauncherHookService.

use proto::hooks::plugins::v1alpha1::domain_hook_service_server::DomainHookService;
use proto::hooks::plugins::v1alpha1::launcher_hook_service_server::LauncherHookService;
use proto::hooks::plugins::v1alpha1::{
    GuestDefinitionRequest, GuestDefinitionResponse, MutateDomainRequest, MutateDomainResponse,
    SidecarContext,
};
use tonic::{Request, Response, Status, async_trait};

use super::chain_service::ChainService;
use super::grpc_status;
use crate::Reason;

/// The only domain type that KubeVirt sends.
const DOMAIN_TYPE: &str = "libvirt";

/// A chain as a plugin's sidecar.
#[derive(Clone)]
pub(super) struct PluginService {
    chain: ChainService,
}

impl PluginService {
    pub(super) fn new(chain: ChainService) -> Self {
        Self { chain }
    }

    async fn change_domain(
        &self,
        domain_type: &str,
        domain: Vec<u8>,
        vmi: Vec<u8>,
        context: Option<SidecarContext>,
    ) -> Result<Vec<u8>, Status> {
        if domain_type != DOMAIN_TYPE {
            let what = format!("a domain of type {domain_type:?}; hooks here know {DOMAIN_TYPE:?}");
            return Err(grpc_status::invalid_request(what));
        }
        let context = context.unwrap_or_default().invocation_context;
        let reason = parse_reason(&context).map_err(grpc_status::invalid_request)?;
        self.chain.on_define_domain(reason, vmi, domain).await
    }
}

#[async_trait]
impl DomainHookService for PluginService {
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
        let change = self.change_domain(&domain_type, domain, vmi, sidecar_context);
        let domain = change.await?;
        Ok(Response::new(MutateDomainResponse { domain }))
    }
}

#[async_trait]
impl LauncherHookService for PluginService {
    async fn guest_definition(
        &self,
        request: Request<GuestDefinitionRequest>,
    ) -> Result<Response<GuestDefinitionResponse>, Status> {
        let GuestDefinitionRequest {
            domain_type,
            domain,
            vmi,
            sidecar_context,
        } = request.into_inner();
        let change = self.change_domain(&domain_type, domain, vmi, sidecar_context);
        let domain = change.await?;
        Ok(Response::new(GuestDefinitionResponse { domain }))
    }
}

/// Parses KubeVirt's `InvocationContext`. An empty one is `None`, and an unknown one is an error.
fn parse_reason(context: &str) -> Result<Option<Reason>, String> {
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
    fn only_kubevirts_invocation_contexts_are_accepted() {
        assert_eq!(parse_reason("Boot"), Ok(Some(Reason::Boot)));
        assert_eq!(
            parse_reason("MigrationTarget"),
            Ok(Some(Reason::MigrationTarget))
        );
        assert_eq!(parse_reason(""), Ok(None));
        assert!(parse_reason("MigrationSource").is_err());
    }
}
