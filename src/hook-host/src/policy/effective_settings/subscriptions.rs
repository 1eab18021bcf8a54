//! Resolves hook points and priorities.

use super::{ResolveError, Resolver};
use crate::{HookPoint, Subscription};

impl Resolver<'_> {
    pub(super) fn hook_points(&self) -> Result<Vec<Subscription>, ResolveError> {
        let own = &self.identity.description.hook_points;
        let content = self.yaml.map(|yaml| &yaml.content);
        let priority = content.and_then(|content| content.priority);
        let mut points: Vec<Subscription> = own
            .iter()
            .map(|own| Subscription {
                point: own.point,
                priority: priority.unwrap_or(own.priority),
            })
            .collect();
        if let Some((yaml, wanted)) = self.yaml.zip(content.and_then(|c| c.hook_points.as_ref())) {
            let mut chosen = Vec::new();
            for entry in wanted {
                let point = HookPoint::from(*entry.name.get());
                let Some(known) = points.iter().find(|known| known.point == point) else {
                    let reason = format!("the module does not know the hook point {point}");
                    return Err(yaml.wrong(entry.name.position(), reason).into());
                };
                let priority = entry.priority.unwrap_or(known.priority);
                chosen.push(Subscription { point, priority });
            }
            points = chosen;
        }
        if let Some(cap) =
            self.operator_list("allow.hookPoints", |allow| allow.hook_points.as_ref())
        {
            let allowed = |point| {
                cap.values
                    .iter()
                    .any(|known| HookPoint::from(**known) == point)
            };
            if let Some(refused) = points.iter().find(|own| !allowed(own.point)) {
                return Err(cap.refuses("hook point", refused.point.name()));
            }
        }
        Ok(points)
    }
}
