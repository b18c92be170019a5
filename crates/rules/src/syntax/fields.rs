//! The fields of an item: what is given of them, and what that demands.

use super::items::{Item, MOST_PARTS, Part, upper};
use super::line::{Line, Word};
use crate::key::Key;
use lang::{Diagnostic, Span};

/// What stands between a field and its value.
const OPERATORS: [&str; 5] = ["is", "spec", "last", "mask", "prefix"];

/// A word that has been given: a bit each. `is` is both `spec` and `mask`.
const SPEC: u8 = 1;
/// See there.
const LAST: u8 = 2;
/// See there.
const MASK: u8 = 4;

/// What an item's fields are compared with.
pub(super) struct Given {
    spec: Key,
    last: Key,
    mask: Key,
    /// The bits of the fields that have a value.
    valued: Key,
    /// Which words the item has.
    words: u8,
    /// Which words each of its fields has, and where the last of them is.
    parts: [(u8, Span); MOST_PARTS],
}

impl Default for Given {
    fn default() -> Self {
        let none = Key::default();
        let parts = [(0, Span::new(0, 0, 0)); MOST_PARTS];
        Self { spec: none, last: none, mask: none, valued: none, words: 0, parts }
    }
}

impl Given {
    /// Whether nothing is compared.
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Whether there is a value to compare with.
    pub fn has_value(&self) -> bool {
        self.words & SPEC != 0
    }

    /// What a whole part must be; nothing if no bit of it counts.
    pub fn wanted(&self, part: &Part) -> Option<Result<Wanted, &'static str>> {
        let full = part.most() << part.shift;
        let mask = self.mask_of(part) & full;
        let [spec, last] = [&self.spec, &self.last].map(|key| get(key, part) & mask);
        (mask != 0).then(|| Wanted::new(spec, last, mask, full))
    }

    /// The mask of a field of a key: the item's, or else the default one where there are values.
    fn mask_of(&self, part: &Part) -> u128 {
        if self.words & MASK != 0 {
            return get(&self.mask, part);
        }
        let default = match part.default {
            _ if part.bits > 64 => part.most(),
            default => u128::from(default) << part.shift,
        };
        default & get(&self.valued, part)
    }

    /// Warns of a value that does not count.
    pub fn warn_if_unused(&self, item: &Item, index: usize, line: &mut Line<'_, '_>) {
        let (words, at) = self.parts[index];
        if words & (SPEC | LAST) == 0 || words & MASK != 0 {
            return;
        }
        let part = &item.parts[index];
        let whole = item.parts.iter().find(|whole| whole.whole && whole.field == part.field);
        let mask = whole.map_or(0, |whole| self.mask_of(whole));
        if mask & part.most() << part.shift != 0 {
            return;
        }
        let why = if self.words & MASK == 0 {
            format!("the default mask of {} leaves it out", item.name)
        } else {
            format!("other fields of {} have masks", item.name)
        };
        line.warning(|| {
            Diagnostic::warning(at, format!("{} does not count: {why}", part.name))
                .with_help(format!("'{} is VALUE', or a mask of its own, makes it count", part.name))
        });
    }

    /// The name and the place of the last field that is given in a whole part.
    pub fn place_of(&self, item: &Item, whole: &Part) -> (&'static str, Span) {
        let parts = item.parts.iter().zip(self.parts);
        let given = parts.filter(|(part, (words, _))| part.field == whole.field && *words != 0);
        let places = given.map(|(part, (_, at))| (part.name, at));
        places.max_by_key(|(_, at)| at.start).unwrap_or((whole.name, Span::new(0, 0, 0)))
    }

    /// Sets the bits of a part.
    fn set(&mut self, item: &Item, index: usize, (word, value): (u8, u128), at: Span) {
        let part = &item.parts[index];
        let key = match word {
            SPEC => &mut self.spec,
            LAST => &mut self.last,
            _ => &mut self.mask,
        };
        set(key, part, value);
        if word != MASK {
            set(&mut self.valued, part, part.most());
        }
        self.words |= word;
        self.parts[index] = (self.parts[index].0 | word, at);
    }
}

/// The bits of a key that an item's field has, at their place there.
fn get(key: &Key, part: &Part) -> u128 {
    let low = u128::from(key.get(part.field));
    if part.bits > 64 { u128::from(key.get(upper(part.field))) << 64 | low } else { low }
}

/// Sets the bits that an item's field has.
fn set(key: &mut Key, part: &Part, value: u128) {
    let (low, bits) = ((value as u64) << part.shift, (part.most() as u64) << part.shift);
    key.set(part.field, key.get(part.field) & !bits | low);
    if part.bits > 64 {
        key.set(upper(part.field), (value >> 64) as u64);
    }
}

