//! The versions of KubeVirt's hook protocol.

/// The protocol versions, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    V1alpha1,
    V1alpha2,
    V1alpha3,
}

impl Version {
    pub(super) const ALL: [Self; 3] = [Self::V1alpha1, Self::V1alpha2, Self::V1alpha3];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V1alpha1 => "v1alpha1",
            Self::V1alpha2 => "v1alpha2",
            Self::V1alpha3 => "v1alpha3",
        }
    }

    /// The newest version that a sidecar and this host both know.
    pub(super) fn newest(offered: &[String]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .rev()
            .find(|version| offered.iter().any(|name| name == version.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_selected() {
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
