//! Whose turn is next on a thread of a crew.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How many routers' turns it is known in advance whose they are, where routers get their shares.
const AHEAD: usize = 5;

/// The routers that run next.
pub(super) enum Ready {
    /// In the order in which they got work.
    InTurn(Vec<u32>),
    /// The one first that has used the least of its share.
    LeastUsed(LeastUsed),
}

/// Routers by what they have used of their shares. The first few are apart, so that it is known, while one
/// runs, which come next.
#[derive(Default)]
pub(super) struct LeastUsed {
    /// Those with the least, in order; none of the others has less.
    first: VecDeque<(u64, u32)>,
    others: BinaryHeap<Reverse<(u64, u32)>>,
}

impl LeastUsed {
    pub(super) fn push(&mut self, pass: u64, router: u32) {
        let at = self.first.partition_point(|one| *one < (pass, router));
        if at == self.first.len() {
            return self.others.push(Reverse((pass, router)));
        }
        self.first.insert(at, (pass, router));
        if self.first.len() > AHEAD {
            self.others.extend(self.first.pop_back().map(Reverse));
        }
    }
    pub(super) fn pop(&mut self) -> Option<u32> {
        let router = self.first.pop_front().or_else(|| self.others.pop().map(|Reverse(one)| one))?.1;
        while self.first.len() < AHEAD
            && let Some(Reverse(one)) = self.others.pop()
        {
            self.first.push_back(one);
        }
        Some(router)
    }
}

impl Ready {
    pub(super) fn push(&mut self, pass: u64, router: u32) {
        match self {
            Ready::InTurn(all) => all.push(router),
            Ready::LeastUsed(all) => all.push(pass, router),
        }
    }
    pub(super) fn len(&self) -> usize {
        match self {
            Ready::InTurn(all) => all.len(),
            Ready::LeastUsed(all) => all.first.len() + all.others.len(),
        }
    }
    /// Moves those whose turn it is to `turns`, which is empty: all, or the one that has used the least. What
    /// came for the others waits, so that who uses too much loses packets before any work is done for them.
    pub(super) fn take(&mut self, turns: &mut Vec<u32>) {
        match self {
            Ready::InTurn(all) => std::mem::swap(all, turns),
            Ready::LeastUsed(all) => turns.extend(all.pop()),
        }
    }
    /// The router whose turn it is after so many others, if all keep waiting.
    pub(super) fn after(&self, others: usize) -> Option<u32> {
        match self {
            Ready::InTurn(all) => all.get(others).copied(),
            Ready::LeastUsed(all) => all.first.get(others).map(|one| one.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_used_the_least_is_next_whenever_it_comes() {
        let mut ready = LeastUsed::default();
        let mut random = 7u64;
        let mut waiting = BinaryHeap::new();
        for router in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let pass = random >> 56;
            ready.push(pass, router);
            waiting.push(Reverse((pass, router)));
            if random >> 40 & 3 == 0 {
                assert_eq!(ready.pop(), waiting.pop().map(|Reverse(one)| one.1));
            }
            assert!(ready.first.len() <= AHEAD);
            assert_eq!(ready.first.len() + ready.others.len(), waiting.len());
        }
        while let Some(Reverse((_, router))) = waiting.pop() {
            assert_eq!(ready.pop(), Some(router));
            // Those of whom it is known that they are next are next.
            assert!(
                waiting.is_empty()
                    || ready.first.front().map(|one| one.1) == waiting.peek().map(|one| one.0.1)
            );
        }
        assert_eq!(ready.pop(), None);
    }
}