/// What a field must be.
pub(super) enum Wanted {
    /// Anything.
    All,
    /// This where the mask has bits.
    Bits {
        /// The value.
        value: u128,
        /// The mask.
        mask: u128,
    },
    /// From one value to another.
    Range {
        /// The first.
        first: u128,
        /// The last.
        last: u128,
    },
}

impl Wanted {
    /// From the values in the mask, of a field with these bits.
    fn new(spec: u128, last: u128, mask: u128, full: u128) -> Result<Self, &'static str> {
        if last == 0 || last == spec {
            return Ok(Self::Bits { value: spec, mask });
        }
        if last < spec {
            return Err("the last value is before the first one");
        }
        let free = full & !mask;
        if free & (free + (full & full.wrapping_neg())) != 0 {
            return Err("a range needs a mask of all bits, or of the first ones");
        }
        let last = last | free;
        Ok(if (spec, last) == (0, full) { Self::All } else { Self::Range { first: spec, last } })
    }
}

/// Reads the fields of an item, and the `/` behind them.
pub(super) fn read_fields(item: &'static Item, line: &mut Line<'_, '_>) -> Given {
    let mut given = Given::default();
    while let Some(word) = line.next_inside() {
        let index = item.parts.iter().position(|part| part.name == word.text);
        let tag_index = item.name == "tag" && word.text == "index";
        let known = index.is_some() || tag_index || item.unsupported.contains(&word.text);
        if !known {
            line.error(|| no_field(item, word));
            line.skip_rest();
            return given;
        }
        let Some(operator) = operator(word, line) else { continue };
        match index {
            Some(index) => read_field(item, index, operator, word, line, &mut given),
            None if tag_index => read_index(operator, word, line, &mut given),
            None => {
                line.next_inside();
                line.error(|| {
                    Diagnostic::error(word.span(), format!("{word} of {} is not supported", item.name))
                });
            }
        }
    }
    line.slash();
    given
}

/// A field that the item does not have.
fn no_field(item: &Item, word: Word<'_>) -> Diagnostic {
    let names = || item.parts.iter().map(|part| part.name);
    let error = Diagnostic::error(word.span(), format!("{} has no field '{word}'", item.name));
    let list: Vec<&str> = names().collect();
    error.with_nearest(word.text, "field", names()).with_help(format!(
        "{} has {}",
        item.name,
        list.join(", ")
    ))
}

/// The operator after a field.
fn operator(field: Word<'_>, line: &mut Line<'_, '_>) -> Option<&'static str> {
    let help = "after a field comes is, spec, last, mask or prefix, then a value";
    let Some(word) = line.next_inside() else {
        line.missing(&format!("what {field} is"), help);
        return None;
    };
    let found = OPERATORS.into_iter().find(|operator| *operator == word.text);
    if found.is_none() {
        line.error(|| {
            Diagnostic::error(word.span(), format!("unknown operator '{word}' after {field}"))
                .with_nearest(word.text, "operator", OPERATORS)
                .with_help(help)
        });
        // What it stands before is probably a value.
        line.next_inside();
    }
    found
}

/// Reads the value after an operator.
fn read_field(
    item: &Item,
    index: usize,
    operator: &str,
    word: Word<'_>,
    line: &mut Line<'_, '_>,
    given: &mut Given,
) {
    let part = &item.parts[index];
    if operator == "prefix" {
        let Some(length) = line.number("prefix", u64::from(part.bits)) else { return };
        let free = part.bits - length as u32;
        let mask = if length == 0 { 0 } else { part.most() >> free << free };
        given.set(item, index, (MASK, mask), word.span());
        return;
    }
    let Some(value) = line.value(part.name, part.form, part.most()) else { return };
    let which = match operator {
        "last" => LAST,
        "mask" => MASK,
        _ => SPEC,
    };
    given.set(item, index, (which, value), word.span());
    if operator == "is" {
        given.set(item, index, (MASK, part.most()), word.span());
    }
}

/// The index of a tag, which must be 0.
fn read_index(operator: &str, word: Word<'_>, line: &mut Line<'_, '_>, given: &mut Given) {
    let Some(value) = line.number("index", u64::from(u8::MAX)) else { return };
    given.words |= match operator {
        "is" => SPEC | MASK,
        "spec" => SPEC,
        "last" => LAST,
        _ => MASK,
    };
    if matches!(operator, "is" | "spec" | "last") && value != 0 {
        line.error(|| {
            Diagnostic::error(word.span(), format!("tag {value} cannot be matched"))
                .with_help("only tag 0 can be matched")
        });
    }
}
