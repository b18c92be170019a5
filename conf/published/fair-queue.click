// fair-queue.click: stochastic fair queueing. Flows are hashed to four queues by their source address, and deficit round robin serves
// them byte by byte, so that a greedy host cannot starve the others.

define($RATE 10)

FromDevice(eth0, PROMISC true) -> Classifier(12/0800) -> MarkIPHeader(14)
  -> hash :: HashSwitch(29, 1);

hash[0] -> Queue(100) -> [0] drr :: DRRSched(1000);
hash[1] -> Queue(100) -> [1] drr;
hash[2] -> Queue(100) -> [2] drr;
hash[3] -> Queue(100) -> [3] drr;
drr -> Shaper($RATE) -> ToDevice(eth1);
