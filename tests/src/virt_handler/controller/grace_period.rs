//! How much of its grace period a guest has left.

use super::notified_domain::DomainGrace;

/// The remaining part of a grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemainingGrace {
    /// Nothing: the period is over, or there is none.
    None,
    /// All of it: the guest was not asked to shut down yet.
    NotStarted,
    /// This many seconds, at least one.
    Seconds(i64),
}

/// The VMI's own period, or else the domain's. It begins with the timestamp that the launcher sets in the metadata.
pub(super) fn remaining_grace(
    own: Option<i64>,
    domain: Option<&DomainGrace>,
    now: i64,
) -> RemainingGrace {
    let period = own.or(domain.map(|grace| grace.seconds)).unwrap_or(0);
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
            marked: false,
        };
        for (own, grace, now, left) in [
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
                remaining_grace(own, grace.as_ref(), now),
                left,
                "{own:?} {grace:?} {now}"
            );
        }
    }
}
