//! The remaining grace period of a guest.

use super::notified_domain::DomainGrace;

/// The remaining part of a grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemainingGrace {
    /// None is left: the period is over, or there is no grace period.
    None,
    /// All of it is left: the guest was not asked to shut down yet.
    NotStarted,
    /// This many seconds are left, at least one.
    Seconds(i64),
}

/// The remainder of the VMI's grace period, or of the domain's if the VMI has none. The period begins with the
/// timestamp that the launcher sets in the metadata.
pub(super) fn remaining_grace(
    vmi_grace_period: Option<i64>,
    domain: Option<&DomainGrace>,
    now: i64,
) -> RemainingGrace {
    let period = vmi_grace_period
        .or(domain.map(|grace| grace.seconds))
        .unwrap_or(0);
    if period == 0 {
        return RemainingGrace::None;
    }
    let Some(begin) = domain.and_then(|grace| grace.begin) else {
        return RemainingGrace::NotStarted;
    };
    let passed = now - begin;
    if passed >= period {
        RemainingGrace::None
    } else {
        RemainingGrace::Seconds((period - passed).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_period_begins_at_the_launchers_timestamp() {
        let domain = |seconds, begin| DomainGrace {
            seconds,
            begin,
            marked_for_shutdown: false,
        };
        for (vmi_grace_period, grace, now, remaining) in [
            (None, None, 0, RemainingGrace::None),
            (Some(0), Some(domain(30, Some(1))), 2, RemainingGrace::None),
            (
                Some(10),
                Some(domain(30, None)),
                2,
                RemainingGrace::NotStarted,
            ),
            (None, Some(domain(30, None)), 2, RemainingGrace::NotStarted),
            (
                Some(10),
                Some(domain(30, Some(100))),
                100,
                RemainingGrace::Seconds(10),
            ),
            (
                Some(10),
                Some(domain(30, Some(100))),
                109,
                RemainingGrace::Seconds(1),
            ),
            (
                Some(10),
                Some(domain(30, Some(100))),
                110,
                RemainingGrace::None,
            ),
            (
                None,
                Some(domain(30, Some(100))),
                110,
                RemainingGrace::Seconds(20),
            ),
        ] {
            assert_eq!(
                remaining_grace(vmi_grace_period, grace.as_ref(), now),
                remaining,
                "{vmi_grace_period:?} {grace:?} {now}"
            );
        }
    }
}
