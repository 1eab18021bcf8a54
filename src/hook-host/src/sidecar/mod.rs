//! Hook sidecars: KubeVirt's own containers, spoken to in gRPC over a unix socket.
//!
//! A sidecar is asked once who it is ([`greet`]) and gets a fresh connection for every call, as
//! KubeVirt does it: sidecars may restart in between.

mod call;
mod dial;
mod greet;

pub(crate) use call::{Bounds, Sidecar, SidecarError, words};
pub(crate) use dial::channel;
pub(crate) use greet::{GreetError, greet};

/// The versions of the contract, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    V1alpha1,
    V1alpha2,
    V1alpha3,
}

impl Version {
    const ALL: [Self; 3] = [Self::V1alpha1, Self::V1alpha2, Self::V1alpha3];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V1alpha1 => "v1alpha1",
            Self::V1alpha2 => "v1alpha2",
            Self::V1alpha3 => "v1alpha3",
        }
    }

    /// The newest version that a sidecar and this host both know.
    fn newest(offered: &[String]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .rev()
            .find(|version| offered.iter().any(|o| o == version.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_spoken() {
        let newest = |offered: &[&str]| {
            let offered: Vec<_> = offered.iter().map(ToString::to_string).collect();
            Version::newest(&offered).map(Version::name)
        };
        assert_eq!(
            newest(&["v1alpha1", "v1alpha3", "v1alpha2"]),
            Some("v1alpha3")
        );
        assert_eq!(newest(&["v1alpha2", "v9"]), Some("v1alpha2"));
        assert_eq!(newest(&["v1alpha4", ""]), None);
    }
}
