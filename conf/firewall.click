// A transparent firewall between an inside and an outside port. It has no address and no route.
//
// Run:     valiant run conf/firewall.click INSIDE=eth0 OUTSIDE=eth1
// Expect:  the inside may start anything; from the outside come only answers to TCP connections, DNS and NTP answers,
//          ping and ICMP errors, and ssh. Anything else is counted at refused.
// Counters: the count handler of refused.
// Note:    there is no state: "answer" means a TCP segment that does not open a connection.

define($INSIDE eth0, $OUTSIDE eth1);

// Inside to outside: ARP and IPv4, nothing else.
FromDevice($INSIDE) -> out :: Classifier(12/0806, 12/0800, -);
to_outside :: Queue -> ToDevice($OUTSIDE);
out[0], out[1] -> to_outside;
out[2] -> Discard;

// Outside to inside.
FromDevice($OUTSIDE) -> in :: Classifier(12/0806, 12/0800, -);
to_inside :: Queue -> ToDevice($INSIDE);
in[0] -> to_inside;
in[1] -> CheckIPHeader(14) -> rules :: IPFilter(
    1     src net 127.0.0.0/8,
    allow tcp dst port ssh,
    allow tcp and not (tcp opt syn and not tcp opt ack),
    allow udp src port 53 or udp src port 123,
    allow icmp type echo or icmp type echo-reply or icmp type unreachable or icmp type timeexceeded,
    1     all) -> to_inside;
rules[1] -> refused :: Counter -> Discard;
in[2] -> Discard;
