//! Patterns: from items to the bits and ranges that a packet must have.

use super::fields::{Given, Wanted, read_fields};
use super::items::{ETH, ITEMS, Item, Part, UNSUPPORTED, find, inner, upper};
use super::line::{Line, Word};
use crate::key::{Field, Layer};
use crate::rule::{Pattern, Range};
use lang::{Diagnostic, Span};

/// PPPoE's Ethernet types.
pub(super) const SESSION: u64 = 0x8864;
/// See there.
pub(super) const DISCOVERY: u64 = 0x8863;

/// Reads the items after `pattern`, up to `end`.
pub(super) fn read(line: &mut Line<'_, '_>) -> Pattern {
    let mut stack = Stack::default();
    loop {
        let Some(word) = line.peek().filter(|word| word.text != "actions") else {
            line.missing("'/ end' after the pattern", "a pattern ends with '/ end', then come the actions");
            break;
        };
        line.next();
        match word.text {
            "end" => break,
            "void" => line.slash(),
            "/" => line.error(|| {
                Diagnostic::error(word.span(), "no item before '/'").with_help("an empty item is 'void'")
            }),
            name => match find(name) {
                Some(item) => stack.item(item, word, line),
                None => {
                    line.error(|| unknown(word));
                    line.skip_rest();
                }
            },
        }
    }
    stack.finish(line)
}

/// An item that is not known, or not supported.
fn unknown(word: Word<'_>) -> Diagnostic {
    if UNSUPPORTED.contains(&word.text) {
        return Diagnostic::error(word.span(), format!("item '{word}' is not supported"));
    }
    let error = Diagnostic::error(word.span(), format!("unknown item '{word}'"));
    let names = ITEMS.iter().chain([&ETH]).map(|item| item.name);
    let error = error.with_nearest(word.text, "item", names);
    if word.text.len() > 1 && word.text.contains('/') {
        return error.with_help("a '/' stands between spaces");
    }
    error
}

/// The items so far.
struct Stack {
    pattern: Pattern,
    /// The last item that does not stand anywhere, and where it is.
    last: &'static Item,
    at: Span,
    /// Whether it is written down.
    begun: bool,
    /// The layers of the items.
    layers: u64,
    /// The Ethernet type that the PPPoE item stands for, and where the item is.
    pppoe: Option<(u64, Span)>,
    /// The items that may stand anywhere, and are there.
    anywhere: Vec<&'static str>,
}

impl Default for Stack {
    fn default() -> Self {
        let at = Span::new(0, 0, 0);
        let (pattern, anywhere) = (Pattern::default(), Vec::new());
        Self { pattern, last: &ETH, at, begun: false, layers: 0, pppoe: None, anywhere }
    }
}

impl Stack {
    /// An item: its place, then its fields.
    fn item(&mut self, item: &'static Item, word: Word<'_>, line: &mut Line<'_, '_>) {
        if let Err(error) = self.place(item, word) {
            line.error(|| *error);
        }
        if line.peek().is_some_and(|word| word.text == "/") {
            line.slash();
            return;
        }
        let given = read_fields(item, line);
        if !given.is_empty() {
            self.compare(item, word, &given, line);
        }
    }

    /// Whether an item may stand here. It is the last one then, also if it may not.
    fn place(&mut self, item: &'static Item, word: Word<'_>) -> Result<(), Box<Diagnostic>> {
        if item.is_anywhere() {
            if self.anywhere.contains(&item.name) {
                let message = format!("{} is there twice", item.name);
                return Err(Box::new(Diagnostic::error(word.span(), message)));
            }
            self.anywhere.push(item.name);
            return Ok(());
        }
        let error = self.order(item, word).map(Box::new);
        let second_tag = item.layer == Some(Layer::Vlan) && self.layers & Layer::Vlan.bit() != 0;
        let layer = if second_tag { Some(Layer::InnerVlan) } else { item.layer };
        self.layers |= layer.map_or(0, Layer::bit);
        match item.name {
            "pppoes" => self.pppoe = Some((SESSION, word.span())),
            "pppoed" => self.pppoe = Some((DISCOVERY, word.span())),
            _ => {}
        }
        (self.last, self.at, self.begun) = (item, word.span(), true);
        error.map_or(Ok(()), Err)
    }

