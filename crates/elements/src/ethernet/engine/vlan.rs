//! The VLAN tag in the arguments of `VLANEncap`, `EtherVLANEncap` and `SetVLANAnno`.

use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{Word, parse_signed};
use wire::vlan;

/// Tag control information from the arguments.
pub(in crate::ethernet) struct Tag {
    /// `ANNO`: taken from each packet's annotation.
    pub(in crate::ethernet) from_anno: bool,
    tci: Option<u16>,
    id: u16,
    pcp: u8,
    /// Packets of this VLAN are sent without a tag.
    native: Option<u16>,
}

fn id(text: &str, min: i64) -> Result<Option<u16>, String> {
    parse_signed(text, min, 0xfff).map(|n| u16::try_from(n).ok())
}

impl Tag {
    /// Reads `VLAN_TCI`, `VLAN_PCP` and `VLAN_ID`; for encapsulations also `NATIVE_VLAN` and the word `ANNO`.
    pub(in crate::ethernet) fn configure(args: &mut Args<'_>, encapsulation: bool) -> Result<Self, ArgError> {
        let (mut from_anno, mut tci) = (false, None);
        if encapsulation {
            let word = args.p::<Word>("VLAN_TCI")?;
            from_anno = word.as_ref().is_some_and(|w| w.0 == "ANNO");
            if let Some(word) = word.filter(|_| !from_anno) {
                let n = lang::args::parse(&word.0).map_err(|e| args.error(format!("VLAN_TCI: {e}")))?;
                tci = Some(n);
            }
        } else {
            tci = args.p("VLAN_TCI")?;
        }
        let pcp = args.with("VLAN_PCP", false, true, |t, _| parse_signed(t, 0, 7))?.unwrap_or(0) as u8;
        let vid = args.with("VLAN_ID", false, false, |t, _| id(t, 0))?.flatten().unwrap_or(0);
        let mut native = Some(0);
        if encapsulation {
            native = args.with("NATIVE_VLAN", false, false, |t, _| id(t, -1))?.unwrap_or(native);
        }
        Ok(Self { from_anno, tci, id: vid, pcp, native })
    }

    /// The configured tag control information.
    pub(in crate::ethernet) fn tci(&self) -> u16 {
        self.tci.unwrap_or(self.id) | vlan::tci(self.pcp, false, 0)
    }

    /// The tag for a packet; `None` if it is sent without one.
    #[inline]
    pub(in crate::ethernet) fn of(&self, packet: &Packet) -> Option<u16> {
        self.unless_native(if self.from_anno { packet.vlan_tci() } else { self.tci() })
    }

    /// The tag for all packets, as [`Tag::of`] returns it; `None` if it differs from packet to packet.
    pub(in crate::ethernet) fn of_all(&self) -> Option<Option<u16>> {
        (!self.from_anno).then(|| self.unless_native(self.tci()))
    }

    #[inline]
    fn unless_native(&self, tci: u16) -> Option<u16> {
        (Some(vlan::id(tci)) != self.native).then_some(tci)
    }
}

/// An element with a tag.
pub(in crate::ethernet) trait Tagged: Element {
    fn tag(&self) -> &Tag;
    fn tag_mut(&mut self) -> &mut Tag;
}

/// The handlers `vlan_tci`, `vlan_id` and `vlan_pcp`, and of encapsulations `native_vlan`.
pub(in crate::ethernet) fn handlers<T: Tagged>(h: &mut Handlers<T>, encapsulation: bool) {
    h.read("vlan_tci", |e| if e.tag().from_anno { "ANNO".to_owned() } else { e.tag().tci().to_string() });
    if encapsulation {
        h.write("vlan_tci", |e, v, _| {
            let tag = e.tag_mut();
            tag.from_anno = v.trim() == "ANNO";
            tag.tci = if tag.from_anno { None } else { Some(text::value(v, "expected VLAN TCI")?) };
            Ok(())
        });
    } else {
        h.write("vlan_tci", |e, v, _| text::value(v, "expected VLAN TCI").map(|n| e.tag_mut().tci = Some(n)));
    }
    h.read("vlan_id", |e| vlan::id(e.tag().tci()).to_string());
    h.write("vlan_id", |e, v, _| {
        let new = id(v.trim(), 0)?.unwrap_or(0);
        let tag = e.tag_mut();
        match &mut tag.tci {
            Some(tci) => *tci = *tci & 0xf000 | new,
            None => tag.id = new,
        }
        Ok(())
    });
    h.read("vlan_pcp", |e| vlan::priority(e.tag().tci()).to_string());
    h.write("vlan_pcp", |e, v, _| {
        let tag = e.tag_mut();
        tag.pcp = parse_signed(v.trim(), 0, 7)? as u8;
        tag.tci = tag.tci.map(|tci| tci & 0x1fff);
        Ok(())
    });
    if encapsulation {
        h.read("native_vlan", |e| e.tag().native.map_or("-1".to_owned(), |id| id.to_string()));
        h.write("native_vlan", |e, v, _| {
            e.tag_mut().native = id(v.trim(), -1)?;
            Ok(())
        });
    }
}
