// codel-uplink.click: a bottleneck of 80 kbit/s with controlled delay (RFC 8289) instead of a long queue.

FromDevice(eth0, PROMISC true)
  -> SetTimestamp(FIRST true)
  -> q :: Queue(1000)
  -> codel :: CoDel(5ms, 100ms)
  -> link :: BandwidthShaper(80kbps)
  -> ToDevice(eth1);
