//! Which groups have their rules in the same hash tables and bits, a *store*, so that packets which come from
//! one to the other *by default* cost one look-up.
//!
//! The default of a group is its rule that matches every packet, if it is alone the last one by priority. It
//! is in no hash table: it decides where no other rule does. Where it only jumps to a later group, a *link*,
//! the rules of both groups are kept in one store. A rule's group comes before its priority in the order in
//! which rules go before others, so that a look-up finds the rule that the packet would have come to.
//!
//! A group's *way* says what a look-up that begins there sees: the store, the last group in it to which links
//! lead, and the default of that one. Ways have versions, as rules have. So what is found depends on them
//! alone, and not on which groups are in a store: others in it are not seen, and a link between groups that
//! are in different stores is followed by who looks up, as other jumps are.
//!
//! Groups come into one store as soon as a link leads from the last one of a store to the first of another;
//! the rules of the smaller are moved. They are parted again when a link is gone and as many rules have been
//! changed since as the store has: who changes a link again and again does not move many rules each time.

use crate::tuple::Found;
use crate::verdict::{Fate, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// So many groups are in one store at most: rules of all of them may have one value of a key, and a packet is
/// compared with each.
const MOST_GROUPS: usize = 32;

/// Stores with so many rules are parted at once.
const SMALL: usize = 1024;

/// What a look-up that begins at a group sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Where the rules are; nowhere if there are none.
    pub(crate) store: Option<u64>,
    /// The last group whose rules are seen.
    pub(crate) last: u32,
    /// What decides where no other rule does.
    pub(crate) default: Option<Found>,
}

/// A rule that matches every packet goes into a store, or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    In(Found),
    Out(Found),
}

/// Groups whose rules go from a store to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) groups: Vec<u32>,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Priority and number of a rule.
type Rank = (u32, u64);

#[derive(Debug, Default)]
struct Group {
    store: u64,
    rules: usize,
    /// How many rules have each priority.
    priorities: BTreeMap<u32, usize>,
    /// Those that match every packet; of these, those that are new, and the default.
    catch_alls: BTreeMap<Rank, Found>,
    new: Vec<Rank>,
    default: Option<Rank>,
    /// Where the default leads, and how many defaults lead here.
    link: Option<u32>,
    links_here: usize,
}

impl Group {
    /// The last rule, if it matches every packet and no other has its priority.
    fn last(&self) -> Option<Rank> {
        let (priority, rules) = self.priorities.last_key_value()?;
        let (rank, _) = self.catch_alls.last_key_value()?;
        (rank.0 == *priority && *rules == 1).then_some(*rank)
    }

    fn found_by_default(&self) -> Option<Found> {
        self.default.and_then(|rank| self.catch_alls.get(&rank)).copied()
    }
}

/// The group that a rule leads to and does nothing else, from an earlier one.
fn link(found: &Found) -> Option<u32> {
    match Verdict::from_words(found.verdict, found.mark) {
        Verdict { fate: Fate::Jump(to), mark: None, counter: None, .. } if to > found.group() => Some(to),
        _ => None,
    }
}

fn rank(found: &Found) -> Rank {
    (found.priority(), found.number)
}

#[derive(Debug, Default)]
pub(crate) struct Chains {
    groups: BTreeMap<u32, Group>,
    stores: BTreeMap<u64, BTreeSet<u32>>,
    next_store: u64,
    /// Groups whose last rule may be another, and stores whose ways may be others.
    touched: BTreeSet<u32>,
    changed: BTreeSet<u64>,
    /// Links to groups in other stores: to which, and from which; stores in which there is no link from each
    /// group to the next.
    apart: BTreeSet<(u32, u32)>,
    broken: BTreeSet<u64>,
    /// Groups that are no longer known.
    gone: BTreeSet<u32>,
    /// Rules that have been changed, and have not been made up for by moved ones.
    credit: usize,
    /// By group, and version from which on.
    ways: BTreeMap<(u32, u64), Way>,
}

impl Chains {
    /// The store of a group's rules.
    pub(crate) fn store(&mut self, group: u32) -> u64 {
        self.group(group).store
    }

