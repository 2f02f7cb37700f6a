//! The writes of a session that have no answer yet.

use crate::jsonrpc::KeptId;
use crate::metrics::MethodClass;

/// Who is to get the answer to a write.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: KeptId,
    pub(super) class: MethodClass,
}

/// Remembers who asked, by tags that are used again. Bounded by the writes under way, which the
/// client's queue and the waiters for commits bound.
#[derive(Debug, Default)]
pub(super) struct Pending {
    places: Vec<Option<Asked>>,
    free: Vec<u32>,
}

/// Places that are kept when nothing is under way.
const KEPT_PLACES: usize = 64;

impl Pending {
    /// Keeps a place: its tag.
    pub(super) fn insert(&mut self, asked: Asked) -> u64 {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.places.push(None);
                u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
            }
        };
        if let Some(slot) = self.places.get_mut(place as usize) {
            *slot = Some(asked);
        }
        place.into()
    }

    /// Gives a place back.
    pub(super) fn remove(&mut self, tag: u64) -> Option<Asked> {
        let place = usize::try_from(tag).ok()?;
        let asked = self.places.get_mut(place)?.take()?;
        self.free.push(u32::try_from(tag).ok()?);
        if self.free.len() == self.places.len() && self.places.len() > KEPT_PLACES {
            *self = Self::default();
        }
        Some(asked)
    }

    /// Writes without an answer.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: u64) -> Asked {
        Asked {
            id: KeptId::new(&id.to_string()),
            class: MethodClass::BroadcastSync,
        }
    }

    #[test]
    fn places_are_used_again_and_given_back() {
        let mut pending = Pending::default();
        let tags: Vec<_> = (0..1_000).map(|id| pending.insert(asked(id))).collect();
        assert_eq!(pending.len(), 1_000);
        assert_eq!(pending.remove(tags[7]).unwrap().id.as_str(), "7");
        assert!(pending.remove(tags[7]).is_none());
        assert_eq!(pending.insert(asked(2_000)), tags[7]);
        for tag in tags {
            assert!(pending.remove(tag).is_some());
        }
        assert_eq!(pending.places.capacity(), 0);
        assert!(pending.remove(u64::MAX).is_none());
    }
}
