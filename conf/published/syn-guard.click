// syn-guard.click: lets no more than a few new connections a second through to a server, and gives other traffic free way. The limit can
// be changed while it runs: write guard.rate.

define($SERVER 192.0.2.80, $RATE 5)

FromDevice(eth0, PROMISC true) -> c :: Classifier(12/0800, -) -> MarkIPHeader(14)
  -> syn :: IPClassifier(dst host $SERVER and tcp syn and not tcp ack, -);
out :: Queue(2000) -> ToDevice(eth1);
c[1] -> out;
syn[1] -> out;
syn[0] -> guard :: RatedSplitter($RATE, BURST_SIZE 3) -> passed :: Counter -> out;
guard[1] -> refused :: Counter -> Discard;

FromDevice(eth1, PROMISC true) -> Queue(2000) -> ToDevice(eth0);

Script(wait 1s, write guard.rate 50, wait 1s, printq "passed $(passed.count), refused $(refused.count), limit $(guard.rate)");
