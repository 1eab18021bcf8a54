//! The requests in resource claims that a VMI's devices and networks refer to.

use kubevirt_api::vmi::Vmi;

/// A request in a resource claim that a device or network of the VMI refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimedRequest {
    /// The claim's name in `spec.resourceClaims`.
    pub claim: String,
    /// The request in the claim.
    pub request: String,
    /// The directory of the device metadata, relative to the directory that the kubelet mounts.
    pub directory: String,
}

/// The requests of the VMI's devices and networks, without duplicates. Claims that are not listed in
/// `spec.resourceClaims` and names that are not safe in a path are left out.
pub fn claimed_requests(vmi: &Vmi) -> Vec<ClaimedRequest> {
    let devices = &vmi.spec.domain.devices;
    let gpus = devices.gpus.iter();
    let gpus = gpus.map(|gpu| (gpu.claim_name.as_deref(), gpu.request_name.as_deref()));
    let others = devices.host_devices.iter();
    let others =
        others.map(|device| (device.claim_name.as_deref(), device.request_name.as_deref()));
    let networks = vmi.spec.networks.iter();
    let networks = networks.filter_map(|network| network.resource_claim.as_ref());
    let networks = networks.map(|claim| (Some(&*claim.claim_name), Some(&*claim.request_name)));
    let mut requests: Vec<_> = gpus
        .chain(others)
        .chain(networks)
        .filter_map(|(claim, request)| claimed_request(vmi, claim?, request?))
        .collect();
    requests.sort();
    requests.dedup();
    requests
}

fn claimed_request(vmi: &Vmi, claim: &str, request: &str) -> Option<ClaimedRequest> {
    let mut claims = vmi.spec.resource_claims.iter();
    let listed = claims.find(|listed| listed.name == claim)?;
    let object_name = listed.resource_claim_name.as_deref();
    let (kind, name) = match object_name.filter(|name| !name.is_empty()) {
        Some(name) => ("resourceclaims", name),
        None => ("resourceclaimtemplates", claim),
    };
    (is_safe_name(name) && is_safe_name(request)).then(|| ClaimedRequest {
        claim: claim.to_owned(),
        request: request.to_owned(),
        directory: format!("{kind}/{name}/{request}"),
    })
}

fn is_safe_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_request_has_the_directory_of_its_metadata() {
        let vmi = json!({"metadata": {"name": "vm"}, "spec": {
            "domain": {"devices": {
                "gpus": [{"name": "g", "claimName": "a", "requestName": "gpu"},
                         {"name": "h", "claimName": "a", "requestName": "gpu"},
                         {"name": "i", "claimName": "a", "requestName": "../../etc"}],
                "hostDevices": [{"name": "d", "claimName": "missing", "requestName": "r"}]}},
            "networks": [{"name": "n", "resourceClaim": {"claimName": "b", "requestName": "vf"}}],
            "resourceClaims": [{"name": "a", "resourceClaimName": "mine"}, {"name": "b"}]}});
        let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
        let directories: Vec<_> = claimed_requests(&vmi)
            .into_iter()
            .map(|request| request.directory)
            .collect();
        assert_eq!(
            directories,
            ["resourceclaims/mine/gpu", "resourceclaimtemplates/b/vf"]
        );
    }
}
