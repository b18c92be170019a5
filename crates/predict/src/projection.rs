//! What a server with more of everything would do, as in RouteBricks, section 5.3.4: a packet loads each
//! component as it does here, and the first one that is full is the limit.

/// How many times more of each component another server has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Cycles of all processors together.
    pub cpu: f64,
    /// Bytes a second of memory.
    pub mem: f64,
    /// Bytes a second of the NICs' links.
    pub io: f64,
}

/// The most that a server is thought to have.
const MOST: f64 = 1e6;

impl Scale {
    /// Reads `cpu=4,mem=2,io=2`; what is not said stays as it is.
    ///
    /// # Errors
    /// A message for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut scale = Self { cpu: 1.0, mem: 1.0, io: 1.0 };
        for part in text.split(',').map(str::trim) {
            let wrong =
                || format!("'{part}': cpu, mem or io, and how many times more, as in cpu=4,mem=2,io=2");
            let (name, times) = part.split_once('=').ok_or_else(wrong)?;
            let place = match name.trim() {
                "cpu" => &mut scale.cpu,
                "mem" => &mut scale.mem,
                "io" => &mut scale.io,
                _ => return Err(wrong()),
            };
            *place = times.trim().parse().ok().filter(|x: &f64| *x > 0.0 && *x <= MOST).ok_or_else(wrong)?;
        }
        Ok(scale)
    }
}

/// What one component allows.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its name.
    pub name: &'static str,
    /// What of it a packet takes, and there is in a second, in this unit.
    pub unit: &'static str,
    /// What a packet takes.
    pub load: f64,
    /// What there is in a second, if that is known.
    pub capacity: Option<f64>,
    /// How many times more another server has.
    pub times: f64,
}

impl Component {
    /// Packets a second, here and there.
    #[must_use]
    pub fn rates(&self) -> Option<(f64, f64)> {
        let here = self.capacity.filter(|_| self.load > 0.0)? / self.load;
        Some((here, here * self.times))
    }
}

/// The component that is full first there, with its rate.
#[must_use]
pub fn limit(all: &[Component]) -> Option<(&Component, f64)> {
    let rates = all.iter().filter_map(|component| Some((component, component.rates()?.1)));
    rates.min_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_read() {
        assert_eq!(Scale::parse("cpu=4, mem=2,io=2"), Ok(Scale { cpu: 4.0, mem: 2.0, io: 2.0 }));
        assert_eq!(Scale::parse("mem=0.5").unwrap().cpu, 1.0);
        for wrong in ["", "cpu", "cpu=0", "cpu=-1", "cpu=inf", "cpu=1e9", "gpu=2", "cpu=4;mem=2"] {
            assert!(Scale::parse(wrong).unwrap_err().contains("as in cpu=4"), "{wrong}");
        }
    }

    #[test]
    fn the_next_server_of_the_paper_forwards_as_the_paper_expects() {
        // Minimal forwarding of 64-byte packets, 9.7 Gb/s with 8 x 2.8 GHz. Memory carries each packet four
        // times.
        let scale = Scale::parse("cpu=4,mem=2,io=2").unwrap();
        let bits = 64.0 * 8.0;
        let all = [
            Component {
                name: "memory",
                unit: "bits",
                load: 4.0 * bits,
                capacity: Some(262e9),
                times: scale.mem,
            },
            Component { name: "links", unit: "bits", load: bits, capacity: None, times: scale.io },
            Component {
                name: "processors",
                unit: "cycles",
                load: 8.0 * 2.8e9 / (9.7e9 / bits),
                capacity: Some(8.0 * 2.8e9),
                times: scale.cpu,
            },
        ];
        let (component, rate) = limit(&all).unwrap();
        assert_eq!(component.name, "processors");
        assert!((rate * bits - 38.8e9).abs() < 1e6, "{rate}");
        assert!(all[1].rates().is_none());
        // With memory as it was, more processors soon wait for it.
        let slow = [Component { times: 0.2, ..all[0].clone() }, all[2].clone()];
        assert_eq!(limit(&slow).unwrap().0.name, "memory");
    }
}