    /// What is wrong with an item after the last one.
    fn order(&self, item: &Item, word: Word<'_>) -> Option<Diagnostic> {
        let inner_ip = self.last.layer.is_some_and(is_ip) && item.layer.is_some_and(is_ip);
        let again = item.layer == Some(Layer::Vlan) && self.layers & Layer::InnerVlan.bit() != 0;
        let good = if item.name == ETH.name { !self.begun } else { item.after.contains(&self.last.name) };
        if good && !again {
            return None;
        }
        let last = self.last.name;
        if self.last.is_tunnel() || inner_ip {
            let message = format!("{} after {last}: inner headers are not matched", item.name);
            let help = format!("end the pattern after {last}");
            return Some(Diagnostic::error(word.span(), message).with_help(help));
        }
        if again {
            let message = "more than two VLAN tags are not supported";
            return Some(Diagnostic::error(word.span(), message));
        }
        let error = Diagnostic::error(word.span(), format!("{} cannot follow {last}", item.name));
        if item.name == ETH.name {
            return Some(error.with_help("eth comes first"));
        }
        Some(error.with_help(format!("{} must follow {}", item.name, item.after.join(" or "))))
    }

    /// Demands what is given of an item's fields.
    fn compare(&mut self, item: &'static Item, word: Word<'_>, given: &Given, line: &mut Line<'_, '_>) {
        if !given.has_value() {
            line.error(|| {
                let message = format!("{} has a mask or a last value, but no spec", item.name);
                Diagnostic::error(word.span(), message)
                    .with_help("'is' or 'spec' give the value to compare with")
            });
            return;
        }
        let second = self.layers & Layer::InnerVlan.bit() != 0 && item.layer == Some(Layer::Vlan);
        for (index, part) in item.parts.iter().enumerate() {
            given.warn_if_unused(item, index, line);
            if !part.whole {
                continue;
            }
            let Some(wanted) = given.wanted(part) else { continue };
            let field = if second { inner(part.field) } else { part.field };
            let done = match wanted {
                Ok(_) if second && field == Field::Layers => Err("a third VLAN tag is not supported"),
                wanted => wanted.and_then(|wanted| self.demand(part, field, wanted)),
            };
            if let Err(message) = done {
                let (name, at) = given.place_of(item, part);
                line.error(|| {
                    let error = Diagnostic::error(at, format!("{name}: {message}"));
                    if name == part.name { error } else { error.with_help(within(name, part)) }
                });
            }
        }
    }

