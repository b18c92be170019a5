// traffic-accounting.click: counts a customer's bytes by kind, prints a line every second, and shuts the customer off when a quota is used up.

define($QUOTA 3000)

FromDevice(eth0, PROMISC true) -> Classifier(12/0800) -> MarkIPHeader(14)
  -> gate :: Switch(0)
  -> k :: IPClassifier(tcp dst port 80 or tcp dst port 443, udp, -);
gate[1] -> blocked :: Counter -> Discard;
k[0] -> web :: Counter -> out :: Queue -> ToDevice(eth1);
k[1] -> udp :: Counter -> out;
k[2] -> rest :: Counter -> out;

Script(TYPE ACTIVE,
  set n 0,
  label again, wait 1s,
  set n $(add $n 1),
  set used $(add $(web.byte_count) $(udp.byte_count) $(rest.byte_count)),
  printq "$n s: web $(web.byte_count) udp $(udp.byte_count) rest $(rest.byte_count) used $used",
  goto again $(lt $used $QUOTA),
  write gate.switch 1,
  printq "quota used up");
