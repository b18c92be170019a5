//! Rules as text again.

use super::items::{ETH, ITEMS, Item, Part, inner, upper};
use super::pattern::{DISCOVERY, SESSION};
use super::value::Form;
use crate::key::{Field, Layer};
use crate::rule::{Action, Pattern, Rule};
use std::fmt::Write;

/// The command that adds a rule. [`parse`](super::parse) reads the same rule from it, if the rule's layers
/// and fields are such as a command gives: fields of headers that the pattern does not name are left out.
#[must_use]
pub fn print(rule: &Rule, port: u32) -> String {
    let mut out = String::with_capacity(160);
    // Writing to a string does not fail.
    let _ = write!(out, "flow create {port} ingress");
    for (name, value) in [("group", rule.group), ("priority", rule.priority)] {
        if value != 0 {
            let _ = write!(out, " {name} {value}");
        }
    }
    out.push_str(" pattern");
    Stack::of(&rule.pattern).print(&mut out);
    out.push_str(" end actions");
    for action in &rule.actions {
        out.push(' ');
        print_action(action, &mut out);
        out.push_str(" /");
    }
    out.push_str(" end");
    out
}

/// What the items of a pattern are.
struct Stack<'a> {
    pattern: &'a Pattern,
    /// The layers that must be there, and those that must not.
    with: u64,
    without: u64,
    /// How many VLAN items there are.
    tags: u32,
    /// The field with the type of PPPoE, which that item stands for.
    implied: Option<Field>,
}

impl<'a> Stack<'a> {
    fn of(pattern: &'a Pattern) -> Self {
        let with = pattern.value.get(Field::Layers);
        let without = pattern.mask.get(Field::Layers) & !with;
        let above = with >> (Layer::InnerVlan as u8 + 1) != 0;
        let has = |layer: Layer| with & layer.bit() != 0;
        // With headers above it, a tag that may be followed by another one is no item.
        let at_least_one = above && without & Layer::InnerVlan.bit() == 0;
        let tags = match (has(Layer::Vlan), has(Layer::InnerVlan)) {
            (true, true) => 2,
            (true, false) if !at_least_one => 1,
            _ => 0,
        };
        let kind = [Field::EthType, Field::VlanType, Field::InnerVlanType][tags as usize];
        Self { pattern, with, without, tags, implied: has(Layer::Pppoe).then_some(kind) }
    }

    fn print(&self, out: &mut String) {
        self.item(&ETH, false, out);
        let mut done = 0;
        for item in ITEMS {
            match (item.name, item.layer) {
                (_, Some(Layer::Vlan)) => (0..self.tags).for_each(|tag| self.item(item, tag == 1, out)),
                (_, None) if item.parts.iter().any(|part| self.has(part.field)) => {
                    self.item(item, false, out);
                }
                ("gre_key", _) if self.with & Layer::Gre.bit() != 0 && self.has(Field::Session) => {
                    self.item(item, false, out);
                }
                (name, Some(layer)) if self.with & layer.bit() & !done != 0 && self.is_kind(name) => {
                    done |= layer.bit();
                    self.item(item, false, out);
                }
                _ => {}
            }
        }
    }

    /// Whether an item is that of PPPoE's two that the pattern has. Other items are what they are.
    fn is_kind(&self, name: &str) -> bool {
        let kind = self.implied.map_or(SESSION, |field| self.pattern.value.get(field));
        match name {
            "pppoes" => kind != DISCOVERY,
            "pppoed" => kind == DISCOVERY,
            _ => true,
        }
    }

    /// Whether a pattern says something about a field.
    fn has(&self, field: Field) -> bool {
        self.pattern.mask.get(field) != 0 || self.pattern.ranges.iter().any(|range| range.field == field)
    }

    fn item(&self, item: &Item, second: bool, out: &mut String) {
        out.push(' ');
        out.push_str(item.name);
        for part in item.parts {
            let field = if second { inner(part.field) } else { part.field };
            if part.field == Field::Layers {
                self.tag(part, out);
            } else if self.implied != Some(field) {
                self.part(item, part, field, out);
            }
        }
        out.push_str(" /");
    }

