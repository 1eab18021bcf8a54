use crate::HookPoint;

/// A hook's description of itself: name, version, hook points, wishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    name: String,
    version: String,
    points: Vec<(HookPoint, i32)>,
    wishes: Option<Wishes>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Wishes {
    paths: Vec<String>,
    config: Vec<String>,
    dirs: Vec<String>,
    migration: Vec<String>,
    pod: Vec<String>,
}

impl Description {
    /// A hook with priority 0 at these hook points.
    pub fn new(name: &str, version: &str, points: &[HookPoint]) -> Description {
        let points = points.iter().map(|point| (*point, 0)).collect();
        Description {
            name: name.to_owned(),
            version: version.to_owned(),
            points,
            wishes: None,
        }
    }

    /// Gives the hook another name than its crate's.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Description {
        self.name = name.into();
        self
    }

    /// Gives the hook another version than its crate's.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Description {
        self.version = version.into();
        self
    }

    /// Runs the hook before those with a lower priority, at all its hook points.
    #[must_use]
    pub fn with_priority(mut self, priority: i32) -> Description {
        self.points.iter_mut().for_each(|(_, own)| *own = priority);
        self
    }

    /// The same at one hook point.
    ///
    /// # Panics
    ///
    /// If the hook is not at this hook point, since the priority would have no effect. A description takes no input, so
    /// this happens in the hook's first test, or never.
    #[must_use]
    #[track_caller]
    pub fn with_priority_at(mut self, point: HookPoint, priority: i32) -> Description {
        let mut points = self.points.iter_mut();
        let Some((_, own)) = points.find(|(own, _)| *own == point) else {
            let name = point.name();
            panic!("with_priority_at: {name} is not in the hook's HOOK_POINTS: add it there");
        };
        *own = priority;
        self
    }

    /// The paths of the domain that the hook changes, as patterns from `/domain/` on. The host refuses
    /// every other change. A hook without paths cannot change the domain.
    #[must_use]
    pub fn with_paths<'a>(mut self, paths: impl IntoIterator<Item = &'a str>) -> Description {
        let list = &mut self.wishes.get_or_insert_default().paths;
        list.extend(paths.into_iter().map(str::to_owned));
        self
    }

    /// The configuration keys that the hook reads with [`host::config`](crate::host::config).
    #[must_use]
    pub fn with_config<'a>(mut self, keys: impl IntoIterator<Item = &'a str>) -> Description {
        let list = &mut self.wishes.get_or_insert_default().config;
        list.extend(keys.into_iter().map(str::to_owned));
        self
    }

    /// The directories that the hook reads. They are available, read-only, if the operator's policy allows them.
    #[must_use]
    pub fn with_dirs<'a>(mut self, dirs: impl IntoIterator<Item = &'a str>) -> Description {
        let list = &mut self.wishes.get_or_insert_default().dirs;
        list.extend(dirs.into_iter().map(str::to_owned));
        self
    }

    /// The parameters of a migration that the hook changes, by their names: `bandwidth`, `parallel-connections`,
    /// `allow-post-copy`, `allow-auto-converge`, `completion-timeout`, `max-downtime`.
    #[must_use]
    pub fn with_migration<'a>(
        mut self,
        parameters: impl IntoIterator<Item = &'a str>,
    ) -> Description {
        let list = &mut self.wishes.get_or_insert_default().migration;
        list.extend(parameters.into_iter().map(str::to_owned));
        self
    }

    /// The facts about the pod that the hook reads with [`pod`](crate::pod): `annotations/KEY`, `labels/KEY`,
    /// `network-status/NAMESPACE/NAME`, `default-network`, `network-info`; a `*` stands for any characters. They are
    /// given if the operator's policy allows them.
    #[must_use]
    pub fn with_pod<'a>(mut self, facts: impl IntoIterator<Item = &'a str>) -> Description {
        let list = &mut self.wishes.get_or_insert_default().pod;
        list.extend(facts.into_iter().map(str::to_owned));
        self
    }

    /// The declared paths.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn paths(&self) -> &[String] {
        self.wishes.as_ref().map_or(&[], |wishes| &wishes.paths)
    }

    /// The declared keys of the configuration.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn config_keys(&self) -> &[String] {
        self.wishes.as_ref().map_or(&[], |wishes| &wishes.config)
    }

    /// The declared facts about the pod.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn pod_facts(&self) -> &[String] {
        self.wishes.as_ref().map_or(&[], |wishes| &wishes.pod)
    }

    /// The declared parameters of a migration.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn migration(&self) -> &[String] {
        self.wishes.as_ref().map_or(&[], |wishes| &wishes.migration)
    }

    /// The JSON that the host reads. Written by hand, since a general serializer would
    /// add some 8 KB to each module.
    pub fn to_json(&self) -> String {
        let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
        let point = |(point, priority): &(HookPoint, i32)| {
            format!("{{\"name\":\"{}\",\"priority\":{priority}}}", point.name())
        };
        let points: Vec<String> = self.points.iter().map(point).collect();
        let list = |texts: &[String]| -> String {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            texts.join(",")
        };
        let wishes = |wishes: &Wishes| {
            let optional = |name: &str, texts: &[String]| match texts {
                [] => String::new(),
                texts => format!(",\"{name}\":[{}]", list(texts)),
            };
            let migration = optional("migration", &wishes.migration);
            let pod = optional("pod", &wishes.pod);
            format!(
                ",\"wishes\":{{\"paths\":[{}],\"config\":[{}],\"dirs\":[{}]{migration}{pod}}}",
                list(&wishes.paths),
                list(&wishes.config),
                list(&wishes.dirs)
            )
        };
        format!(
            "{{\"name\":{},\"version\":{},\"hookPoints\":[{}]{}}}",
            quoted(&self.name),
            quoted(&self.version),
            points.join(","),
            self.wishes.as_ref().map(wishes).unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "Shutdown is not in the hook's HOOK_POINTS")]
    fn a_priority_at_another_hook_point_is_refused() {
        let description = Description::new("smbios", "0.1.0", &[HookPoint::OnDefineDomain]);
        let _ = description.with_priority_at(HookPoint::Shutdown, 5);
    }

    #[test]
    fn description_json_has_the_members_that_the_host_reads() {
        let points = [HookPoint::OnDefineDomain, HookPoint::Shutdown];
        let description = Description::new("smbios", "0.1.0", &points)
            .with_priority(3)
            .with_priority_at(HookPoint::Shutdown, -1);
        assert_eq!(
            description.to_json(),
            r#"{"name":"smbios","version":"0.1.0","hookPoints":[{"name":"OnDefineDomain","priority":3},{"name":"Shutdown","priority":-1}]}"#
        );
        let wishes = Description::new("a", "1", &[])
            .with_paths(["/domain/title", "/domain/*[@x='\"']"])
            .with_config(["key"]);
        assert_eq!(
            wishes.to_json(),
            r#"{"name":"a","version":"1","hookPoints":[],"wishes":{"paths":["/domain/title","/domain/*[@x='\"']"],"config":["key"],"dirs":[]}}"#
        );
        let facts = Description::new("a", "1", &[]).with_pod(["labels/*", "network-info"]);
        let json = facts.to_json();
        assert!(
            json.ends_with(r#""dirs":[],"pod":["labels/*","network-info"]}}"#),
            "{json}"
        );
    }
}
