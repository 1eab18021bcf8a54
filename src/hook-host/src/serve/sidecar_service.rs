//! The gRPC services of the hook sidecar front end: Info, and Callbacks in three versions.

use proto::hooks::info::info_server::Info;
use proto::hooks::info::{HookPoint as InfoHookPoint, InfoParams, InfoResult};
use proto::hooks::{v1alpha1, v1alpha2, v1alpha3};
use tonic::{Request, Response, Status, async_trait};

use super::chain_service::ChainService;
use crate::HookPoint;

const VERSIONS: [&str; 3] = ["v1alpha1", "v1alpha2", "v1alpha3"];

/// A chain that is served as one hook sidecar.
#[derive(Clone)]
pub(super) struct SidecarService {
    chain: ChainService,
    info: InfoResult,
}

impl SidecarService {
    pub(super) fn new(chain: ChainService, name: &str) -> Self {
        let hook_points = subscriptions(&chain.hook_points());
        let info = InfoResult {
            name: name.to_owned(),
            versions: VERSIONS.map(str::to_owned).to_vec(),
            hook_points: hook_points
                .into_iter()
                .map(|(point, priority)| InfoHookPoint {
                    name: point.name().to_owned(),
                    priority,
                })
                .collect(),
        };
        Self { chain, info }
    }
}

/// The hook points in Info. Shutdown is always included, since it tells a sidecar that it is no
/// longer needed. OnDefineDomain is also included for hooks that subscribe to PreStart, which KubeVirt does not have.
fn subscriptions(hook_points: &[(HookPoint, i32)]) -> Vec<(HookPoint, i32)> {
    let priority = |point| {
        hook_points
            .iter()
            .find(|(hook_point, _)| *hook_point == point)
            .map(|(_, priority)| *priority)
    };
    let define_priority = priority(HookPoint::OnDefineDomain).or(priority(HookPoint::PreStart));
    let subscriptions = [
        (
            HookPoint::PreCloudInitIso,
            priority(HookPoint::PreCloudInitIso),
        ),
        (HookPoint::OnDefineDomain, define_priority),
        (
            HookPoint::Shutdown,
            priority(HookPoint::Shutdown).or(Some(0)),
        ),
    ];
    let subscriptions = subscriptions.into_iter();
    subscriptions
        .filter_map(|(point, priority)| Some((point, priority?)))
        .collect()
}

#[async_trait]
impl Info for SidecarService {
    async fn info(&self, _: Request<InfoParams>) -> Result<Response<InfoResult>, Status> {
        Ok(Response::new(self.info.clone()))
    }
}

// The versions have the same messages with different Rust types. `async_trait` must see the functions
// themselves, so each macro expands to a whole impl.
macro_rules! callbacks {
    ($version:ident { $($more:tt)* }) => {
        #[async_trait]
        impl $version::callbacks_server::Callbacks for SidecarService {
            async fn on_define_domain(
                &self,
                request: Request<$version::OnDefineDomainParams>,
            ) -> Result<Response<$version::OnDefineDomainResult>, Status> {
                let $version::OnDefineDomainParams { domain_xml, vmi } = request.into_inner();
                let domain_xml = self.chain.on_define_domain(None, vmi, domain_xml).await?;
                Ok(Response::new($version::OnDefineDomainResult { domain_xml }))
            }

            $($more)*
        }
    };
}

macro_rules! callbacks_with_cloud_init {
    ($version:ident { $($more:tt)* }) => {
        callbacks!($version {
            async fn pre_cloud_init_iso(
                &self,
                request: Request<$version::PreCloudInitIsoParams>,
            ) -> Result<Response<$version::PreCloudInitIsoResult>, Status> {
                let $version::PreCloudInitIsoParams {
                    cloud_init_no_cloud_source: source,
                    vmi,
                    cloud_init_data: data,
                } = request.into_inner();
                let (cloud_init_data, cloud_init_no_cloud_source) =
                    self.chain.cloud_init(vmi, &data, &source).await?;
                Ok(Response::new($version::PreCloudInitIsoResult {
                    cloud_init_no_cloud_source,
                    cloud_init_data,
                }))
            }

            $($more)*
        });
    };
}

callbacks!(v1alpha1 {});
callbacks_with_cloud_init!(v1alpha2 {});
callbacks_with_cloud_init!(v1alpha3 {
    async fn shutdown(
        &self,
        _: Request<v1alpha3::ShutdownParams>,
    ) -> Result<Response<v1alpha3::ShutdownResult>, Status> {
        self.chain.shutdown().await;
        Ok(Response::new(v1alpha3::ShutdownResult {}))
    }
});

#[cfg(test)]
mod tests {
    use super::*;

    fn info_points(hook_points: &[(HookPoint, i32)]) -> Vec<(&'static str, i32)> {
        let subscriptions = subscriptions(hook_points).into_iter();
        subscriptions
            .map(|(point, priority)| (point.name(), priority))
            .collect()
    }

    #[test]
    fn info_has_only_hook_points_that_launchers_have() {
        assert_eq!(info_points(&[]), [("Shutdown", 0)]);
        assert_eq!(
            info_points(&[(HookPoint::PreStart, 7)]),
            [("OnDefineDomain", 7), ("Shutdown", 0)]
        );
        let all = HookPoint::ALL.map(|point| (point, 3));
        assert_eq!(
            info_points(&all),
            [
                ("PreCloudInitIso", 3),
                ("OnDefineDomain", 3),
                ("Shutdown", 3)
            ]
        );
    }
}