    /// `has_vlan` and `has_more_vlan`, where no item says the same.
    fn tag(&self, part: &Part, out: &mut String) {
        let (bit, no_item) = (1 << part.shift, self.tags <= part.shift);
        let above = self.with >> (part.shift + 1) != 0;
        if self.with & bit != 0 && no_item {
            let _ = write!(out, " {} is 1", part.name);
        } else if self.without & bit != 0 && !above {
            let _ = write!(out, " {} is 0", part.name);
        }
    }

    fn part(&self, item: &Item, part: &Part, field: Field, out: &mut String) {
        let divided = item.parts.iter().any(|other| !other.whole && other.field == part.field);
        if let Some([first, last]) = self.range(part, field) {
            if part.whole {
                print_word(part, "spec", part.form, first, out);
                print_word(part, "last", part.form, last, out);
                print_word(part, "mask", mask_form(part), part.most(), out);
            }
            return;
        }
        if part.whole && divided {
            return;
        }
        let [value, mask] = [&self.pattern.value, &self.pattern.mask].map(|key| {
            let low = u128::from(key.get(field));
            let wide = if part.bits > 64 { u128::from(key.get(upper(field))) << 64 | low } else { low };
            wide >> part.shift & part.most()
        });
        print_bits(part, value, mask, out);
    }

    /// The first and the last value of a part that has a range.
    fn range(&self, part: &Part, field: Field) -> Option<[u128; 2]> {
        let of = |field| self.pattern.ranges.iter().find(|range| range.field == field);
        if let Some(range) = of(field) {
            let high = if part.bits > 64 { self.pattern.value.get(upper(field)) } else { 0 };
            return Some([range.first, range.last].map(|end| u128::from(high) << 64 | u128::from(end)));
        }
        let range = of(upper(field)).filter(|_| part.bits > 64)?;
        let last = u128::from(range.last) << 64 | u128::from(u64::MAX);
        Some([u128::from(range.first) << 64, last])
    }
}

/// How a mask is written.
fn mask_form(part: &Part) -> Form {
    if part.form == Form::Number { Form::Hex } else { part.form }
}

/// A word with its field and its value.
fn print_word(part: &Part, word: &str, form: Form, value: u128, out: &mut String) {
    let _ = write!(out, " {} {word} ", part.name);
    form.write(value, out);
}

/// A value and its mask, in the shortest words.
fn print_bits(part: &Part, value: u128, mask: u128, out: &mut String) {
    if mask == 0 {
        return;
    }
    if mask == part.most() {
        return print_word(part, "is", part.form, value, out);
    }
    print_word(part, "spec", part.form, value, out);
    let free = part.most() & !mask;
    if part.form.is_address() && free & (free + 1) == 0 {
        return print_word(part, "prefix", Form::Number, u128::from(mask.count_ones()), out);
    }
    print_word(part, "mask", mask_form(part), mask, out);
}

fn print_action(action: &Action, out: &mut String) {
    // Writing to a string does not fail.
    let _ = match action {
        Action::Queue(index) => write!(out, "queue index {index}"),
        Action::Rss(queues) => {
            out.push_str("rss queues");
            for queue in queues {
                let _ = write!(out, " {queue}");
            }
            write!(out, " end")
        }
        Action::Drop => write!(out, "drop"),
        Action::Count => write!(out, "count"),
        Action::Mark(id) => write!(out, "mark id {id}"),
        Action::SetMeta { data, mask } => write!(out, "set_meta data {data:#x} mask {mask:#x}"),
        Action::SetTag { data, mask, index } => {
            write!(out, "set_tag data {data:#x} index {index} mask {mask:#x}")
        }
        Action::Jump(group) => write!(out, "jump group {group}"),
        Action::VlanPop => write!(out, "of_pop_vlan"),
        Action::VlanPush(kind) => write!(out, "of_push_vlan ethertype {kind:#x}"),
        Action::VlanSetId(id) => write!(out, "of_set_vlan_vid vlan_vid {id}"),
        Action::VlanSetPriority(priority) => write!(out, "of_set_vlan_pcp vlan_pcp {priority}"),
        Action::Meter(id) => write!(out, "meter mtr_id {id}"),
        Action::PassThrough => write!(out, "passthru"),
    };
}
