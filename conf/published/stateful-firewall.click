// stateful-firewall.click: hosts inside may open any connection; from outside only what belongs to one comes in, and ssh to one host.
// An IPRewriter with patterns that change nothing keeps track of flows.

define($ADMIN 198.51.100.22)

track :: IPRewriter(keep 0 1, keep 1 0, drop, TCP_TIMEOUT 3600, UDP_TIMEOUT 30);

FromDevice(eth1) -> MarkMACHeader -> Strip(14) -> CheckIPHeader
  -> i :: IPClassifier(tcp or udp, -);
i[0] -> [0] track;
i[1] -> Discard;

FromDevice(eth0) -> MarkMACHeader -> Strip(14) -> CheckIPHeader
  -> o :: IPClassifier(dst host $ADMIN and tcp dst port ssh and tcp syn, tcp or udp, -);
o[0] -> [1] track;
o[1] -> [2] track;
o[2] -> Discard;

// Addresses do not change, nor do the Ethernet headers.
track[0] -> Unstrip(14) -> Queue -> ToDevice(eth0);
track[1] -> Unstrip(14) -> Queue -> ToDevice(eth1);

// Whoever wants to know: the table, once, after a while.
Script(TYPE ACTIVE, wait 0.9s, printq "flows: $(track.size)");
