// fastclick-forwarder.click: FastClick's way to forward between two DPDK ports on several cores: as many queues as threads, no Queue, and
// everything pushed to completion. Ethernet addresses are rewritten.

define($ifA 0, $ifB 1, $burst 32, $srcmac 02:00:00:00:00:01, $dstmac 02:00:00:00:00:02)

DPDKInfo(NB_SOCKET_MBUF 65536, MBUF_CACHE_SIZE 256);

fdA :: FromDPDKDevice($ifA, PROMISC true, BURST $burst, MAXTHREADS 2, RSS_AGGREGATE true, SCALE parallel, VERBOSE 2);
tdB :: ToDPDKDevice($ifB, BLOCKING true, IQUEUE 2048, NDESC 1024);

fdA -> CheckLength(1518) -> cnt :: CounterMP -> EtherRewrite($srcmac, $dstmac) -> tdB;

