//! Byte-fair deficit round-robin over the links of a node: the same number of bytes for each, without draws
//! and without a division.
//!
//! For an output node, each link has an account. A packet of `b` bytes raises the level by `b`, what its link
//! has by `b` times the number of links that it could have taken, and what those have that it could not take
//! by `b`. So the accounts rise as fast as the level on average, to the last bit and for ever, and a link
//! that is not above the level is always among them. Who takes only such links gives none of them more than
//! its share and a packet; who was left out, because it leads nowhere or has no room, is owed nothing.
//!
//! Accounts for all output nodes together would make links as even, but not what goes on from an intermediate
//! to one output node: where packets for two nodes alternate, one can take the links of even numbers and the
//! other those of odd ones for ever.
//!
//! There are accounts for a few output nodes at a time, as few are sent more at a time than goes directly;
//! those for others are lent to one that needs them when they have not been used for a while. Without
//! accounts links are taken in turn.

/// For so many output nodes there are accounts.
const BOOKS: usize = 16;
/// After so long without use accounts can be lent to another output node.
const IDLE_NS: u64 = 10_000_000;
/// The longest packet that is put down as what it is, so that accounts do not overflow.
const MAX_BYTES: u32 = 0xffff;

/// The accounts of one output node.
#[derive(Clone, Debug)]
struct Book {
    owner: u32,
    level: u32,
    used_ns: u64,
}

const NOBODY: u32 = u32::MAX;

/// Which accounts, until the next call of [`Turns::book`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At(u16);

impl At {
    /// To remember.
    pub(crate) const fn place(self) -> u16 {
        self.0
    }
}

/// The accounts of the links that packets are spread over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    links: usize,
    books: Vec<Book>,
    /// The links of the first book, those of the second, ...
    accounts: Vec<u32>,
    next: u16,
}

impl Turns {
    /// Begins anew, for so many output nodes over so many links.
    pub(crate) fn reset(&mut self, outputs: usize, links: usize) {
        self.links = links;
        self.books.clear();
        self.books.resize(outputs.min(BOOKS), Book { owner: NOBODY, level: 0, used_ns: 0 });
        self.accounts.clear();
        self.accounts.resize(self.books.len() * links, 0);
        self.next = 0;
    }
    /// The accounts of an output node, which had those at `last`; none if others need them all.
    #[inline]
    pub(crate) fn book(&mut self, last: u16, output: u32, now_ns: u64) -> Option<At> {
        if let Some(book) = self.books.get_mut(usize::from(last))
            && book.owner == output
        {
            book.used_ns = now_ns;
            return Some(At(last));
        }
        self.lend(output, now_ns)
    }
    #[cold]
    fn lend(&mut self, output: u32, now_ns: u64) -> Option<At> {
        let at = self.next;
        self.next = if usize::from(at) + 1 < self.books.len() { at + 1 } else { 0 };
        let book = self.books.get_mut(usize::from(at))?;
        if book.owner != NOBODY && now_ns.saturating_sub(book.used_ns) < IDLE_NS {
            return None;
        }
        *book = Book { owner: output, level: 0, used_ns: now_ns };
        let start = usize::from(at) * self.links;
        self.accounts.get_mut(start..start + self.links).unwrap_or_default().fill(0);
        Some(At(at))
    }
    /// How far a link is above the level, in bytes times links. What is not above it may be taken.
    #[inline]
    pub(crate) fn above(&self, book: Option<At>, link: u32) -> i32 {
        let Some(At(at)) = book else { return 0 };
        let account = self.accounts.get(usize::from(at) * self.links + link as usize);
        // Both wrap; they are never far apart.
        match (account, self.books.get(usize::from(at))) {
            (Some(account), Some(book)) => account.wrapping_sub(book.level) as i32,
            _ => 0,
        }
    }
    /// A packet goes.
    #[inline]
    pub(crate) fn raise(&mut self, book: Option<At>, bytes: u32) {
        if let Some(book) = book.and_then(|at| self.books.get_mut(usize::from(at.0))) {
            book.level = book.level.wrapping_add(bytes.min(MAX_BYTES));
        }
    }
    /// Puts it on the account of a link, so many times; there are no other links.
    #[inline]
    pub(crate) fn charge(&mut self, book: Option<At>, link: u32, bytes: u32, times: u32) {
        let Some(At(at)) = book.filter(|_| (link as usize) < self.links) else { return };
        if let Some(account) = self.accounts.get_mut(usize::from(at) * self.links + link as usize) {
            *account = account.wrapping_add(bytes.min(MAX_BYTES).wrapping_mul(times));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_and_level_rise_alike_and_wrap() {
        let mut turns = Turns::default();
        turns.reset(5, 3);
        let at = turns.book(0, 4, 0);
        // Link 2 is left out; the others are taken in turn.
        for round in 0..100_000 {
            for link in [0, 1, 1, 0, 0, 1] {
                turns.charge(at, link, 50_000, 2);
                turns.charge(at, 2, 50_000, 1);
                turns.raise(at, 50_000);
            }
            assert_eq!([0, 1, 2].map(|l| turns.above(at, l)), [0, 0, 0], "{round}");
        }
        turns.charge(at, 0, 700, 1);
        assert_eq!((turns.above(at, 0), turns.above(at, 1)), (700, 0));
        // No such link: nobody else pays.
        turns.charge(at, 3, 1, 1);
        let other = turns.book(0, 3, 0);
        assert!(other != at && turns.above(other, 0) == 0);
        assert_eq!(turns.above(None, 0), 0);
    }

    #[test]
    fn accounts_are_lent_to_those_who_need_them() {
        let mut turns = Turns::default();
        turns.reset(1000, 9);
        let first = turns.book(7, 500, 0).unwrap();
        turns.charge(Some(first), 2, 100, 9);
        let others: Vec<_> = (0..20).filter_map(|output| turns.book(0, output, 5)).collect();
        assert_eq!(others.len(), BOOKS - 1);
        assert_eq!((turns.book(first.0, 500, 6), turns.above(Some(first), 2)), (Some(first), 900));
        // All are in use; later none is.
        assert_eq!(turns.book(0, 600, 7), None);
        let at = (0..20).find_map(|_| turns.book(0, 600, IDLE_NS + 6)).unwrap();
        assert_eq!((turns.book(at.0, 600, IDLE_NS + 6), turns.above(Some(at), 2)), (Some(at), 0));
    }
}
