//! IP version 4: checking, changing, fragmenting and reassembling packets.

pub(crate) mod checkipheader;
pub(crate) mod decipttl;
pub(crate) mod engine;
mod eraseippayload;
pub(crate) mod fixipsrc;
mod forceip;
pub(crate) mod getipaddress;
mod ipencap;
pub(crate) mod ipfragmenter;
pub(crate) mod ipgwoptions;
mod ipinputcombo;
mod ipmirror;
mod ipoutputcombo;
mod ipprint;
mod ipreassembler;
mod markipce;
mod markipheader;
mod resetipchecksum;
mod setipaddress;
mod setipchecksum;
mod setipdscp;
mod setipecn;
mod setrandipaddress;
mod storeipaddress;
mod stripipheader;
mod striptonetworkheader;
mod truncateippayload;
mod unstripipheader;

use runtime::{Registry, simple, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(simple::<checkipheader::CheckIPHeader<true>>());
    r.add(simple::<checkipheader::CheckIPHeader<false>>());
    r.add(simple::<decipttl::DecIPTTL>());
    r.add(simple::<eraseippayload::EraseIpPayload>());
    r.add(simple::<fixipsrc::FixIPSrc>());
    r.add(simple::<forceip::ForceIP>());
    r.add(simple::<getipaddress::GetIPAddress>());
    r.add(simple::<ipencap::IPEncap>());
    r.add(vector::<ipfragmenter::IPFragmenter>());
    r.add(simple::<ipgwoptions::IPGWOptions>());
    r.add(simple::<ipinputcombo::IPInputCombo>());
    r.add(simple::<ipmirror::IPMirror>());
    r.add(vector::<ipoutputcombo::IPOutputCombo>());
    r.add(simple::<ipprint::IPPrint>());
    r.add(simple::<ipreassembler::IPReassembler>());
    r.add(simple::<markipce::MarkIPCE>());
    r.add(simple::<markipheader::MarkIPHeader>());
    r.add(simple::<setipaddress::SetIPAddress>());
    r.add(simple::<setipchecksum::SetIPChecksum>());
    r.add(simple::<resetipchecksum::ResetIPChecksum>());
    r.add(simple::<setipdscp::SetIPDSCP>());
    r.add(simple::<setipecn::SetIPECN>());
    r.add(simple::<setrandipaddress::SetRandIPAddress>());
    r.add(simple::<storeipaddress::StoreIPAddress>());
    r.add(simple::<stripipheader::StripIPHeader>());
    r.add(simple::<striptonetworkheader::StripToNetworkHeader>());
    r.add(simple::<truncateippayload::TruncateIpPayload>());
    r.add(simple::<unstripipheader::UnstripIPHeader>());
}