    /// Demands values of a field.
    fn demand(&mut self, part: &Part, field: Field, wanted: Wanted) -> Result<(), &'static str> {
        let (low, high) = (|wide: u128| wide as u64, |wide: u128| (wide >> 64) as u64);
        match wanted {
            Wanted::All => {}
            Wanted::Bits { value, mask } => {
                self.pattern.demand(field, low(value), low(mask));
                if part.bits > 64 {
                    self.pattern.demand(upper(field), high(value), high(mask));
                }
            }
            Wanted::Range { first, last } if high(first) == high(last) => {
                if part.bits > 64 {
                    self.pattern.demand(upper(field), high(first), u64::MAX);
                }
                self.range(field, low(first), low(last));
            }
            Wanted::Range { first, last } if low(first) == 0 && low(last) == u64::MAX => {
                self.range(upper(field), high(first), high(last));
            }
            Wanted::Range { .. } => {
                return Err("a range of IPv6 addresses is within a /64, or of whole ones");
            }
        }
        Ok(())
    }

    /// Demands a value in a range; nothing if all 64 bits are free.
    fn range(&mut self, field: Field, first: u64, last: u64) {
        if (first, last) != (0, u64::MAX) {
            self.pattern.ranges.push(Range { field, first, last });
        }
    }

    /// Demands a value of a whole field, unless the pattern says otherwise.
    fn imply(&mut self, field: Field, value: u64) -> Result<(), ()> {
        let (mask, was) = (self.pattern.mask.get(field), self.pattern.value.get(field));
        if value & mask != was || self.pattern.ranges.iter().any(|range| range.field == field) {
            return Err(());
        }
        self.pattern.demand(field, value, u64::MAX);
        Ok(())
    }

    /// The pattern, with what the items say by their order.
    fn finish(mut self, line: &mut Line<'_, '_>) -> Pattern {
        let at = self.at;
        if let Err((message, help)) = self.tags() {
            line.error(|| Diagnostic::error(at, message).with_help(help));
        }
        if let Some((kind, at)) = self.pppoe
            && let Err((message, help)) = self.type_before_pppoe(kind)
        {
            line.error(|| Diagnostic::error(at, message).with_help(help));
        }
        let labels = self.layers & Layer::Mpls.bit() != 0 && self.last.layer > Some(Layer::Mpls);
        if labels && self.imply(Field::MplsBottom, 1).is_err() {
            let help = format!("only the label with s = 1 is before {}", self.last.name);
            line.error(|| {
                Diagnostic::error(at, "s is 0, but no other label follows the first one").with_help(help)
            });
        }
        self.pattern.ranges.sort_unstable_by_key(|range| range.field);
        self.pattern
    }

    /// Demands the layers of the items, and none between them.
    fn tags(&mut self) -> Result<(), (&'static str, &'static str)> {
        let said = self.pattern.mask.get(Field::Layers);
        let there = self.pattern.value.get(Field::Layers);
        if said & !there & self.layers != 0 {
            return Err((
                "a VLAN tag is excluded, and there",
                "'has_vlan is 0' and 'has_more_vlan is 0' exclude a tag",
            ));
        }
        let last = self.last.layer;
        let link = [Layer::Vlan, Layer::InnerVlan, Layer::Pppoe, Layer::Mpls];
        let between = link.into_iter().filter(|layer| Some(*layer) < last).map(Layer::bit);
        let mut without = between.fold(0, |bits, bit| bits | bit) & !self.layers & !there;
        // At least one tag: there may be a second one.
        if there & !self.layers & Layer::Vlan.bit() != 0 {
            without &= !Layer::InnerVlan.bit();
        }
        self.pattern.demand(Field::Layers, self.layers | there, self.layers | without);
        Ok(())
    }

    /// Demands the type of a PPPoE item, which is in the last VLAN tag or the Ethernet header.
    fn type_before_pppoe(&mut self, kind: u64) -> Result<(), (&'static str, &'static str)> {
        let tags = self.pattern.value.get(Field::Layers);
        let field = if tags & Layer::InnerVlan.bit() != 0 {
            Field::InnerVlanType
        } else if self.layers & Layer::Vlan.bit() != 0 {
            Field::VlanType
        } else if tags & Layer::Vlan.bit() != 0 {
            return Err(("the number of VLAN tags before is not known", "write 'vlan' for 'has_vlan is 1'"));
        } else {
            Field::EthType
        };
        let help = "leave out the type: pppoes is 0x8864, pppoed is 0x8863";
        self.imply(field, kind).map_err(|()| ("the item before has another type", help))
    }
}

/// What to do about a field that is within another one.
fn within(name: &str, whole: &Part) -> String {
    format!("{name} is within {0}: give all bits of {0}", whole.name)
}

/// Whether a layer is IPv4 or IPv6.
fn is_ip(layer: Layer) -> bool {
    matches!(layer, Layer::Ipv4 | Layer::Ipv6)
}
