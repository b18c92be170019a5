//! Lists of actions by number. A copy shares what has not changed since, so that a reader's copy costs little
//! however many there are.

use crate::rule::Action;
use std::sync::Arc;

/// So many are shared together.
const CHUNK: usize = 256;

#[derive(Clone, Debug, Default)]
pub(crate) struct Lists(Vec<Arc<Vec<Arc<[Action]>>>>);

impl Lists {
    /// The list with a number; none: it is empty.
    pub(crate) fn get(&self, number: u32) -> &[Action] {
        let chunk = self.0.get(number as usize / CHUNK);
        chunk.and_then(|chunk| chunk.get(number as usize % CHUNK)).map_or(&[], |list| list)
    }

    /// Sets one that is there, or the next.
    pub(crate) fn set(&mut self, number: u32, list: Arc<[Action]>) {
        let (chunk, at) = (number as usize / CHUNK, number as usize % CHUNK);
        if chunk == self.0.len() {
            self.0.push(Arc::default());
        }
        let chunk = Arc::make_mut(&mut self.0[chunk]);
        if at == chunk.len() { chunk.push(list) } else { chunk[at] = list }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_its_lists_and_shares_the_others() {
        let mut lists = Lists::default();
        (0..3 * CHUNK as u32).for_each(|n| lists.set(n, [Action::Mark(n)].into()));
        let copy = lists.clone();
        lists.set(300, [Action::Drop].into());
        assert_eq!((copy.get(300), lists.get(300)), (&[Action::Mark(300)][..], &[Action::Drop][..]));
        assert_eq!((lists.get(299), lists.get(3 * CHUNK as u32)), (&[Action::Mark(299)][..], &[][..]));
        let shared = copy.0.iter().zip(&lists.0).filter(|(a, b)| Arc::ptr_eq(a, b));
        assert_eq!(shared.count(), 2);
    }
}
