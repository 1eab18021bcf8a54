//! Resolves the facts about the pod that a hook may read.

use crate::pod_facts::{PodGrant, PodLayer, PodPattern};

use super::{AllowList, Resolver};

impl Resolver<'_> {
    /// The grant of facts. Annotations may contain secrets, so the operator must allow the facts that the module
    /// declares; `hook.yaml` only narrows. A wish that is not granted is no error here, because a hook may work without
    /// the fact: the question is denied when the hook asks.
    pub(super) fn pod(&self) -> PodGrant {
        let wishes = self.identity.description.wishes.iter();
        let declared = PodLayer {
            patterns: wishes.flat_map(|wishes| wishes.pod.clone()).collect(),
            origin: "wishes.pod in its description".to_owned(),
        };
        let owner = self.yaml.and_then(|yaml| {
            let pod = yaml.content.allow.pod.as_ref()?;
            Some(AllowList {
                values: pod.get().iter().collect(),
                origin: format!("allow.pod of {}", yaml.at(pod.position())),
            })
        });
        let operator = self.required_operator_list("allow.pod", |allow| allow.pod.as_ref());
        let recorded = self.operator_list("allow.podRecords", |allow| allow.pod_records.as_ref());
        let lists = owner.into_iter().chain([operator]);
        PodGrant {
            layers: [declared].into_iter().chain(lists.map(layer)).collect(),
            recorded: recorded
                .map(|list| layer(list).patterns)
                .unwrap_or_default(),
        }
    }
}

fn layer(list: AllowList<'_, PodPattern>) -> PodLayer {
    PodLayer {
        patterns: list.values.into_iter().cloned().collect(),
        origin: list.origin,
    }
}