    fn group(&mut self, group: u32) -> &mut Group {
        self.groups.entry(group).or_insert_with(|| {
            let store = self.next_store;
            self.next_store += 1;
            self.stores.insert(store, BTreeSet::from([group]));
            self.changed.insert(store);
            self.touched.insert(group);
            Group { store, ..Group::default() }
        })
    }

    /// A rule comes.
    pub(crate) fn add(&mut self, group: u32, priority: u32) {
        self.credit = self.credit.saturating_add(1);
        let this = self.group(group);
        this.rules += 1;
        *this.priorities.entry(priority).or_default() += 1;
        if this.catch_alls.last_key_value().is_some_and(|(last, _)| last.0 <= priority) {
            self.touched.insert(group);
        }
    }

    /// A rule that has come matches every packet. Whether it goes into the store is said later.
    pub(crate) fn add_catch_all(&mut self, found: Found) {
        let this = self.group(found.group());
        this.catch_alls.insert(rank(&found), found);
        this.new.push(rank(&found));
        self.touched.insert(found.group());
    }

    /// A rule goes. Returns it if it was the default, or would have become it: then it is in no store.
    pub(crate) fn remove(&mut self, group: u32, priority: u32, number: u64) -> Option<Found> {
        self.credit = self.credit.saturating_add(1);
        let this = self.group(group);
        this.rules -= 1;
        if let Some(rules) = this.priorities.get_mut(&priority) {
            *rules -= 1;
            if *rules == 0 {
                this.priorities.remove(&priority);
            }
        }
        let rank = (priority, number);
        let last = this.catch_alls.last_key_value().is_some_and(|(last, _)| last.0 <= priority);
        if last || this.rules == 0 {
            self.touched.insert(group);
        }
        let this = self.group(group);
        let found = this.catch_alls.remove(&rank);
        let many = this.new.len();
        this.new.retain(|new| *new != rank);
        let outside = this.new.len() < many || this.default == Some(rank);
        this.default = this.default.filter(|default| *default != rank);
        found.filter(|_| outside)
    }

    /// A rule that is about to come is a link. If the group that it leads to has no rules yet, they come into
    /// the same store at once.
    pub(crate) fn expect(&mut self, found: &Found) {
        let Some(to) = link(found) else { return };
        let from = found.group();
        let stores = [from, to].map(|group| self.store(group));
        if stores.iter().any(|store| self.rules(*store) == 0) && self.may_join(from, to) {
            self.join(from, to);
        }
        self.touched.extend([from, to]);
    }

    /// What becomes of rules that match every packet.
    pub(crate) fn settle(&mut self) -> Vec<Turn> {
        let mut turns = Vec::new();
        // A link makes a group known that it leads to.
        while let Some(at) = self.touched.pop_first() {
            let Some(this) = self.groups.get_mut(&at) else { continue };
            let (was, is, new) = (this.default, this.last(), std::mem::take(&mut this.new));
            let inside = new.iter().copied().chain(was).filter(|rank| Some(*rank) != is);
            turns.extend(inside.filter_map(|rank| this.catch_alls.get(&rank)).map(|found| Turn::In(*found)));
            this.default = is;
            let default = this.found_by_default();
            if was != is && is.is_some_and(|is| !new.contains(&is)) {
                turns.extend(default.map(Turn::Out));
            }
            let link = default.as_ref().and_then(link);
            let before = std::mem::replace(&mut this.link, link);
            self.changed.insert(this.store);
            if link != before {
                if let Some(to) = link {
                    self.group(to).links_here += 1;
                    self.apart.insert((to, at));
                }
                if let Some(to) = before {
                    self.group(to).links_here -= 1;
                    self.apart.remove(&(to, at));
                    self.leave(to);
                }
            }
            self.leave(at);
        }
        turns
    }

    /// Forgets a group that has no rules and that no link leads to.
    fn leave(&mut self, group: u32) {
        let unused = |this: &&Group| this.rules + this.links_here == 0 && this.link.is_none();
        let Some(store) = self.groups.get(&group).filter(unused).map(|this| this.store) else { return };
        self.groups.remove(&group);
        self.gone.insert(group);
        self.leave_store(store, &[group]);
    }

