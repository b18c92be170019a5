// A transparent firewall between an inside and an outside port. It has no address and no route.
//
// Run:     valiant run conf/firewall.click INSIDE=eth0 OUTSIDE=eth1
// Expect:  the inside may start anything; from the outside come only answers to TCP connections, DNS and NTP answers,
//          ping and ICMP errors, and ssh. Anything else is counted at refused.
// Counters: the count handler of refused; whole.drops and whole.dump for fragments.
// Note:    there is no state: "answer" means a TCP segment with ACK or RST, which opens no connection.
//          What comes from the outside in fragments is put together first, so that the rules see whole packets however
//          small the fragments are and however they overlap (RFC 1858, RFC 3128), and cut again on its way in. The rules say
//          what may come in, and never what may not: `not (tcp opt syn)` would also be true of packets that do not tell.

define($INSIDE eth0, $OUTSIDE eth1, $MTU 1500);

// Inside to outside: ARP and IPv4, nothing else.
FromDevice($INSIDE) -> out :: Classifier(12/0806, 12/0800, -);
to_outside :: Queue -> ToDevice($OUTSIDE);
out[0], out[1] -> to_outside;
out[2] -> Discard;

// Outside to inside.
FromDevice($OUTSIDE) -> in :: Classifier(12/0806, 12/0800, -);
to_inside :: Queue -> ToDevice($INSIDE);
in[0] -> to_inside;
in[1] -> CheckIPHeader(14) -> whole :: IPReassembler -> rules :: IPFilter(
    1     src net 127.0.0.0/8,
    allow tcp dst port ssh,
    allow tcp and (tcp opt ack or tcp opt rst),
    allow udp src port 53 or udp src port 123,
    allow icmp type echo or icmp type echo-reply or icmp type unreachable or icmp type timeexceeded,
    1     all) -> IPFragmenter($MTU, HONOR_DF false, LINK_HEADER true) -> to_inside;
rules[1] -> refused :: Counter -> Discard;
in[2] -> Discard;
