//! Converts NBD maps of a disk to KubeVirt's extents, in batches for the gRPC responses. Pure.
//!
//! The flags and descriptions of a full backup are those of NBD's `base:allocation`. For an incremental backup, flag 1
//! is "changed since the checkpoint" and flag 2 is "reads as zeroes".

use proto::nbd::{Extent, MapResponse};

use super::qemu_nbd_client::Map;

/// Maximum number of extents in one response.
const MAX_EXTENTS_PER_RESPONSE: usize = 512;
/// The flag of `base:allocation` for an extent that reads as zeroes.
const FLAG_ZERO: u64 = 2;

/// The meaning of the extents' flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MapKind {
    /// Which parts of the disk are allocated.
    Allocation,
    /// Which parts of the disk have changed since a checkpoint.
    Changes,
}

impl MapKind {
    fn description(self, flags: u64) -> &'static str {
        match (self, flags) {
            (MapKind::Allocation, 0) => "data",
            (MapKind::Allocation, 1) => "hole",
            (MapKind::Allocation, 2) => "zero",
            (MapKind::Allocation, 3) => "hole,zero",
            (MapKind::Changes, 0) => "clean",
            (MapKind::Changes, 1) => "dirty",
            (MapKind::Changes, 2) => "zero",
            (MapKind::Changes, 3) => "dirty,zero",
            _ => "unknown",
        }
    }
}

/// Collects extents into responses; neighbours with the same flags become one extent.
#[derive(Debug)]
pub(super) struct ExtentBatches {
    kind: MapKind,
    end: u64,
    /// Where the known map ends.
    next: u64,
    /// The latest extent, which may still grow.
    last: Option<Extent>,
    batch: Vec<Extent>,
    complete: Vec<MapResponse>,
}

impl ExtentBatches {
    /// Starts a map from `offset` to `end`, of which nothing is known yet.
    pub(super) fn new(kind: MapKind, offset: u64, end: u64) -> ExtentBatches {
        ExtentBatches {
            kind,
            end,
            next: offset,
            last: None,
            batch: Vec::new(),
            complete: Vec::new(),
        }
    }

    /// Where the known map ends.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Adds the maps of the contexts, which begin at [`ExtentBatches::next`], up to the end of the shortest map. The
    /// first map is the allocation, the second one the changes. Returns the responses that are complete.
    pub(super) fn observe(&mut self, maps: &[Map]) -> Vec<MapResponse> {
        let mut iterators: Vec<_> = maps.iter().map(|map| map.iter().copied()).collect();
        let mut current: Vec<Option<(u32, u32)>> =
            iterators.iter_mut().map(Iterator::next).collect();
        while self.next < self.end
            && let Some(parts) = current.iter().copied().collect::<Option<Vec<_>>>()
        {
            let length = parts.iter().map(|(length, _)| *length).min().unwrap_or(0);
            self.add(u64::from(length), self.flags(&parts));
            for (part, iterator) in current.iter_mut().zip(&mut iterators) {
                *part = match *part {
                    Some((left, flags)) if left > length => Some((left - length, flags)),
                    _ => iterator.next(),
                };
            }
        }
        std::mem::take(&mut self.complete)
    }

    /// The last responses.
    pub(super) fn finish(mut self) -> Vec<MapResponse> {
        self.flush_last();
        self.flush_batch();
        self.complete
    }

    fn flags(&self, parts: &[(u32, u32)]) -> u64 {
        let flags = |at: usize| parts.get(at).map_or(0, |(_, flags)| u64::from(*flags));
        match self.kind {
            MapKind::Allocation => flags(0),
            MapKind::Changes => (flags(0) & FLAG_ZERO) | flags(1),
        }
    }

    fn add(&mut self, length: u64, flags: u64) {
        let length = length.min(self.end - self.next);
        if length == 0 {
            return;
        }
        let offset = self.next;
        self.next += length;
        match &mut self.last {
            Some(last) if last.flags == flags => last.length += length,
            _ => {
                self.flush_last();
                self.last = Some(Extent {
                    offset,
                    length,
                    flags,
                    description: self.kind.description(flags).to_owned(),
                });
            }
        }
    }

    fn flush_last(&mut self) {
        self.batch.extend(self.last.take());
        if self.batch.len() >= MAX_EXTENTS_PER_RESPONSE {
            self.flush_batch();
        }
    }

    fn flush_batch(&mut self) {
        let Some(last) = self.batch.last() else {
            return;
        };
        self.complete.push(MapResponse {
            next_offset: last.offset + last.length,
            extents: std::mem::take(&mut self.batch),
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(responses: &[MapResponse]) -> Vec<String> {
        let extents = responses.iter().flat_map(|response| &response.extents);
        extents
            .map(|extent| format!("{}+{} {}", extent.offset, extent.length, extent.description))
            .collect()
    }

    #[test]
    fn neighbours_with_equal_flags_are_one_extent() {
        let mut batches = ExtentBatches::new(MapKind::Allocation, 10, 110);
        assert!(
            batches
                .observe(&[vec![(20, 0), (20, 0), (10, 3)]])
                .is_empty()
        );
        assert_eq!(batches.next(), 60);
        assert!(batches.observe(&[vec![(10, 3), (500, 2)]]).is_empty());
        assert_eq!(batches.next(), 110);
        let responses = batches.finish();
        assert_eq!(
            text(&responses),
            ["10+40 data", "50+20 hole,zero", "70+40 zero"]
        );
        assert_eq!(responses[0].next_offset, 110);
    }

    #[test]
    fn extents_end_where_the_flags_of_either_map_change() {
        let mut batches = ExtentBatches::new(MapKind::Changes, 0, 100);
        batches.observe(&[vec![(50, 0), (50, 3)], vec![(30, 0), (40, 1)]]);
        assert_eq!(batches.next(), 70, "as far as both maps reach");
        batches.observe(&[vec![(30, 3)], vec![(30, 1)]]);
        assert_eq!(
            text(&batches.finish()),
            ["0+30 clean", "30+20 dirty", "50+50 dirty,zero"]
        );
    }

    #[test]
    fn responses_have_at_most_512_extents() {
        let map: Map = (0..1300).map(|at| (1, at % 2)).collect();
        let mut batches = ExtentBatches::new(MapKind::Allocation, 0, 1300);
        let mut responses = batches.observe(&[map]);
        responses.extend(batches.finish());
        let sizes: Vec<_> = responses
            .iter()
            .map(|response| response.extents.len())
            .collect();
        assert_eq!(sizes, [512, 512, 276]);
        assert_eq!(responses[1].next_offset, 1024);
    }

    proptest! {
        /// The extents cover the range without gaps, and neighbours differ.
        #[test]
        fn every_byte_is_in_one_extent(
            allocation in proptest::collection::vec((0u32..9, 0u32..4), 1..40),
            changes in proptest::collection::vec((1u32..9, 0u32..2), 1..40),
            end in 1u64..200)
        {
            let mut batches = ExtentBatches::new(MapKind::Changes, 0, end);
            let mut responses = batches.observe(&[allocation, changes]);
            let map_end = batches.next();
            responses.extend(batches.finish());
            let extents: Vec<_> = responses.into_iter().flat_map(|response| response.extents).collect();
            let mut next = 0;
            for pair in extents.windows(2) {
                prop_assert!(pair[0].flags != pair[1].flags);
            }
            for extent in extents {
                prop_assert_eq!(extent.offset, next);
                next += extent.length;
            }
            prop_assert_eq!(next, map_end);
            prop_assert!(map_end <= end);
        }
    }
}
