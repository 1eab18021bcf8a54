//! The gRPC services of a sidecar.

use proto::hooks::info::info_server::Info;
use proto::hooks::info::{HookPoint, InfoParams, InfoResult};
use proto::hooks::plugins::v1alpha1::domain_hook_service_server::DomainHookService;
use proto::hooks::plugins::v1alpha1::{MutateDomainRequest, MutateDomainResponse};
use proto::hooks::{v1alpha1, v1alpha2, v1alpha3};
use tonic::{Request, Response, Status};

use super::{Sidecar, rewrite};

#[tonic::async_trait]
impl Info for Sidecar {
    async fn info(&self, _request: Request<InfoParams>) -> Result<Response<InfoResult>, Status> {
        let point = |(name, priority): &(&str, i32)| HookPoint {
            name: (*name).to_owned(),
            priority: *priority,
        };
        Ok(Response::new(InfoResult {
            name: self.name.clone(),
            versions: self.versions.iter().map(ToString::to_string).collect(),
            hook_points: self.hook_points.iter().map(point).collect(),
        }))
    }
}

#[tonic::async_trait]
impl v1alpha1::callbacks_server::Callbacks for Sidecar {
    async fn on_define_domain(
        &self,
        request: Request<v1alpha1::OnDefineDomainParams>,
    ) -> Result<Response<v1alpha1::OnDefineDomainResult>, Status> {
        let domain_xml = self.rewrite_domain("v1alpha1", request.into_inner().domain_xml)?;
        Ok(Response::new(v1alpha1::OnDefineDomainResult { domain_xml }))
    }
}

/// Implements a version that has `OnDefineDomain` and `PreCloudInitIso`, with further methods.
macro_rules! callbacks {
    ($version:ident { $($shutdown:tt)* }) => {
        #[tonic::async_trait]
        impl $version::callbacks_server::Callbacks for Sidecar {
            async fn on_define_domain(
                &self,
                request: Request<$version::OnDefineDomainParams>,
            ) -> Result<Response<$version::OnDefineDomainResult>, Status> {
                let domain_xml = self.rewrite_domain(stringify!($version), request.into_inner().domain_xml)?;
                Ok(Response::new($version::OnDefineDomainResult { domain_xml }))
            }

            async fn pre_cloud_init_iso(
                &self,
                request: Request<$version::PreCloudInitIsoParams>,
            ) -> Result<Response<$version::PreCloudInitIsoResult>, Status> {
                let params = request.into_inner();
                let cloud_init_data = self.cloud_init(stringify!($version), params.cloud_init_data)?;
                let cloud_init_no_cloud_source = params.cloud_init_no_cloud_source;
                Ok(Response::new($version::PreCloudInitIsoResult { cloud_init_no_cloud_source, cloud_init_data }))
            }

            $($shutdown)*
        }
    };
}

callbacks!(v1alpha2 {});

callbacks!(v1alpha3 {
    async fn shutdown(
        &self,
        _request: Request<v1alpha3::ShutdownParams>,
    ) -> Result<Response<v1alpha3::ShutdownResult>, Status> {
        self.log_call("v1alpha3", "Shutdown");
        Ok(Response::new(v1alpha3::ShutdownResult {}))
    }
});

#[tonic::async_trait]
impl DomainHookService for Sidecar {
    async fn mutate_domain(
        &self,
        request: Request<MutateDomainRequest>,
    ) -> Result<Response<MutateDomainResponse>, Status> {
        let MutateDomainRequest {
            domain,
            sidecar_context,
            ..
        } = request.into_inner();
        let context = sidecar_context.unwrap_or_default().invocation_context;
        self.log_call(&context, "MutateDomain");
        let domain = rewrite(&self.domain, domain)?;
        Ok(Response::new(MutateDomainResponse { domain }))
    }
}
