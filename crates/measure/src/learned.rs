//! The addresses and ports with which measured frames arrive: what a device has made of those that they were
//! sent with, and how frames go back. It is the state table of the Responder of RFC 9693.
//!
//! As text it is a line `ether SOURCE DESTINATION` and a line `flow SOURCE DESTINATION SPORT DPORT` for each
//! flow, all in the direction back.

use crate::flows::Tuple;
use crate::hop::datagram;
use crate::tag::{MAX_FLOWS, Tag};
use crate::{Bad, bad};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{EtherAddr, Ethernet, Udp, ethernet};

/// The flows of a stream whose numbers are below a bound. Its memory is taken at the beginning.
#[derive(Clone, Debug)]
pub struct Learned {
    stream: u8,
    flows: Box<[Option<Entry>]>,
    known: usize,
    /// Whether the flows are those that frames must arrive with: what arrives changes nothing.
    expected: bool,
    /// Frames that did not.
    changed: u64,
    /// Source and destination of a frame that goes back.
    ether: Option<(EtherAddr, EtherAddr)>,
}

/// The addresses and ports of a frame that goes back; those of IPv4 are in the first four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    six: bool,
    src: [u8; 16],
    dst: [u8; 16],
    sport: u16,
    dport: u16,
}

fn padded(four: Ipv4Addr) -> [u8; 16] {
    let [a, b, c, d] = four.octets();
    [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

impl Entry {
    fn of(tuple: &Tuple<IpAddr>) -> Self {
        let bytes = |address| match address {
            IpAddr::V4(four) => padded(four),
            IpAddr::V6(six) => six.octets(),
        };
        let Tuple { src, dst, sport, dport } = *tuple;
        Self { six: src.is_ipv6(), src: bytes(src), dst: bytes(dst), sport, dport }
    }

    fn tuple(&self) -> Tuple<IpAddr> {
        let address = |bytes: [u8; 16]| match (self.six, bytes) {
            (true, bytes) => IpAddr::from(bytes),
            (false, [a, b, c, d, ..]) => Ipv4Addr::new(a, b, c, d).into(),
        };
        Tuple { src: address(self.src), dst: address(self.dst), sport: self.sport, dport: self.dport }
    }
}

/// The way back of a frame with UDP.
fn back(frame: &[u8]) -> Option<Entry> {
    let at = datagram(frame)?;
    let (udp, _) = Udp::split(frame.get(at..)?)?;
    let (sport, dport) = (udp.dst_port(), udp.src_port());
    let (kind, network) = crate::classify::network(frame)?;
    let packet = frame.get(network..)?;
    Some(match kind {
        ethernet::ETHERTYPE_IPV4 => {
            let header = wire::Ipv4::new(packet)?;
            Entry { six: false, src: padded(header.dst()), dst: padded(header.src()), sport, dport }
        }
        _ => {
            let (header, _) = wire::Ipv6::split(packet)?;
            Entry { six: true, src: header.dst().octets(), dst: header.src().octets(), sport, dport }
        }
    })
}

impl Learned {
    /// Of flows 0 to `flows` - 1 of a stream.
    #[must_use]
    pub fn new(stream: u8, flows: u32) -> Self {
        let flows = vec![None; flows.min(MAX_FLOWS) as usize].into_boxed_slice();
        Self { stream, flows, known: 0, expected: false, changed: 0, ether: None }
    }

    /// A frame with this tag arrives. The last one of a flow counts.
    #[inline]
    pub fn arrive(&mut self, tag: &Tag, frame: &[u8]) {
        if tag.stream != self.stream {
            return;
        }
        let (Some(place), Some(entry)) = (self.flows.get_mut(tag.flow as usize), back(frame)) else { return };
        if self.expected {
            self.changed += u64::from(*place != Some(entry));
            return;
        }
        self.known += usize::from(place.is_none());
        *place = Some(entry);
        if self.ether.is_none() {
            self.ether = Ethernet::split(frame).map(|(ether, _)| (ether.dst(), ether.src()));
        }
    }

    /// From now on these are the flows that frames must arrive with, with addresses and ports as they have
    /// been learned: it is counted which do not, and nothing is learned. [`Learned::clear`] ends that.
    pub fn expect(&mut self, answers: &Answers) {
        self.clear();
        (self.expected, self.ether) = (true, answers.ether);
        for (flow, tuple) in &answers.flows {
            if let Some(place) = self.flows.get_mut(*flow as usize) {
                self.known += usize::from(place.is_none());
                *place = Some(Entry::of(tuple));
            }
        }
    }

    /// Frames that have arrived with other addresses or ports than [`Learned::expect`] has been told.
    #[must_use]
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// Whether it is of as many flows of the same stream.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (self.stream, self.flows.len()) == (other.stream, other.flows.len())
    }

    /// Of how many flows a frame has arrived.
    #[must_use]
    pub fn known(&self) -> usize {
        self.known
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.flows.fill(None);
        (self.known, self.expected, self.changed, self.ether) = (0, false, 0, None);
    }

    /// As text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.ether.map_or_else(String::new, |(src, dst)| format!("ether {src:#} {dst:#}\n"));
        let flows = (0..).zip(&self.flows).filter_map(|(flow, entry)| Some((flow, entry.as_ref()?.tuple())));
        flows.for_each(|(flow, tuple)| text += &line(flow, &tuple));
        text
    }
}