    fn leave_store(&mut self, store: u64, groups: &[u32]) {
        let Some(all) = self.stores.get_mut(&store) else { return };
        all.retain(|group| !groups.contains(group));
        if all.is_empty() {
            self.stores.remove(&store);
            self.broken.remove(&store);
        }
    }

    /// Parts stores and joins others. Returns which rules that moves, in this order.
    pub(crate) fn arrange(&mut self) -> Vec<Move> {
        if self.changed.is_empty() && self.broken.is_empty() {
            return Vec::new();
        }
        let mut moves = Vec::new();
        let mut look: BTreeSet<u64> = self.changed.union(&self.broken).copied().collect();
        let mut other = !self.changed.is_empty();
        if other {
            look.extend(self.apart.iter().filter_map(|(to, _)| Some(self.groups.get(to)?.store)));
        }
        while let Some(store) = look.pop_first() {
            let Some((groups, at)) = self.cut(store) else {
                self.broken.remove(&store);
                continue;
            };
            let many = self.rules(store);
            if many > SMALL.max(self.credit) {
                self.broken.insert(store);
                continue;
            }
            self.credit = self.credit.saturating_sub(many);
            let (before, after) = groups.split_at(at);
            let less = if self.rules_of(before) < self.rules_of(after) { before } else { after };
            let new = self.next_store;
            self.next_store += 1;
            self.shift(less, store, new, &mut moves);
            look.extend([store, new]);
            // The last one before may lead to a store that it may now be joined with.
            let last = groups[at - 1];
            if let Some(to) = self.group(last).link {
                self.apart.insert((to, last));
                look.insert(self.store(to));
            }
            other = true;
        }
        if other {
            for (to, from) in std::mem::take(&mut self.apart) {
                if self.store(from) == self.store(to) {
                    continue;
                }
                if self.may_join(from, to) {
                    moves.extend(self.join(from, to));
                } else {
                    self.apart.insert((to, from));
                }
            }
        }
        moves
    }

    /// How many rules there are in a store.
    /// How many groups have their rules in a store.
    pub(crate) fn groups_in(&self, store: u64) -> usize {
        self.stores.get(&store).map_or(0, |groups| groups.len())
    }
    fn rules(&self, store: u64) -> usize {
        self.rules_of(self.stores.get(&store).into_iter().flatten())
    }

