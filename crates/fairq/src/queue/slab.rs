//! Nodes by number, and lists that run through them.
//!
//! A node may be on several lists at once, one for each tag; being taken out of the middle costs the
//! same as being taken off an end.

use std::{
    marker::PhantomData,
    ops::{Index, IndexMut},
};

/// The number of no node.
pub(crate) const NIL: u32 = u32::MAX;

/// Nodes by number; the numbers of removed ones are given again.
#[derive(Debug)]
pub(crate) struct Slab<N> {
    nodes: Vec<Slot<N>>,
    free: u32,
}

#[derive(Debug)]
enum Slot<N> {
    Free(u32),
    Used(N),
}

impl<N> Slab<N> {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: NIL,
        }
    }

    pub(crate) fn insert(&mut self, node: N) -> u32 {
        if self.free == NIL {
            let number =
                u32::try_from(self.nodes.len()).expect("the queue's limits fit in 32 bits");
            self.nodes.push(Slot::Used(node));
            return number;
        }
        let number = self.free;
        let slot = &mut self.nodes[number as usize];
        if let Slot::Free(next) = *slot {
            self.free = next;
        }
        *slot = Slot::Used(node);
        number
    }

    pub(crate) fn remove(&mut self, number: u32) -> N {
        let slot = std::mem::replace(&mut self.nodes[number as usize], Slot::Free(self.free));
        self.free = number;
        match slot {
            Slot::Used(node) => node,
            Slot::Free(_) => unreachable!("a node is removed once"),
        }
    }
}

impl<N> Index<u32> for Slab<N> {
    type Output = N;

    fn index(&self, number: u32) -> &N {
        match &self.nodes[number as usize] {
            Slot::Used(node) => node,
            Slot::Free(_) => unreachable!("numbers of removed nodes are not kept"),
        }
    }
}

impl<N> IndexMut<u32> for Slab<N> {
    fn index_mut(&mut self, number: u32) -> &mut N {
        match &mut self.nodes[number as usize] {
            Slot::Used(node) => node,
            Slot::Free(_) => unreachable!("numbers of removed nodes are not kept"),
        }
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

/// The two ends of a list.
pub(crate) struct List<Tag> {
    head: u32,
    tail: u32,
    tag: PhantomData<Tag>,
}

impl<Tag> Default for List<Tag> {
    fn default() -> Self {
        Self {
            head: NIL,
            tail: NIL,
            tag: PhantomData,
        }
    }
}

impl<Tag> List<Tag> {
    pub(crate) const fn head(&self) -> Option<u32> {
        if self.head == NIL {
            None
        } else {
            Some(self.head)
        }
    }

    pub(crate) const fn tail(&self) -> Option<u32> {
        if self.tail == NIL {
            None
        } else {
            Some(self.tail)
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.head == NIL
    }

    pub(crate) fn next<N: Linked<Tag>>(slab: &Slab<N>, number: u32) -> Option<u32> {
        let next = slab[number].link().next;
        (next != NIL).then_some(next)
    }

    pub(crate) fn push_back<N: Linked<Tag>>(&mut self, slab: &mut Slab<N>, number: u32) {
        self.insert_before(slab, number, None);
    }

    pub(crate) fn push_front<N: Linked<Tag>>(&mut self, slab: &mut Slab<N>, number: u32) {
        self.insert_before(slab, number, self.head());
    }

    /// Puts a node before another, or at the end.
    pub(crate) fn insert_before<N: Linked<Tag>>(
        &mut self,
        slab: &mut Slab<N>,
        number: u32,
        other: Option<u32>,
    ) {
        let next = other.unwrap_or(NIL);
        let prev = match other {
            Some(other) => slab[other].link().prev,
            None => self.tail,
        };
        let link = slab[number].link_mut();
        link.prev = prev;
        link.next = next;
        match prev {
            NIL => self.head = number,
            prev => slab[prev].link_mut().next = number,
        }
        match next {
            NIL => self.tail = number,
            next => slab[next].link_mut().prev = number,
        }
    }

    /// Takes out a node that is on this list.
    pub(crate) fn remove<N: Linked<Tag>>(&mut self, slab: &mut Slab<N>, number: u32) {
        let Link { prev, next, .. } = std::mem::take(slab[number].link_mut());
        match prev {
            NIL => self.head = next,
            prev => slab[prev].link_mut().next = next,
        }
        match next {
            NIL => self.tail = prev,
            next => slab[next].link_mut().prev = prev,
        }
    }

    /// Sends the first node to the end.
    pub(crate) fn rotate<N: Linked<Tag>>(&mut self, slab: &mut Slab<N>) {
        if self.head != self.tail {
            let first = self.head;
            self.remove(slab, first);
            self.push_back(slab, first);
        }
    }
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
        fn as_a_deque(steps in prop::collection::vec((0_u8..5, 0_usize..8), 0..200)) {
            let mut slab = Slab::new();
            let mut list = List::default();
            let mut model = VecDeque::new();
            for (what, place) in steps {
                match what {
                    0 | 1 => {
                        let number = slab.insert(Node::default());
                        if what == 0 {
                            list.push_back(&mut slab, number);
                            model.push_back(number);
                        } else {
                            list.push_front(&mut slab, number);
                            model.push_front(number);
                        }
                    }
                    2 => {
                        list.rotate(&mut slab);
                        if !model.is_empty() {
                            model.rotate_left(1);
                        }
                    }
                    3 if place < model.len() => {
                        let number = slab.insert(Node::default());
                        list.insert_before(&mut slab, number, Some(model[place]));
                        model.insert(place, number);
                    }
                    4 if place < model.len() => {
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
