//! The macro of every header view: it turns a table of fields into a type.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A value with a fixed encoding in network byte order.
pub(crate) trait Field: Copy {
    /// Encoded size in bytes.
    const SIZE: usize;
    /// Reads from exactly `SIZE` bytes.
    fn load(b: &[u8]) -> Self;
    /// Writes to exactly `SIZE` bytes.
    fn store(self, b: &mut [u8]);
}

/// A field of type `F` at `offset` lies inside a header of `len` bytes.
pub(crate) const fn fits<F: Field>(offset: usize, len: usize) -> bool {
    offset + F::SIZE <= len
}

macro_rules! field {
    ($ty:ty, $size:literal, $from:expr, $to:expr) => {
        impl Field for $ty {
            const SIZE: usize = $size;
            #[inline(always)]
            fn load(b: &[u8]) -> Self {
                let mut raw = [0u8; $size];
                raw.copy_from_slice(b);
                $from(raw)
            }
            #[inline(always)]
            fn store(self, b: &mut [u8]) {
                b.copy_from_slice(&$to(self));
            }
        }
    };
}

field!(u8, 1, u8::from_be_bytes, u8::to_be_bytes);
field!(u16, 2, u16::from_be_bytes, u16::to_be_bytes);
field!(u32, 4, u32::from_be_bytes, u32::to_be_bytes);
field!(Ipv4Addr, 4, Ipv4Addr::from, |a: Ipv4Addr| a.octets());
field!(Ipv6Addr, 16, Ipv6Addr::from, |a: Ipv6Addr| a.octets());

/// Defines a header view: `view! { /// doc  Name[bytes] { /// doc  type getter / setter @ offset; … } }`.
macro_rules! view {
    (
        $(#[$doc:meta])*
        $name:ident[$len:literal] {
            $( $(#[$fdoc:meta])* $ty:ty, $get:ident / $set:ident @ $off:literal; )*
        }
    ) => {
        /// Bytes of the fixed part of the header.
        pub const HEADER_LEN: usize = $len;

        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<B>(B);

        impl<'a> $name<&'a [u8; $len]> {
            /// The header at the start of `bytes`; `None` when they are too few.
            #[inline(always)]
            pub fn new(bytes: &'a [u8]) -> Option<Self> {
                bytes.first_chunk().map(Self)
            }

            /// The header at the start of `bytes` and what follows it; `None` when they are too few.
            #[inline(always)]
            pub fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
                bytes.split_first_chunk().map(|(h, rest)| (Self(h), rest))
            }
        }

        impl<'a> $name<&'a mut [u8; $len]> {
            /// The header at the start of `bytes`, to be changed in place; `None` when they are too few.
            #[inline(always)]
            pub fn new_mut(bytes: &'a mut [u8]) -> Option<Self> {
                bytes.first_chunk_mut().map(Self)
            }

            /// As `new_mut`, with what follows the header.
            #[inline(always)]
            pub fn split_mut(bytes: &'a mut [u8]) -> Option<(Self, &'a mut [u8])> {
                bytes.split_first_chunk_mut().map(|(h, rest)| (Self(h), rest))
            }
        }

        impl $name<[u8; $len]> {
            /// A header that owns its bytes, all zero.
            #[inline(always)]
            pub const fn zeroed() -> Self {
                Self([0; $len])
            }
        }

        impl<B: std::borrow::Borrow<[u8; $len]>> $name<B> {
            /// A view of exactly these bytes.
            #[inline(always)]
            pub fn wrap(bytes: B) -> Self {
                Self(bytes)
            }

            /// The bytes of the header.
            #[inline(always)]
            pub fn bytes(&self) -> &[u8; $len] {
                self.0.borrow()
            }

            /// A copy that borrows nothing.
            #[inline(always)]
            pub fn to_owned(&self) -> $name<[u8; $len]> {
                $name(*self.bytes())
            }

            $(
                $(#[$fdoc])*
                #[inline(always)]
                pub fn $get(&self) -> $ty {
                    const { assert!($crate::view::fits::<$ty>($off, $len)) };
                    <$ty as $crate::view::Field>::load(
                        &self.bytes()[$off..$off + <$ty as $crate::view::Field>::SIZE],
                    )
                }
            )*
        }

        impl<B: std::borrow::BorrowMut<[u8; $len]>> $name<B> {
            /// The bytes of the header, to be changed.
            #[inline(always)]
            pub fn bytes_mut(&mut self) -> &mut [u8; $len] {
                self.0.borrow_mut()
            }

            $(
                #[doc = concat!("Sets [`", stringify!($get), "`](Self::", stringify!($get), ").")]
                #[inline(always)]
                pub fn $set(&mut self, value: $ty) {
                    const { assert!($crate::view::fits::<$ty>($off, $len)) };
                    <$ty as $crate::view::Field>::store(
                        value,
                        &mut self.bytes_mut()[$off..$off + <$ty as $crate::view::Field>::SIZE],
                    )
                }
            )*
        }
    };
}
