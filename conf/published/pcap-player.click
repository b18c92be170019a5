// pcap-player.click: plays a capture twice, as fast as it was recorded, with other addresses, and stops.
// valiant run pcap-player.click FILE=capture.pcap

define($FILE trace.pcap, $DEV eth0)

FromDump($FILE, STOP false)
  -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
  -> StoreIPAddress(198.18.0.1, 12)
  -> StoreIPAddress(198.19.0.1, 16)
  -> SetIPChecksum
  -> tu :: IPClassifier(tcp, udp, -);
tu[0] -> SetTCPChecksum -> enc :: EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02);
tu[1] -> SetUDPChecksum -> enc;
tu[2] -> enc;
enc -> Queue(100000) -> replay :: ReplayUnqueue(STOP 2, TIMING 1, USE_SIGNAL true) -> sent :: Counter -> Queue(1000) -> ToDevice($DEV);

// What is still in the queue leaves before the driver stops.
DriverManager(wait_stop, wait 100ms, stop);
