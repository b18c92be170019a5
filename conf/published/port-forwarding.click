// port-forwarding.click: publish servers of the inside network on ports of one outside address.
// Web and ssh requests to the outside address are sent on to two machines inside; hosts inside are masqueraded.
// Frames go to fixed addresses: there is one router outside and a switch with known machines inside.

define($OUT 198.51.100.2, $WEB 10.10.0.80, $SSH 10.10.0.22);

rw :: IPRewriter(
  pattern $OUT 50000-50999# - - 0 1,     // from inside
  pattern - - $WEB 8080 1 0,             // to our port 80
  pattern - - $SSH 22 1 0,               // to our port 2222
  drop);                                 // replies

FromDevice(wan0)
  -> Classifier(12/0800)
  -> Strip(14)
  -> CheckIPHeader(CHECKSUM true)
  -> from_wan :: IPClassifier(dst host $OUT and tcp dst port 80,
                              dst host $OUT and tcp dst port 2222,
                              dst host $OUT and (tcp or udp),
                              -);
from_wan[0] -> [1] rw;
from_wan[1] -> [2] rw;
from_wan[2] -> [3] rw;
from_wan[3] -> stray :: Counter -> Discard;

FromDevice(lan0)
  -> Classifier(12/0800)
  -> Strip(14)
  -> CheckIPHeader
  -> IPClassifier(src net 10.10.0.0/24 and (tcp or udp))
  -> [0] rw;

rw[0] -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:fe) -> Queue -> ToDevice(wan0);
rw[1] -> where :: IPClassifier(dst host $WEB, dst host $SSH, -);
to_lan :: Queue -> ToDevice(lan0);
where[0] -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:80) -> to_lan;
where[1] -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:22) -> to_lan;
where[2] -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:33) -> to_lan;
