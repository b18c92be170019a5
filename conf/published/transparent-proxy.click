// transparent-proxy.click: a bump in the wire between clients (eth0) and the Internet (eth1) that sends web traffic to a
// proxy on eth2 without the clients knowing. All other frames pass untouched.

define($PROXY 10.0.0.128, $PROXYPORT 3128);

redirect :: TCPRewriter(pattern - - $PROXY $PROXYPORT 0 1, drop);

to_clients :: Queue(500) -> ToDevice(eth0);
to_internet :: Queue(500) -> ToDevice(eth1);
to_proxy :: Queue(500) -> ToDevice(eth2);

FromDevice(eth0, PROMISC true) -> c0 :: Classifier(12/0800, -);
c0[1] -> to_internet;
c0[0] -> CheckIPHeader(14) -> web :: IPClassifier(tcp dst port 80, -);
web[1] -> to_internet;
web[0] -> Strip(14) -> redirect;
redirect[0] -> EtherEncap(0x0800, 2:0:0:0:9:1, 2:0:0:0:9:2) -> to_proxy;

FromDevice(eth2, PROMISC true) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
  -> from_proxy :: IPClassifier(src host $PROXY and tcp src port $PROXYPORT, -);
from_proxy[0] -> [1] redirect;
from_proxy[1] -> EtherEncap(0x0800, 2:0:0:0:9:3, 2:0:0:0:9:4) -> to_internet;
// To the clients as if from the server.
redirect[1] -> EtherEncap(0x0800, 2:0:0:0:9:5, 2:0:0:0:9:6) -> to_clients;

FromDevice(eth1, PROMISC true) -> to_clients;
