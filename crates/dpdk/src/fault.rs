//! Injected failures, for tests: the nth request of a kind on this thread fails.
//!
//! Each thread has its own, so that tests do not affect each other. Without the feature `testing` nothing of
//! this is compiled, and checks cost nothing.

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Fault {
    /// A buffer, or several at once, from a pool.
    Buffer,
    /// A buffer from the heap.
    Heap,
    /// Sending: the device takes nothing.
    Send,
    /// Receiving: the device has nothing.
    Receive,
    /// A pool.
    Pool,
    /// A session of a crypto device.
    Session,
    /// A crypto device's start.
    Device,
    /// A crypto device's answers: it gives nothing back.
    Answer,
}

/// How many kinds there are.
#[cfg(any(test, feature = "testing"))]
const KINDS: usize = Fault::Answer as usize + 1;

#[cfg(any(test, feature = "testing"))]
mod orders {
    use super::{Fault, KINDS};
    use std::cell::Cell;

    /// The number of requests, and the range of requests that fail.
    #[derive(Clone, Copy)]
    struct Order {
        asked: u64,
        from: u64,
        to: u64,
    }

    thread_local! {
        static ORDERS: [Cell<Order>; KINDS] =
            const { [const { Cell::new(Order { asked: 0, from: 0, to: 0 }) }; KINDS] };
    }

    impl Fault {
        /// From the nth time on, `times` requests of this thread fail; the first is number 1.
        pub fn order(self, nth: u64, times: u64) {
            let order = Order { asked: 0, from: nth, to: nth.saturating_add(times) };
            ORDERS.with(|orders| orders[self as usize].set(order));
        }

        /// Ends the failures. Returns the number of requests since [`Fault::order`].
        pub fn clear(self) -> u64 {
            ORDERS.with(|orders| orders[self as usize].replace(Order { asked: 0, from: 0, to: 0 })).asked
        }

        /// Counts a request; whether it fails.
        pub(crate) fn strikes(self) -> bool {
            let strike = |orders: &[Cell<Order>; KINDS]| {
                let mut order = orders[self as usize].get();
                order.asked += 1;
                orders[self as usize].set(order);
                (order.from..order.to).contains(&order.asked)
            };
            ORDERS.try_with(strike).unwrap_or(false)
        }
    }
}

#[cfg(not(any(test, feature = "testing")))]
impl Fault {
    /// No request fails.
    #[inline(always)]
    pub(crate) const fn strikes(self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packet;

    #[test]
    fn what_was_ordered_fails_and_nothing_else() {
        let made = || Packet::from_bytes(&[1; 60]).is_some();
        Fault::Heap.order(2, 2);
        assert_eq!([made(), made(), made(), made()], [true, false, false, true]);
        assert_eq!(Fault::Heap.clear(), 4);
        assert!(made());
        Fault::Heap.order(1, 1);
        assert!(std::thread::spawn(move || Packet::from_bytes(&[1]).is_some()).join().unwrap());
        assert!(!made());
        Fault::Heap.clear();
    }

    #[test]
    fn packets_without_memory_are_none() {
        let packet = Packet::from_bytes(&[7; 2000]).unwrap();
        Fault::Heap.order(1, u64::MAX);
        assert!(Packet::alloc(0, 1).is_none() && packet.duplicate().is_none());
        assert_eq!(crate::Batch::new().push_empty(3), 0);
        assert!(packet.push(1000).is_none());
        Fault::Heap.clear();
    }
}