/// A flow's line.
pub fn line<A: std::fmt::Display>(flow: u32, tuple: &Tuple<A>) -> String {
    let Tuple { src, dst, sport, dport } = tuple;
    format!("{flow} {src} {dst} {sport} {dport}\n")
}

/// What a text of [`Learned::text`] says; those of several sinks may follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Source and destination of frames.
    pub ether: Option<(EtherAddr, EtherAddr)>,
    /// The number of each flow, and its addresses and ports.
    pub flows: Vec<(u32, Tuple<IpAddr>)>,
}

impl Answers {
    /// Reads it.
    ///
    /// # Errors
    /// A line is not of this form.
    pub fn read(text: &str) -> Result<Self, Bad> {
        let mut answers = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let mut read = || match words[..] {
                [] => Some(()),
                ["ether", src, dst] => {
                    answers.ether = Some((src.parse().ok()?, dst.parse().ok()?));
                    Some(())
                }
                [flow, src, dst, sport, dport] => {
                    let flow = flow.parse().ok().filter(|flow| *flow < MAX_FLOWS)?;
                    let (src, dst): (IpAddr, IpAddr) = (src.parse().ok()?, dst.parse().ok()?);
                    let tuple = Tuple { src, dst, sport: sport.parse().ok()?, dport: dport.parse().ok()? };
                    (src.is_ipv6() == dst.is_ipv6()).then(|| answers.flows.push((flow, tuple)))
                }
                _ => None,
            };
            if read().is_none() {
                return bad(format!(
                    "'{line}' is no flow: 'FLOW SOURCE DESTINATION SPORT DPORT', or 'ether SOURCE DESTINATION'"
                ));
            }
        }
        Ok(answers)
    }

    /// Those with one IP version, if all have it.
    #[must_use]
    pub fn of_four(&self) -> Option<Vec<(u32, Tuple<Ipv4Addr>)>> {
        let four = |address| if let IpAddr::V4(four) = address { Some(four) } else { None };
        self.of(four)
    }

    /// The same for IPv6.
    #[must_use]
    pub fn of_six(&self) -> Option<Vec<(u32, Tuple<Ipv6Addr>)>> {
        let six = |address| if let IpAddr::V6(six) = address { Some(six) } else { None };
        self.of(six)
    }

    fn of<A>(&self, as_version: impl Fn(IpAddr) -> Option<A>) -> Option<Vec<(u32, Tuple<A>)>> {
        let one = |(flow, tuple): &(u32, Tuple<IpAddr>)| {
            let (src, dst) = (as_version(tuple.src)?, as_version(tuple.dst)?);
            Some((*flow, Tuple { src, dst, sport: tuple.sport, dport: tuple.dport }))
        };
        self.flows.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Family, Flow, Stamp, Template};
    use crate::tag::identity;

    const SRC: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
    const DST: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 2]);

    fn frame<A: Family>(flow: u32, src: A, dst: A, sport: u16, dport: u16) -> Vec<u8> {
        let template = Template::<A>::new(SRC, DST, 64, 80);
        let mut flow = Flow::new(&Tuple { src, dst, sport, dport }, identity(0, 1, flow));
        let mut frame = template.bytes(80).to_vec();
        assert!(template.stamp(&mut frame, &mut flow, Stamp::new(0)));
        frame
    }

    fn learn(learned: &mut Learned, frame: &[u8]) {
        let tag = crate::hop::read(frame).unwrap();
        learned.arrive(&tag, frame);
    }

    #[test]
    fn frames_go_back_where_they_came_from() {
        let mut learned = Learned::new(1, 4);
        learn(&mut learned, &frame::<Ipv4Addr>(3, [10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 1000, 9));
        learn(&mut learned, &frame::<Ipv6Addr>(0, "2001:2::1".parse().unwrap(), Ipv6Addr::LOCALHOST, 7, 8));
        // Beyond the table, and the same flow with another port.
        learn(&mut learned, &frame::<Ipv4Addr>(4, [10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 1000, 9));
        learn(&mut learned, &frame::<Ipv4Addr>(3, [10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 1001, 9));
        assert_eq!(learned.known(), 2);
        let text = learned.text();
        assert_eq!(
            text,
            "ether 02:00:00:00:00:02 02:00:00:00:00:01\n0 ::1 2001:2::1 8 7\n3 10.0.0.2 10.0.0.1 9 1001\n"
        );
        let answers = Answers::read(&text).unwrap();
        assert_eq!((answers.ether, answers.flows.len()), (Some((DST, SRC)), 2));
        assert!(answers.of_four().is_none() && answers.of_six().is_none(), "both versions");
        learned.clear();
        assert_eq!((learned.known(), learned.text()), (0, String::new()));
    }

    #[test]
    fn frames_of_connections_that_were_forgotten_have_changed() {
        let mut learned = Learned::new(1, 3);
        let of = |flow, sport| frame::<Ipv4Addr>(flow, [10, 0, 0, 1].into(), [10, 0, 0, 2].into(), sport, 9);
        learn(&mut learned, &of(0, 1000));
        learn(&mut learned, &of(1, 1001));
        let text = learned.text();
        learned.expect(&Answers::read(&text).unwrap());
        assert_eq!((learned.known(), learned.changed(), learned.text() == text), (2, 0, true));
        // As before; with another port, twice; one that was not set up.
        [of(0, 1000), of(1, 2000), of(1, 2000), of(2, 1002)].iter().for_each(|one| learn(&mut learned, one));
        assert_eq!((learned.changed(), learned.text() == text), (3, true), "nothing is learned");
        learned.clear();
        learn(&mut learned, &of(1, 2000));
        assert_eq!((learned.known(), learned.changed()), (1, 0));
        // Of IPv6 too, and flows beyond the table are no harm.
        learned.expect(&Answers::read("0 2001:2::1 ::1 8 7\n9 ::1 ::1 1 2\n").unwrap());
        learn(&mut learned, &frame::<Ipv6Addr>(0, Ipv6Addr::LOCALHOST, "2001:2::1".parse().unwrap(), 7, 8));
        assert_eq!((learned.known(), learned.changed()), (1, 0));
    }

    #[test]
    fn frames_of_other_streams_and_short_ones_are_nothing() {
        let mut learned = Learned::new(0, 4);
        let whole = frame::<Ipv4Addr>(1, [10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 1, 2);
        learn(&mut learned, &whole);
        assert_eq!(learned.known(), 0);
        let mut learned = Learned::new(1, 4);
        let tag = crate::hop::read(&whole).unwrap();
        (0..42).for_each(|len| learned.arrive(&tag, &whole[..len]));
        assert_eq!(learned.known(), 0);
    }

    #[test]
    fn texts_of_another_form_are_refused() {
        for text in
            ["1 2 3", "x 10.0.0.1 10.0.0.2 1 2", "1 10.0.0.1 ::1 1 2", "1048576 ::1 ::1 1 2", "ether a b"]
        {
            assert!(Answers::read(text).is_err(), "{text}");
        }
        let answers = Answers::read("\n5 ::1 ::2 1 2\n").unwrap();
        assert_eq!(answers.of_six().unwrap()[0].0, 5);
        assert!(answers.of_four().is_none());
    }
}
