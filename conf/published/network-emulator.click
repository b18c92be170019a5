// network-emulator.click: a long thin pipe between two ports, as dummynet does it: 100 kbit/s, 50 ms each way, and a queue of 5 packets.

elementclass Pipe { DELAY $delay, RATE $rate, SLOTS $slots |
  input -> q :: Queue($slots) -> LinkUnqueue($delay, $rate) -> out :: Queue(1000) -> output;
}

FromDevice(eth0, PROMISC true) -> there :: Pipe(DELAY 50ms, RATE 100kbps, SLOTS 5) -> ToDevice(eth1);
FromDevice(eth1, PROMISC true) -> back :: Pipe(RATE 100kbps, SLOTS 5, DELAY 50ms) -> ToDevice(eth0);
