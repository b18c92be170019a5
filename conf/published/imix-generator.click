// imix-generator.click: the "simple IMIX": 7 small, 4 medium and 1 large packet, in turn, as a load for a device under test.

elementclass Frames { $len, $port |
  InfiniteSource(DATASIZE $len, LIMIT 1000) -> UDPIPEncap(198.18.0.1, $port, 198.19.0.1, 9)
    -> EtherEncap(0x0800, 00:00:00:00:00:01, 00:00:00:00:00:02) -> Queue(10) -> output;
}

mix :: StrideSched(7, 4, 1);
Frames(18, 1000) -> [0] mix;
Frames(528, 1001) -> [1] mix;
Frames(1458, 1002) -> [2] mix;
mix -> RatedUnqueue(1200) -> head :: Counter(COUNT_CALL 24 stop) -> Queue(100) -> ToDevice(eth0);