    fn rules_of<'a>(&self, groups: impl IntoIterator<Item = &'a u32>) -> usize {
        groups.into_iter().filter_map(|group| self.groups.get(group)).map(|group| group.rules).sum()
    }

    /// Where a store is to be parted: before a group to which no link leads from the one before, or one from
    /// an earlier group of another store, from which more packets come. Also all groups of the store.
    fn cut(&self, store: u64) -> Option<(Vec<u32>, usize)> {
        let groups: Vec<u32> = self.stores.get(&store)?.iter().copied().collect();
        let linked =
            |pair: &[u32]| self.groups.get(&pair[0]).is_some_and(|group| group.link == Some(pair[1]));
        let wanted = |at: usize| {
            let (first, last) = ((groups[at], 0), (groups[at], groups[at - 1]));
            let earlier = self.apart.range(first..last).next().and_then(|(_, from)| self.groups.get(from));
            let others =
                earlier.and_then(|from| self.stores.get(&from.store).filter(|_| from.store != store));
            others.is_some_and(|others| {
                others.last().is_some_and(|last| {
                    self.groups.get(last).is_some_and(|last| last.link == Some(groups[at]))
                }) && others.len() + groups.len() - at <= MOST_GROUPS
            })
        };
        let at = (1..groups.len()).find(|at| !linked(&groups[at - 1..=*at]) || wanted(*at))?;
        Some((groups, at))
    }

    /// Whether a link leads from the last group of a store to the first of another.
    fn may_join(&self, from: u32, to: u32) -> bool {
        let groups = |group| self.groups.get(&group).and_then(|group| self.stores.get(&group.store));
        let (Some(before), Some(after)) = (groups(from), groups(to)) else { return false };
        before.last() == Some(&from)
            && after.first() == Some(&to)
            && before.len() + after.len() <= MOST_GROUPS
    }

    fn join(&mut self, from: u32, to: u32) -> Option<Move> {
        let (before, after) = (self.store(from), self.store(to));
        let (less, more) =
            if self.rules(before) < self.rules(after) { (before, after) } else { (after, before) };
        let groups: Vec<u32> = self.stores.get(&less)?.iter().copied().collect();
        let mut moves = Vec::new();
        self.credit = self.credit.saturating_sub(self.rules(less));
        self.shift(&groups, less, more, &mut moves);
        moves.pop()
    }

    /// Moves groups from a store to another.
    fn shift(&mut self, groups: &[u32], from: u64, to: u64, moves: &mut Vec<Move>) {
        self.leave_store(from, groups);
        self.stores.entry(to).or_default().extend(groups);
        for group in groups {
            self.group(*group).store = to;
        }
        self.changed.extend([from, to]);
        if groups.iter().any(|group| self.groups.get(group).is_some_and(|group| group.rules > 0)) {
            moves.push(Move { groups: groups.to_vec(), from, to });
        }
    }

    /// Ways that are others from a version on. Returns the groups that have them.
    pub(crate) fn find_ways(&mut self, version: u64) -> Vec<u32> {
        let mut new = Vec::new();
        for store in std::mem::take(&mut self.changed) {
            let mut next: Option<(u32, Way)> = None;
            for at in self.stores.get(&store).into_iter().flatten().rev() {
                let Some(this) = self.groups.get(at) else { continue };
                let way = match next {
                    Some((group, way)) if this.link == Some(group) => way,
                    _ => Way { store: Some(store), last: *at, default: this.found_by_default() },
                };
                next = Some((*at, way));
                new.push((*at, way));
            }
        }
        for group in std::mem::take(&mut self.gone) {
            if !self.groups.contains_key(&group) {
                new.push((group, Way { store: None, last: group, default: None }));
            }
        }
        new.retain(|(group, way)| {
            let last = self.ways.range((*group, 0)..=(*group, u64::MAX)).next_back();
            last.map_or(way.store.is_some(), |(_, last)| last != way)
        });
        self.ways.extend(new.iter().map(|(group, way)| ((*group, version), *way)));
        new.into_iter().map(|(group, _)| group).collect()
    }

    /// Nobody looks at versions before this one any longer: older ways of a group go.
    pub(crate) fn forget(&mut self, group: u32, version: u64) {
        let known = self.ways.range((group, 0)..=(group, version));
        let mut older: Vec<(u32, u64)> = known.map(|(at, _)| *at).collect();
        let Some(last) = older.pop() else { return };
        for at in older {
            self.ways.remove(&at);
        }
        let newer = self.ways.range((group, version + 1)..=(group, u64::MAX)).next().is_some();
        if !newer && self.ways.get(&last).is_some_and(|way| way.store.is_none()) {
            self.ways.remove(&last);
        }
    }

    /// All ways, by group and version from which on.
    pub(crate) fn ways(&self) -> impl Iterator<Item = (u32, u64, &Way)> {
        self.ways.iter().map(|((group, since), way)| (*group, *since, way))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Action;
    use crate::tuple::order_of;

    fn jump(group: u32, to: u32, number: u64) -> Found {
        let (verdict, mark) = Verdict::of(&[Action::Jump(to)], None, || 0).words();
        Found { order: order_of(group, 9), number, verdict, mark }
    }

    /// A group with so many rules, and a link.
    fn fill(chains: &mut Chains, group: u32, rules: usize, to: Option<u32>) {
        (0..rules).for_each(|_| chains.add(group, 0));
        to.into_iter().for_each(|to| link(chains, group, to));
    }

    fn link(chains: &mut Chains, group: u32, to: u32) {
        chains.add(group, 9);
        chains.add_catch_all(jump(group, to, group.into()));
    }

    fn unlink(chains: &mut Chains, group: u32) {
        assert!(chains.remove(group, 9, group.into()).is_some());
    }

    /// How many rules move in the next version.
    fn moved(chains: &mut Chains, version: u64) -> usize {
        assert_eq!(chains.settle(), []);
        let moves = chains.arrange();
        let all = moves.iter().map(|step| chains.rules_of(&step.groups)).sum();
        chains.find_ways(version).into_iter().for_each(|group| chains.forget(group, version));
        all
    }

    fn last(chains: &Chains, group: u32) -> Option<u32> {
        chains.ways().find(|(at, _, _)| *at == group).map(|(_, _, way)| way.last)
    }

    #[test]
    fn the_smaller_part_moves() {
        let mut chains = Chains::default();
        fill(&mut chains, 1, 5000, None);
        fill(&mut chains, 2, 10, None);
        assert_eq!(moved(&mut chains, 1), 0);
        link(&mut chains, 1, 2);
        assert_eq!((moved(&mut chains, 2), last(&chains, 1)), (10, Some(2)));
        fill(&mut chains, 0, 7, Some(1));
        assert_eq!((moved(&mut chains, 3), last(&chains, 0)), (8, Some(2)));
        assert_eq!(chains.stores.len(), 1);
    }

    #[test]
    fn a_link_that_comes_and_goes_moves_nothing() {
        let mut chains = Chains::default();
        fill(&mut chains, 0, 5000, None);
        fill(&mut chains, 1, 6000, None);
        link(&mut chains, 0, 1);
        moved(&mut chains, 1);
        chains.credit = 0;
        for version in 2..1000 {
            if version % 2 == 0 {
                unlink(&mut chains, 0)
            } else {
                link(&mut chains, 0, 1)
            }
            let way = if version % 2 == 0 { 0 } else { 1 };
            assert_eq!((moved(&mut chains, version), last(&chains, 0)), (0, Some(way)), "{version}");
        }
        // They are parted when as many others have been changed.
        unlink(&mut chains, 0);
        assert_eq!(moved(&mut chains, 1000), 0);
        fill(&mut chains, 7, 15_000, None);
        assert_eq!((moved(&mut chains, 1001), chains.stores.len()), (5000, 3));
    }

    #[test]
    fn the_chain_of_the_first_group_goes_on() {
        let mut chains = Chains::default();
        for group in 0..5 {
            fill(&mut chains, group, 3, (group < 4).then_some(group + 1));
        }
        moved(&mut chains, 1);
        assert_eq!(last(&chains, 0), Some(4));
        unlink(&mut chains, 1);
        link(&mut chains, 1, 3);
        moved(&mut chains, 2);
        assert_eq!([0, 1, 2, 3].map(|group| last(&chains, group)), [4, 4, 2, 4].map(Some));
        // Where it ends, the other one goes on.
        unlink(&mut chains, 1);
        moved(&mut chains, 3);
        assert_eq!([0, 1, 2, 3].map(|group| last(&chains, group)), [1, 1, 4, 4].map(Some));
    }

    #[test]
    fn groups_that_came_and_went_leave_nothing() {
        let mut chains = Chains::default();
        for version in 1..100 {
            if version % 2 == 1 {
                (0..9).for_each(|group| fill(&mut chains, group, 1, Some(group + 1)));
            } else {
                (0..9).for_each(|group| {
                    chains.remove(group, 0, 1000);
                    unlink(&mut chains, group);
                });
            }
            moved(&mut chains, version);
        }
        (0..9).for_each(|group| {
            chains.remove(group, 0, 1000);
            unlink(&mut chains, group);
        });
        moved(&mut chains, 100);
        assert!(chains.groups.is_empty() && chains.stores.is_empty() && chains.apart.is_empty());
        assert!(chains.ways.is_empty() && chains.broken.is_empty(), "{:?}", chains.ways);
    }

    #[test]
    fn more_groups_than_a_store_takes() {
        let mut chains = Chains::default();
        (0..200).rev().for_each(|group| {
            fill(&mut chains, group, 1, Some(group + 1));
            moved(&mut chains, u64::from(200 - group));
        });
        assert!(chains.stores.values().all(|groups| groups.len() <= MOST_GROUPS));
        assert!(chains.stores.len() <= 16, "{}", chains.stores.len());
    }
}
