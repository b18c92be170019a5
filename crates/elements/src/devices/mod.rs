//! Devices: DPDK ports and Linux interfaces.

mod dpdkinfo;
pub(crate) mod engine;
mod ensuredpdkbuffer;
mod fromdevice;
mod fromdpdkdevice;
mod fromdpdkring;
mod fromhost;
mod kerneltap;
mod kerneltun;
mod mcastsocket;
mod rawsocket;
mod socket;
mod todevice;
mod todpdkdevice;
mod todpdkring;
mod tohost;

pub use engine::hardware::converted as flow_rule;
use runtime::{Registry, inert, simple, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(inert::<dpdkinfo::DpdkInfo>());
    r.add(simple::<ensuredpdkbuffer::EnsureDpdkBuffer>());
    r.add(vector::<fromdevice::FromDevice>());
    r.add(vector::<fromdpdkdevice::FromDpdkDevice>());
    r.add(vector::<fromdpdkring::FromDpdkRing>());
    r.add(vector::<fromhost::FromHost>());
    r.add(vector::<kerneltap::KernelTap>());
    r.add(vector::<kerneltun::KernelTun>());
    r.add(vector::<mcastsocket::McastSocket>());
    r.add(vector::<rawsocket::RawSocket>());
    r.add(vector::<socket::Socket<socket::Both>>());
    r.add(vector::<socket::Socket<socket::From>>());
    r.add(vector::<socket::Socket<socket::To>>());
    r.add(vector::<todevice::ToDevice>());
    r.add(vector::<tohost::ToHost>());
    r.add(vector::<todpdkdevice::ToDpdkDevice>());
    r.add(vector::<todpdkring::ToDpdkRing>());
}
