//! Nodes by number, and lists that run through them.
//!
//! A node may be on several lists at once, one for each tag; being taken out of the middle costs the
//! same as being taken off an end.

use std::{
    marker::PhantomData,
    ops::{Index, IndexMut},
};

/// The number of no node.
const NIL: u32 = u32::MAX;

/// Nodes by numbers of 32 bits; the numbers of removed ones are given again.
pub(crate) struct Slab<N>(slab::Slab<N>);

impl<N> Slab<N> {
    pub(crate) const fn new() -> Self {
        Self(slab::Slab::new())
    }

    pub(crate) fn insert(&mut self, node: N) -> u32 {
        u32::try_from(self.0.insert(node)).expect("the queue's limits fit in 32 bits")
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn remove(&mut self, number: u32) -> N {
        self.0.remove(number as usize)
    }
}

impl<N> Index<u32> for Slab<N> {
    type Output = N;

    fn index(&self, number: u32) -> &N {
        &self.0[number as usize]
    }
}

impl<N> IndexMut<u32> for Slab<N> {
    fn index_mut(&mut self, number: u32) -> &mut N {
        &mut self.0[number as usize]
    }
}

/// Where a node stands on the list with this tag.
pub(crate) struct Link<Tag> {
    prev: u32,
    next: u32,
    tag: PhantomData<Tag>,
}

impl<Tag> Default for Link<Tag> {
    fn default() -> Self {
        Self {
            prev: NIL,
            next: NIL,
            tag: PhantomData,
        }
    }
}

/// A node that can be on a list with this tag.
pub(crate) trait Linked<Tag> {
    fn link(&self) -> &Link<Tag>;
    fn link_mut(&mut self) -> &mut Link<Tag>;
}

/// The two ends of a list: its first node is next, and its last one previous.
pub(crate) struct List<Tag>(Link<Tag>);

impl<Tag> Default for List<Tag> {
    fn default() -> Self {
        Self(Link::default())
    }
}

impl<Tag> List<Tag> {
    pub(crate) fn head(&self) -> Option<u32> {
        known(self.0.next)
    }

    pub(crate) fn tail(&self) -> Option<u32> {
        known(self.0.prev)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.next == NIL
    }

    pub(crate) fn next<N: Linked<Tag>>(slab: &Slab<N>, number: u32) -> Option<u32> {
        known(slab[number].link().next)
    }

    pub(crate) fn push_back<N: Linked<Tag>>(&mut self, slab: &mut Slab<N>, number: u32) {
        let prev = std::mem::replace(&mut self.0.prev, number);
        let link = slab[number].link_mut();
        link.prev = prev;
        link.next = NIL;
        match prev {
            NIL => self.0.next = number,
            prev => slab[prev].link_mut().next = number,
        }
    }

    /// Takes out a node that is on this list.
    pub(crate) fn remove<N: Linked<Tag>>(&mut self, slab: &mut Slab<N>, number: u32) {
        let Link { prev, next, .. } = std::mem::take(slab[number].link_mut());
        match prev {
            NIL => self.0.next = next,
            prev => slab[prev].link_mut().next = next,
        }
        match next {
            NIL => self.0.prev = prev,
            next => slab[next].link_mut().prev = prev,
        }
    }

    /// Sends the first node to the end.
    pub(crate) fn rotate<N: Linked<Tag>>(&mut self, slab: &mut Slab<N>) {
        if self.0.next != self.0.prev {
            let first = self.0.next;
            self.remove(slab, first);
            self.push_back(slab, first);
        }
    }
}

fn known(number: u32) -> Option<u32> {
    (number != NIL).then_some(number)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    struct Tag;

    #[derive(Default)]
    struct Node(Link<Tag>);

    impl Linked<Tag> for Node {
        fn link(&self) -> &Link<Tag> {
            &self.0
        }

        fn link_mut(&mut self) -> &mut Link<Tag> {
            &mut self.0
        }
    }

    fn content(list: &List<Tag>, slab: &Slab<Node>) -> VecDeque<u32> {
        let mut content = VecDeque::new();
        let mut at = list.head();
        while let Some(number) = at {
            content.push_back(number);
            at = List::next(slab, number);
        }
        assert_eq!(content.back().copied(), list.tail());
        content
    }

    proptest! {
        #[test]
        fn as_a_deque(steps in prop::collection::vec((0_u8..4, 0_usize..8), 0..200)) {
            let mut slab = Slab::new();
            let mut list = List::default();
            let mut model = VecDeque::new();
            for (what, place) in steps {
                match what {
                    0..2 => {
                        let number = slab.insert(Node::default());
                        list.push_back(&mut slab, number);
                        model.push_back(number);
                    }
                    2 => {
                        list.rotate(&mut slab);
                        if !model.is_empty() {
                            model.rotate_left(1);
                        }
                    }
                    3 if place < model.len() => {
                        let number = model.remove(place).unwrap();
                        list.remove(&mut slab, number);
                        slab.remove(number);
                    }
                    _ => {}
                }
                prop_assert_eq!(&content(&list, &slab), &model);
                prop_assert_eq!(list.is_empty(), model.is_empty());
            }
        }
    }
}
