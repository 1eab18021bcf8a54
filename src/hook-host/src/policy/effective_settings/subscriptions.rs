//! Resolves the hook points and priorities of a hook.

use super::{ResolveError, Resolver};
use crate::{HookPoint, Subscription};

impl Resolver<'_> {
    pub(super) fn hook_points(&self) -> Result<Vec<Subscription>, ResolveError> {
        let declared = &self.identity.description.hook_points;
        let content = self.yaml.map(|yaml| &yaml.content);
        let priority = content.and_then(|content| content.priority.as_ref());
        let priority = priority.map(|priority| *priority.get());
        let mut points: Vec<Subscription> = declared
            .iter()
            .map(|subscription| Subscription {
                point: subscription.point,
                priority: priority.unwrap_or(subscription.priority),
            })
            .collect();
        if let Some((yaml, overrides)) = self.yaml.zip(content.and_then(|c| c.hook_points.as_ref()))
        {
            let mut chosen = Vec::new();
            for entry in overrides.get() {
                let point = HookPoint::from(*entry.name.get());
                let Some(subscription) = points.iter().find(|known| known.point == point) else {
                    let reason = format!("the module does not know the hook point {point}");
                    return Err(yaml.error_at(entry.name.position(), reason).into());
                };
                let priority = entry.priority.unwrap_or(subscription.priority);
                chosen.push(Subscription { point, priority });
            }
            points = chosen;
        }
        if let Some(allowed) =
            self.operator_list("allow.hookPoints", |allow| allow.hook_points.as_ref())
        {
            let is_allowed = |point| {
                allowed
                    .values
                    .iter()
                    .any(|allowed| HookPoint::from(**allowed) == point)
            };
            if let Some(refused) = points
                .iter()
                .find(|subscription| !is_allowed(subscription.point))
            {
                return Err(allowed.refuses("hook point", refused.point.name()));
            }
        }
        Ok(points)
    }
}
