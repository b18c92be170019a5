// measure.click: what a device under test does to traffic: loss, order, damage, latency.
//
//   valiant run conf/measure.click TO=eth1 BACK=eth2 RATE=1Mpps TIME=10s
//
// Frames leave by TO for the device and come back by BACK. DST is the device's Ethernet address. As given, both are one ring
// in memory, so that it runs anywhere. `valiant gen --to eth1 --sink eth2` measures the same with a report.

define($TO net_ring0, $BACK net_ring0, $RATE 10kpps, $TIME 1s, $DST 02:00:00:00:00:02);

source :: MeasureSource($RATE, DURATION $TIME, SIZE imix, FLOWS 64, DSTETH $DST, STOP true) -> ToDPDKDevice($TO);
FromDPDKDevice($BACK, PROMISC true) -> sink :: MeasureSink(AWAKE true);

// The last frames are still on their way when the source is done.
DriverManager(pause, wait 0.2s,
    print "sent       $(source.count)", print "received   $(sink.received)", print "reordered  $(sink.reordered)",
    print "damaged    $(sink.damaged)", print "latency    $(sink.latency)", stop);
