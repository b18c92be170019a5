// span-port.click: a two-port switch with a monitor port. Every frame is also sent to a sniffer on eth2, but no more than its first
// 96 bytes, and not those of the backup server.

sw :: ListenEtherSwitch;

FromDevice(eth0, PROMISC true) -> [0] sw;
FromDevice(eth1, PROMISC true) -> [1] sw;
sw[0] -> Queue -> ToDevice(eth0);
sw[1] -> Queue -> ToDevice(eth1);
sw[2] -> not_backup :: Classifier(0/0200000000bb, 6/0200000000bb, -);
not_backup[0], not_backup[1] -> skipped :: Counter -> Discard;
not_backup[2] -> Truncate(96) -> seen :: Counter -> mon :: Queue(50) -> ToDevice(eth2);
